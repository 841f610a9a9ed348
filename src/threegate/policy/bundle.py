"""The compiled policy: one canonical value per section, and where each rule was written.

A section's digest covers its rules and nothing else: rewording the prose, moving a rule
to another line or another example leaves it, and every approval bound to it, as it was.

SECURITY
    `parse_bundle` reads bytes from the workspace or from the host that starts a gate.
    Every section is typed and checked again, so a bundle can hold nothing that a policy
    file could not.  Whether anybody signed it is the caller's question.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import PolicyInvalid, VersionUnsupported
from threegate.base.limits import MAX_BUNDLE_BYTES
from threegate.keys.signers import Signers
from threegate.policy.decision import RuleRef
from threegate.policy.nodes import Change, PolicyReason, Value, frozen, invalid, plain
from threegate.policy.sections import BY_NAME, FILES, GATES, SECTION_NAMES, SECTIONS, SIGNERS
from threegate.policy.sections.gates import check_gates, compare_gates
from threegate.policy.sections.signers import compare_signers, signers_of

FORMAT: Final = "bundle/1"
NAMESPACE: Final = "threegate-policy"  # of a signature over a bundle
KEYS: Final = ("format", "generation", "previous", "refs", "sections")
MAX_GENERATION: Final = 2**53 - 1
_DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")
_NEWER: Final = re.compile(r"bundle/[1-9][0-9]{0,8}\Z")

Lines = Mapping[str, int]


@dataclass(frozen=True)
class Compiled:
    """A policy that was read and is consistent; it is not signed yet."""

    sections: Mapping[str, Value] = field(repr=False)
    refs: Mapping[str, Lines] = field(repr=False)

    def value(self, *path: str) -> Value:
        """Return the value at `path`; the first name is the section's."""
        try:
            return self._looked_up[path]
        except KeyError:
            pass
        found: Value = self.sections
        for key in path:
            assert isinstance(found, Mapping), path
            found = found[key]
        self._looked_up[path] = found  # what is not there is not kept: a name may be foreign
        return found

    def has(self, *path: str) -> bool:
        """Tell whether there is a rule at `path`; the last name may be foreign."""
        below = self.value(*path[:-1])
        return isinstance(below, Mapping) and path[-1] in below

    def integer(self, *path: str) -> int:
        """Return the number at `path`."""
        found = self.value(*path)
        assert isinstance(found, int), path
        return found

    def text(self, *path: str) -> str:
        """Return the word at `path`."""
        found = self.value(*path)
        assert isinstance(found, str), path
        return found

    def words(self, *path: str) -> tuple[str, ...]:
        """Return the words of the list at `path`, or the names in the table there."""
        found = self.value(*path)
        assert isinstance(found, tuple | Mapping), path
        return tuple(item for item in found if isinstance(item, str))

    def ref(self, *path: str) -> RuleRef:
        """Return file and line of the rule at `path`."""
        section, *below = path
        return RuleRef(f"policy/{FILES[section]}", self.refs[section]["/".join(below)])

    # A policy never changes, and one run asks for these thousands of times.
    @cached_property
    def signers(self) -> Signers:
        """Return whose signature counts."""
        return signers_of(self.sections[SIGNERS])

    def section_digest(self, name: str) -> str:
        """Return the digest an approval binds: the rules of one section, without prose."""
        return self._section_digests[name]

    @cached_property
    def functions_sha256(self) -> str:
        """Return the digest over names, bounds and sources of the external functions."""
        table = plain(self.value("tool-exec", "functions"))
        return _sha256(canonical.encode({"functions": table}))

    @cached_property
    def _looked_up(self) -> dict[tuple[str, ...], Value]:
        return {}

    @cached_property
    def _section_digests(self) -> dict[str, str]:
        return {
            name: _sha256(canonical.encode({name: plain(rules)}))
            for name, rules in self.sections.items()
        }

    def bundle(self, *, generation: int = 1, previous: str | None = None) -> "Bundle":
        """Return the bundle to sign; `previous` is the digest of the one it replaces."""
        _check_place(generation, previous)
        return Bundle(self.sections, self.refs, generation, previous)


@dataclass(frozen=True)
class Bundle(Compiled):
    """A policy with its number and predecessor."""

    generation: int
    previous: str | None

    def bundle_bytes(self) -> bytes:
        """Return the canonical bytes of this bundle."""
        return canonical.encode(
            {
                "format": FORMAT,
                "generation": self.generation,
                "previous": self.previous,
                "refs": {name: dict(lines) for name, lines in self.refs.items()},
                "sections": {name: plain(value) for name, value in self.sections.items()},
            }
        )

    @cached_property
    def digest(self) -> str:
        """Return the name of this bundle: the SHA-256 of its bytes."""
        return _sha256(self.bundle_bytes())


def parse_bundle(data: bytes) -> Bundle:
    """Return the bundle in `data`, or raise `PolicyInvalid`."""
    if len(data) > MAX_BUNDLE_BYTES:
        raise _refuse(f"{len(data)} bytes, limit {MAX_BUNDLE_BYTES}")
    try:
        value = canonical.decode(data)
    except ValueError as exc:
        raise _refuse("not canonical JSON") from exc
    if not isinstance(value, dict):
        raise _refuse("not an object")
    _check_format(value.get("format"))
    if tuple(value) != KEYS:
        raise _refuse("unexpected keys")
    _check_place(value["generation"], value["previous"])
    sections, lines = read_sections(value["sections"])
    refs = _refs(value["refs"], lines)
    return Bundle(sections, refs, value["generation"], value["previous"])


def read_sections(value: Any) -> tuple[Mapping[str, Value], Mapping[str, Lines]]:
    """Return plain sections typed and checked again, with the rules they hold."""
    if not isinstance(value, dict) or sorted(value) != sorted(SECTION_NAMES):
        raise _refuse("unexpected sections")
    sections: dict[str, Value] = {}
    lines: dict[str, Lines] = {}
    for name in SECTION_NAMES:
        stored = frozen(value[name])
        if name == SIGNERS:
            lines[name] = signer_lines(signers_of(stored))
            sections[name] = stored
        elif name == GATES:
            check_gates(stored)
            sections[name], lines[name] = stored, {}  # of the program, so in no line of a file
        else:
            sections[name], lines[name] = _read_section(name, stored)
    return MappingProxyType(sections), lines


def signer_lines(signers: Signers) -> Lines:
    """Return the line of each key; the file has one key per line."""
    return {entry.key.fingerprint: line for line, entry in enumerate(signers.entries, 1)}


def _read_section(name: str, stored: Value) -> tuple[Value, Lines]:
    if not isinstance(stored, Mapping):
        raise _refuse(f"section {name} is not an object")
    try:
        rules, reader = BY_NAME[name].read_value(stored)
    except PolicyInvalid as exc:
        raise _refuse(f"section {name}, {exc.message}") from exc
    if rules != stored:  # a number as text, a list in another order, an example
        raise _refuse(f"section {name} is not spelled canonically")
    return rules, {"/".join(path[1:]): line for path, line in reader.lines.items()}


def _refs(value: Any, expected: Mapping[str, Lines]) -> Mapping[str, Lines]:
    if not isinstance(value, dict) or sorted(value) != sorted(expected):
        raise _refuse("unexpected refs")
    for name, lines in value.items():
        if not isinstance(lines, dict) or lines.keys() != expected[name].keys():
            raise _refuse(f"refs of section {name} do not name its rules")
        if not all(type(line) is int and 0 < line < 10**6 for line in lines.values()):
            raise _refuse(f"refs of section {name} are not line numbers")
    return MappingProxyType({name: MappingProxyType(lines) for name, lines in value.items()})


def _check_format(found: Any) -> None:
    if isinstance(found, str) and found != FORMAT and _NEWER.match(found):
        raise VersionUnsupported(f"bundle has format {found}, newer than {FORMAT}")
    if found != FORMAT:
        raise _refuse(f"format is not {FORMAT}")


def _check_place(generation: Any, previous: Any) -> None:
    if type(generation) is not int or not 1 <= generation <= MAX_GENERATION:
        raise _refuse("generation is not a positive number")
    if previous is not None and not (isinstance(previous, str) and _DIGEST.match(previous)):
        raise _refuse("previous is not a digest")
    if (generation == 1) != (previous is None):
        raise _refuse("every generation but the first names the one before it")


def _refuse(message: str) -> PolicyInvalid:
    return invalid(PolicyReason.BUNDLE, "bundle", message)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# Differences between two policies, with every capability that the new one widens.


def diff(old: Compiled, new: Compiled) -> list[Change]:
    """Return every difference between two policies, widening ones first."""
    order = ("widens", "changes", "narrows")
    return sorted(_changes(old, new), key=lambda change: order.index(change.effect))


def _changes(old: Compiled, new: Compiled) -> Iterator[Change]:
    for section in SECTIONS:
        before, after = old.sections[section.name], new.sections[section.name]
        yield from section.record.compare(before, after, (section.name,), section.name)
    yield from compare_signers(old.sections[SIGNERS], new.sections[SIGNERS])
    yield from compare_gates(old.sections[GATES], new.sections[GATES])


# The external functions as policy pins them: one digest over names, bounds and sources.
#
# An approval binds this digest, so a changed bound or implementation voids it.


def functions_sha256(policy: Compiled) -> str:
    """Return what `functions_sha256` of an approval must be under this policy."""
    return policy.functions_sha256


def function_digests(policy: Compiled) -> dict[str, str]:
    """Return the digest policy names for each function it offers."""
    path = ("tool-exec", "functions")
    return {name: policy.text(*path, name, "sha256") for name in policy.words(*path)}
