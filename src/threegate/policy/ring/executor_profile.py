"""The interpreter ring as it crosses to a gate and to a guest: rules in, violations out.

| value | made by | read by |
|---|---|---|
| `ExecutorProfile` | `policy/ring/compiler.py`, in the host and again in the gate | the executor |
| `Violation` | the executor | gate, host, Tool Result |

SECURITY
    A profile is checked when it is built, on both sides.  A violation is the word of
    the program that ran: it is a note for people, and nothing is decided by it.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from threegate.base import canonical
from threegate.base.wire import need, need_number, need_word
from threegate.policy.ring.commands import ArgumentRule, Refusal, refusal

FIELDS: Final = (
    *("allowed_binaries", "allowed_imports", "denied_imports", "denied_patterns"),
    "executor_network",
)
ARGUMENT_RULES: Final = "argument_rules"  # of the policy, for every profile
MAX_ITEMS: Final = 512
MAX_RULES: Final = 1024
MAX_VIOLATIONS: Final = 64
MAX_ARGUMENT_CHARS: Final = 200
MAX_LINE: Final = 1_000_000

DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_MODULE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_BINARY: Final = re.compile(r"/[A-Za-z0-9._+/-]{1,254}")
_PATTERN: Final = re.compile(r"[ -~]{1,200}")
_WORD: Final = re.compile(r"[!-~]{1,128}")
_RULE: Final = re.compile("|".join((*FIELDS, ARGUMENT_RULES)))
_PLACE: Final = re.compile(r"[a-z0-9/._-]{1,120}:[0-9]{1,6}")
_ARGUMENT: Final = re.compile(rf"[ -~]{{1,{MAX_ARGUMENT_CHARS}}}")


@dataclass(frozen=True, slots=True)
class ExecutorProfile:
    """A profile of the ring as one kind of executor enforces it."""

    kind: str
    profile: str  # its name in the policy
    imports: tuple[str, ...]  # allowed and not denied, sorted
    denied_imports: tuple[str, ...]
    network: str
    binaries: tuple[str, ...]
    patterns: tuple[str, ...]
    arguments: tuple[ArgumentRule, ...]  # those about its programs
    # `FIELD` or `FIELD/ITEM` -> file and line, for every refusal
    rules: Mapping[str, str] = field(hash=False)

    def __post_init__(self) -> None:
        need_word(self.kind, _NAME, "the kind of an executor")
        need_word(self.profile, _NAME, "the name of a profile")
        need_word(self.network, _NAME, "the network of a profile")
        for items, form in (
            (self.imports, _MODULE),
            (self.denied_imports, _MODULE),
            (self.binaries, _BINARY),
            (self.patterns, _PATTERN),
        ):
            need(type(items) is tuple and len(items) <= MAX_ITEMS, "too many rules")
            for item in items:
                need_word(item, form, "a rule")
        need(type(self.arguments) is tuple and len(self.arguments) <= MAX_RULES, "too many rules")
        for rule in self.arguments:
            _need_rule(rule)
        need(set(self.rules) >= {*FIELDS, ARGUMENT_RULES}, "a rule without a place")
        for place in self.rules.values():
            need_word(place, _PLACE, "the place of a rule")
        object.__setattr__(self, "rules", MappingProxyType(dict(self.rules)))

    def enforced(self) -> dict[str, Any]:
        """Return what is enforced, without where it was written."""
        return {
            "arguments": [_plain_rule(rule) for rule in self.arguments],
            "binaries": list(self.binaries),
            "denied_imports": list(self.denied_imports),
            "imports": list(self.imports),
            "kind": self.kind,
            "network": self.network,
            "patterns": list(self.patterns),
            "profile": self.profile,
        }

    def plain(self) -> dict[str, Any]:
        """Return the whole as plain data."""
        return {**self.enforced(), "rules": dict(sorted(self.rules.items()))}

    @property
    def digest(self) -> str:
        """The digest of what is enforced: an executor answers with it when it is asked."""
        return hashlib.sha256(canonical.encode(self.enforced())).hexdigest()

    def place(self, rule: str, item: str) -> str:
        """Return file and line of the rule that refuses `item`: `ITEM`, or `ITEM: what it met`."""
        for named, place in self.rules.items():
            of, _, known = named.partition("/")
            if of == rule and known and (item == known or item.startswith(f"{known}: ")):
                return place
        return self.rules[rule]

    def refusal(self, module: str) -> str | None:
        """Return which rule refuses user code the import of a top-level module, if one does."""
        if module in self.denied_imports:
            return "denied_imports"
        return None if module in self.imports else "allowed_imports"

    def command(self, argv: Sequence[str]) -> Refusal | None:
        """Return which rule refuses a command, if one does."""
        return refusal(
            argv, binaries=self.binaries, patterns=self.patterns, arguments=self.arguments
        )


def _need_rule(rule: ArgumentRule) -> None:
    need_word(rule.name, _NAME, "the name of an argument rule")
    for words in (rule.programs, rule.denied, rule.required):
        need(type(words) is tuple and len(words) <= MAX_ITEMS, "too many words in a rule")
        for word in words:
            need_word(word, _WORD, "a word of an argument rule")


def _plain_rule(rule: ArgumentRule) -> list[Any]:
    return [rule.name, list(rule.programs), list(rule.denied), list(rule.required)]


def _parse_rule(value: Any) -> ArgumentRule:
    need(type(value) is list and len(value) == 4, "an argument rule has four parts")
    name, *lists = value
    need(all(type(words) is list for words in lists), "words of a rule are not a list")
    return ArgumentRule(name, *(tuple(words) for words in lists))


def parse_profile(value: Any) -> ExecutorProfile:
    """Return the profile in plain data, or raise `ProtocolBroken`."""
    names = (
        *("arguments", "binaries", "denied_imports", "imports", "kind", "network"),
        *("patterns", "profile", "rules"),
    )
    need(type(value) is dict and tuple(value) == names, "not a profile of the ring")
    need(type(value["rules"]) is dict, "rules are not a table")
    lists = {}
    for name in ("binaries", "denied_imports", "imports", "patterns"):
        need(type(value[name]) is list, f"{name} is not a list")
        lists[name] = tuple(value[name])
    need(type(value["arguments"]) is list, "arguments is not a list")
    return ExecutorProfile(
        kind=value["kind"],
        profile=value["profile"],
        network=value["network"],
        arguments=tuple(map(_parse_rule, value["arguments"])),
        rules=value["rules"],
        **lists,
    )


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule of the ring that was tried: which, with what, from which line of the code."""

    rule: str
    argument: str  # foreign, printable ASCII: the reporter escapes the rest
    line: int  # 0 where the executor cannot tell

    def __post_init__(self) -> None:
        need_word(self.rule, _RULE, "the rule of a violation")
        need_word(self.argument, _ARGUMENT, "the argument of a violation")
        need_number(self.line, MAX_LINE, "line")

    def plain(self) -> list[Any]:
        """Return it as a field."""
        return [self.rule, self.argument, self.line]


def parse_violations(value: Any) -> tuple[Violation, ...]:
    """Return violations out of plain data, or raise `ProtocolBroken`."""
    need(type(value) is list and len(value) <= MAX_VIOLATIONS, "not a short list of violations")
    need(all(type(row) is list and len(row) == 3 for row in value), "a violation has three parts")
    return tuple(Violation(*row) for row in value)
