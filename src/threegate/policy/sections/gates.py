"""The sandbox profiles of the gates, as they were when the policy was applied.

No file says this: profiles belong to the program.  The host hands them over as plain data
when a policy is compiled, so that the signer signs them too, and a program with wider
ones shows up as a difference.  Unlike the rules of a file, a stored profile may lack a field
or hold one this version does not know: after an upgrade `policy diff` must still be able to
read the bundle in force, and says that the field changes.

SECURITY
    Reads stored bundles.  If this module is wrong, a gate may start in a wider box than
    anybody signed.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from threegate.base.errors import PolicyInvalid
from threegate.base.text import quote
from threegate.policy.leaves import BYTES, NAME, SECONDS, SWITCH, Number, Word, WordChoice
from threegate.policy.nodes import (
    Change,
    Path,
    PolicyReason,
    RuleReader,
    Value,
    about,
    change,
    invalid,
    node_of,
    wider_if,
)
from threegate.policy.schema import Examples, RuleField, RuleGroup, RuleRecord

NAME_OF_SECTION: Final = "gates"
MAX_GATES: Final = 64
MAX_FIELDS: Final = 64
MAX_ITEMS: Final = 1_024
MAX_NUMBER: Final = 2**53 - 1

SIZE: Final = Number(0, 2**44, BYTES)
TIME: Final = Number(0, 31_536_000, SECONDS)
COUNT: Final = Number(0, 1_000_000)
DOTTED: Final = Word(r"[A-Za-z_][A-Za-z0-9_.]*", "the name of a module or package")
BIND: Final = Word(
    r"(file|directory|library|socket) [a-z][a-z0-9-]* at /[A-Za-z0-9._/-]+",
    "`file`, `directory`, `library` or `socket`, the slot, `at`, the place inside",
    most=200,
)
PORT: Final = Word(r"[1-9][0-9]{0,4}", "a TCP port", most=5)
CALL: Final = Word(r"[a-z][a-z0-9_]*", "the name of a system call", most=64)
REFUSAL: Final = Word(r"[a-z][a-z0-9_]* E[A-Z0-9]+", "a system call and its error", most=80)

# Every profile has some of these; docs/policy.md shows the table.
PROFILE: Final = RuleRecord(
    (
        RuleField("packages", RuleGroup(DOTTED), "parts of ThreeGate in view"),
        RuleField("libraries", RuleGroup(DOTTED), "installed packages in view"),
        RuleField("modules", RuleGroup(DOTTED), "modules loaded before the lock"),
        RuleField("binds", RuleGroup(BIND), "places of the host in view"),
        RuleField("devices", RuleGroup(NAME), "devices"),
        RuleField("scratch_bytes", SIZE, "private /tmp"),
        RuleField("host_network", SWITCH, "the host's network"),
        RuleField("families", RuleGroup(NAME), "socket families"),
        RuleField("connect_ports", RuleGroup(PORT), "TCP ports to connect to"),
        RuleField("executables", RuleGroup(NAME), "programs it may execute"),
        RuleField("processes_may_fork", SWITCH, "starting processes"),
        RuleField("new_code", WordChoice(("none", "linked", "any")), "new executable memory"),
        RuleField("memory_bytes", SIZE, "memory of a process"),
        RuleField("cpu_seconds", TIME, "CPU time of a process"),
        RuleField("processes", COUNT, "processes and threads at a time"),
        RuleField("open_files", COUNT, "open files"),
        RuleField("file_bytes", SIZE, "largest file it may write"),
        RuleField("output_bytes", SIZE, "output"),
        RuleField("stderr_bytes", SIZE, "kept part of stderr"),
        RuleField("deadline_seconds", TIME, "time until it is ended"),
        RuleField(
            "reuse", WordChoice(("one job", "one session", "one start")), "life of a process"
        ),
        RuleField("grants", RuleGroup(NAME), "what its program needs and no other sandbox has"),
        RuleField("calls", RuleGroup(CALL), "system calls allowed, all others end it"),
        RuleField("refused_calls", RuleGroup(REFUSAL), "system calls answered with an error"),
        RuleField(
            "forbidden_calls", RuleGroup(CALL, "removed"), "system calls forbidden to every gate"
        ),
    )
)
_KINDS: Final = {entry.name: entry for entry in PROFILE.fields}
# Fields that came later and are left out where they hold nothing.
_LEFT_OUT: Final[Mapping[str, Value]] = {"grants": ()}
_FIELD: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_TEXT: Final = re.compile(r"[ -~]{1,200}\Z")


def check_gates(value: Value) -> None:
    """Raise `PolicyInvalid` unless `value` is a canonical table of profiles."""
    if not isinstance(value, Mapping) or not 1 <= len(value) <= MAX_GATES:
        raise _refuse(f"expected 1 to {MAX_GATES} profiles")
    for name, profile in value.items():
        try:
            NAME.parse(name)
        except ValueError as exc:
            raise _refuse(f"{quote(name)} is not the name of a gate") from exc
        if not isinstance(profile, Mapping) or not 1 <= len(profile) <= MAX_FIELDS:
            raise _refuse(f"{name}: expected 1 to {MAX_FIELDS} fields")
        for field, item in profile.items():
            _check_field((NAME_OF_SECTION, name, field), item)


def _check_field(path: Path, item: Value) -> None:
    known = _KINDS.get(path[-1])
    if known is None:
        if not _FIELD.match(path[-1]) or not _is_simple(item):
            raise _refuse(f"{path[1]}: {quote(path[-1])} is not a field of a profile")
        return
    assert not isinstance(known.kind, Examples)
    try:
        typed = known.kind.read(node_of(item), path, RuleReader(NAME_OF_SECTION))
    except PolicyInvalid as exc:
        raise _refuse(f"{path[1]}: {exc.message.partition(': ')[2]}") from exc
    if typed != item:  # a number as text, a list in another order
        raise _refuse(f"{path[1]}: {path[-1]} is not spelled canonically")


def _is_simple(item: Value) -> bool:
    """Tell whether a value of an unknown field has a form that fields may have."""
    if isinstance(item, tuple):
        texts = [part for part in item if isinstance(part, str) and _TEXT.match(part)]
        return len(texts) == len(item) <= MAX_ITEMS and texts == sorted(set(texts))
    if isinstance(item, str):
        return _TEXT.match(item) is not None
    return type(item) is int and 0 <= item <= MAX_NUMBER


def compare_gates(old: Value, new: Value) -> Iterator[Change]:
    """Yield every difference between two tables of profiles."""
    assert isinstance(old, Mapping)
    assert isinstance(new, Mapping)
    for name in sorted(old.keys() | new.keys()):
        path = (NAME_OF_SECTION, name)
        if name in old and name in new:
            yield from compare_profiles(old[name], new[name], path)
        else:
            added = name in new
            sentence = f"gate {name} may now be started" if added else f"gate {name} is gone"
            values = (old.get(name), new.get(name))
            yield change(path, *values, wider_if(added), about(path, sentence))


def compare_profiles(old: Value, new: Value, path: Path) -> Iterator[Change]:
    """Yield every difference between two profiles of one gate."""
    assert isinstance(old, Mapping)
    assert isinstance(new, Mapping)
    for field in sorted(old.keys() | new.keys()):
        known, below = _KINDS.get(field), (*path, field)
        before, after = (side.get(field, _LEFT_OUT.get(field)) for side in (old, new))
        if known is not None and before is not None and after is not None:
            assert not isinstance(known.kind, Examples)
            yield from known.kind.compare(before, after, below, known.words)
        elif before != after:
            # Which way it goes, only the version that knows the field on both sides can say.
            words = f"{field} now {_shown(after)}, before {_shown(before)}"
            yield change(below, before, after, "changes", about(below, words))


def _shown(value: Value) -> str:
    if value is None:
        return "unknown"
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def _refuse(message: str) -> PolicyInvalid:
    return invalid(PolicyReason.BUNDLE, "bundle", f"section {NAME_OF_SECTION}, {message}")
