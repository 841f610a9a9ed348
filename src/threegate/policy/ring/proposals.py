"""Drafts the narrowest profile that would have allowed a denied run.

    allowed_imports    what the code imports and its profile allows, and what was refused only
                       because no rule allows it
    allowed_binaries   those of the profile it ran under, and what was refused for want of a rule
    the other three    as in the profile it ran under

What a rule denies by name is never learned: somebody wrote that name down.  Nor is what no
profile could allow: a module the lane does not have, a program outside the image's own places, a
Python.  Nothing is written or applied here; the result is text that a human reviews, edits and
signs.
"""

import re
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from threegate.base.errors import PolicyInvalid, UsageError
from threegate.base.text import quote
from threegate.policy.bundle import Compiled
from threegate.policy.compiler import RuleBlock, decode, read_block
from threegate.policy.nodes import BlockNode, Node, PolicyReason, RuleReader, ScalarNode, Value
from threegate.policy.ring.commands import base
from threegate.policy.ring.compiler import PYTHON_PROGRAMS, ProfileRejected, compile_ring
from threegate.policy.ring.executor_profile import ExecutorProfile
from threegate.policy.sections.section import Rules
from threegate.policy.sections.tool_exec import PROFILE, RING

# A ring profile as lines of a policy file.

_FIELDS: Final = (
    *("allowed_imports", "denied_imports", "executor_network", "allowed_binaries"),
    "denied_patterns",
)
_WIDTH: Final = 100


def profile_text(name: str, rules: Mapping[str, str | tuple[str, ...]]) -> str:
    """Return the five rules of a profile, indented as below `interpreter_ring`."""
    lines = [f"  {name}:"]
    for field in _FIELDS:
        value = rules[field]
        words = value if isinstance(value, str) else _listed(field, value)
        lines += _wrapped(f"    {field}: {words}", len(field) + 7)
    return "\n".join(lines) + "\n"


def _listed(field: str, items: tuple[str, ...]) -> str:
    quoted = (_quoted(item) if field == "denied_patterns" else item for item in items)
    return f"[{', '.join(quoted)}]"


def _quoted(pattern: str) -> str:
    """Return a pattern in quotes; the reader of policies knows no escapes."""
    if '"' in pattern or "\\" in pattern:
        return "'" + pattern.replace("'", "''") + "'"
    return f'"{pattern}"'


def _wrapped(line: str, indent: int) -> list[str]:
    if line.endswith(('"]', "']")):
        return [line]  # a pattern may hold spaces that count
    more = " " * indent
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=more, break_long_words=False, break_on_hyphens=False
    )


_SECTION = "tool-exec"
_PART: Final = "[A-Za-z0-9_+][A-Za-z0-9._+-]*"
_PROGRAM: Final = re.compile(f"/usr/(?:{_PART}/)+{_PART}")


@dataclass(frozen=True, slots=True)
class LearnedUse:
    """What a run used, and what it was refused, by its result."""

    used: Collection[str] = ()  # top-level modules, by statements of the code
    modules: Collection[str] = ()  # refused
    programs: Collection[str] = ()  # refused


@dataclass(frozen=True, slots=True)
class Learned:
    """A profile that is proposed."""

    name: str
    kind: str  # of the executor that was refused something
    lane: str
    imports: tuple[str, ...]
    binaries: tuple[str, ...]
    still_denied: tuple[str, ...]  # refused by name, and so it stays
    beyond: tuple[str, ...]  # in words: what no profile could allow
    text: str  # of the profile, as lines of a policy


def learn(
    ring: ExecutorProfile, tried: LearnedUse, *, lane: str, name: str, known: Collection[str] | None
) -> Learned:
    """Return the narrowest profile for a run that tried this.

    `known` are the modules the lane has, where it has a list.  Raises `UsageError` if there is
    nothing that a profile could allow.
    """
    wanted = {*tried.used, *tried.modules}
    denied = tuple(sorted(wanted & {*ring.denied_imports}))
    modules = {*tried.modules} - {*denied}
    beyond = [f"the lane cannot import {one}" for one in sorted(modules) if not _has(known, one)]
    modules = {one for one in modules if _has(known, one)}
    programs = {one for one in tried.programs if not (why := _no_program(one))}
    beyond += [
        f"{quote(one)} {why}" for one in sorted({*tried.programs}) if (why := _no_program(one))
    ]
    if not modules and not programs:
        stays = [f"{one} is denied by name" for one in denied]
        why = "; ".join([*beyond, *stays]) or "no import and no program was refused"
        raise UsageError(f"there is nothing to learn: {why}")
    imports = tuple(sorted((wanted & {*ring.imports}) | modules))
    binaries = tuple(sorted({*ring.binaries} | programs))
    rules: dict[str, str | tuple[str, ...]] = {
        "allowed_imports": imports,
        "denied_imports": ring.denied_imports,
        "executor_network": ring.network,
        "allowed_binaries": binaries,
        "denied_patterns": ring.patterns,
    }
    text = profile_text(name, rules)
    return Learned(name, ring.kind, lane, imports, binaries, denied, tuple(beyond), text)


def _has(known: Collection[str] | None, module: str) -> bool:
    return known is None or module in known


def _no_program(path: str) -> str:
    """Return why no profile can allow a program, or nothing."""
    if _PROGRAM.fullmatch(path) is None:
        return "is not a program of the image"
    if base(path).startswith(PYTHON_PROGRAMS):
        return "would import what it likes"
    return ""


def drafted(text: str, policy: Compiled, learned: Learned) -> str:
    """Return the policy file `text`, which `policy` was compiled from, with the profile in it."""
    lines = text.split("\n")
    if policy.has(_SECTION, RING, learned.name):
        hint = "choose another name with --name"
        raise UsageError(f"there is a profile {learned.name} already", hint=hint)
    ring = policy.ref(_SECTION, RING).line
    profiles = policy.words(_SECTION, RING)
    first = min(policy.ref(_SECTION, RING, name).line for name in profiles) - 1
    deeper = " " * (_indent(lines[first]) - _indent("  x"))
    new = [f"{deeper}{line}" for line in learned.text.removesuffix("\n").split("\n")]
    at, replaced = _offering(lines, policy, learned)
    lines[ring:ring] = [*new, ""]
    at += len(new) + 1 if at >= ring else 0
    lines[at : at + 1] = replaced
    return "\n".join(lines)


def _offering(lines: list[str], policy: Compiled, learned: Learned) -> tuple[int, list[str]]:
    """Return the line of the lane's first profile, and what offers one more in its place."""
    path = (_SECTION, "lanes", learned.lane, "profiles")
    at, name = min((policy.ref(*path, name).line - 1, name) for name in policy.words(*path))
    line = lines[at]
    if line.lstrip().startswith("- "):
        return at, [f"{' ' * _indent(line)}- {learned.name}", line]
    item = re.compile(rf"""(?<=[\[,\s])(["']?){re.escape(name)}\1(?=\s*[,\]#]|\s*$)""")
    start = line.index("[") if "[" in line else 0
    found = item.search(line, start)
    if found is None:
        raise UsageError(f"line {at + 1} lists the profiles of {learned.lane} in an unknown form")
    return at, [f"{line[: found.start()]}{learned.name}, {line[found.start() :]}"]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def refuse_useless(drafted_policy: Compiled, learned: Learned) -> None:
    """Raise `UsageError` unless the lane offers the drafted profile and could enforce it."""
    try:
        ring = compile_ring(drafted_policy, learned.kind, learned.name)
    except ProfileRejected as exc:
        raise UsageError(f"no profile can be proposed: {exc.reason}") from exc
    assert {*learned.imports} <= {*ring.imports}, "it allows what was learned"
    assert ring.binaries == learned.binaries


# A foreign `interpreter_ring` block becomes a profile to be reviewed.
#
#     interpreter_ring:
#       allowed_imports: [pandas, numpy]
#       denied_imports: [requests, urllib3]
#       executor_network: tappass-only
#       allowed_binaries: [/usr/bin/git]
#       denied_patterns: ["rm -rf", "curl"]
#
# All five keys are required, as in our own policy. `tappass-only` is another system's word for a
# network with one gateway and becomes `gateway`, which the default policy refuses: an import alone
# widens nothing.
#
# SECURITY: the file comes from outside. The reader of policy files types every value. The result
# is text that a human copies into the policy; nothing is enforced before it is signed there.

FOREIGN_NETWORKS: Final = {"tappass-only": "gateway"}


def import_ring(file: str, data: bytes) -> Rules:
    """Return the profile in a foreign file, typed, or raise `PolicyInvalid` with file and line."""
    try:
        return _imported(file, data)
    except PolicyInvalid as exc:  # the reader names files of the policy, which this is none of
        message = exc.message.removeprefix("policy/")
        raise PolicyInvalid(message, code=exc.code, hint=exc.hint) from exc


def _imported(file: str, data: bytes) -> Rules:
    reader = RuleReader(file)
    block = read_block(file, RuleBlock(decode(file, data), 1))
    given = {key.text: (key, node) for key, node in block.entries}
    if set(given) != {RING}:
        message = f"expected the one key {RING}"
        raise reader.fail(PolicyReason.UNKNOWN_KEY, block.line, message)
    key, node = given[RING]
    if not isinstance(node, BlockNode):
        raise reader.fail(PolicyReason.VALUE, key.line, f"{RING}: expected keys and values")
    entries = tuple((name, _translated(name, value)) for name, value in node.entries)
    reader.lines[(RING,)] = key.line
    return PROFILE.read_block(replace(node, entries=entries), (RING,), reader)


def import_text(file: str, data: bytes, name: str) -> str:
    """Return the lines of our policy that are equivalent to a foreign file."""
    rules = import_ring(file, data)
    return profile_text(name, {key: _words(value) for key, value in rules.items()})


def _words(value: Value) -> str | tuple[str, ...]:
    if isinstance(value, tuple):
        return tuple(str(item) for item in value)
    return str(value)


def _translated(name: ScalarNode, value: Node) -> Node:
    if name.text == "executor_network" and isinstance(value, ScalarNode):
        return replace(value, text=FOREIGN_NETWORKS.get(value.text, value.text))
    return value
