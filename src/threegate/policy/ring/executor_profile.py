"""The interpreter ring as it crosses to a gate and to a guest: rules in, violations out.

| value | made by | read by |
|---|---|---|
| `ExecutorProfile` | `policy/ring/compiler.py`, in the host and again in the gate | the executor |
| `RingViolation` | the executor | gate, host, Tool Result |

SECURITY
    A profile is checked when it is built, by either side.  A violation is the word of the
    program that ran: it is a note for people, and nothing is decided by it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from threegate.base import canonical
from threegate.base.forms import NAME
from threegate.base.limits import MAX_LINE
from threegate.base.message_shapes import RecordRow, TableShape
from threegate.base.messages import CheckedRecord, FlatMessage, flat_message, head, record
from threegate.base.schema import Choice, Integer, ListOf, Pattern
from threegate.base.wire import need
from threegate.policy.ring.commands import ArgumentRule, CommandRefusal, refusal

FIELDS: Final = (
    *("allowed_binaries", "allowed_imports", "denied_imports", "denied_patterns"),
    "executor_network",
)
ARGUMENT_RULES: Final = "argument_rules"  # of the policy, for every profile
MAX_ITEMS: Final = 512
MAX_RULES: Final = 1024
MAX_PLACES: Final = 8192  # one for each item of each list
MAX_VIOLATIONS: Final = 64
MAX_ARGUMENT_CHARS: Final = 200

_MODULES: Final = ListOf(Pattern(r"[A-Za-z_][A-Za-z0-9_]{0,63}", "a module"), MAX_ITEMS)
_BINARIES: Final = ListOf(Pattern(r"/[A-Za-z0-9._+/-]{1,254}", "the path of a program"), MAX_ITEMS)
_PATTERNS: Final = ListOf(Pattern(r"[ -~]{1,200}", "a pattern of a command"), MAX_ITEMS)
_WORDS: Final = ListOf(Pattern(r"[!-~]{1,128}", "a word of a command"), MAX_ITEMS)
_RULES: Final = TableShape(
    Pattern(r"[ -~]{1,400}", "`FIELD` or `FIELD/ITEM`"),
    Pattern(r"[a-z0-9/._-]{1,120}:[0-9]{1,6}", "file and line of a rule"),
    MAX_PLACES,
)
_ARGUMENT: Final = Pattern(rf"[ -~]{{1,{MAX_ARGUMENT_CHARS}}}", "printable ASCII")


@record
class ExecutorProfile(CheckedRecord):
    """A profile of the ring as one kind of executor enforces it."""

    kind: str = head(NAME, "the kind of executor")
    profile: str = head(NAME, "its name in the policy")
    imports: tuple[str, ...] = head(_MODULES, "allowed and not denied, sorted")
    denied_imports: tuple[str, ...] = head(_MODULES, "denied modules")
    network: str = head(NAME, "what it may reach")
    binaries: tuple[str, ...] = head(_BINARIES, "programs it may start")
    patterns: tuple[str, ...] = head(_PATTERNS, "what no command may hold")
    arguments: tuple[ArgumentRule, ...] = head(
        ListOf(RecordRow(ArgumentRule, NAME, _WORDS, _WORDS, _WORDS), MAX_RULES),
        "rules about the arguments of its programs",
    )
    rules: Mapping[str, str] = head(_RULES, "where each rule is written, for every refusal")

    def check(self) -> None:
        need(set(self.rules) >= {*FIELDS, ARGUMENT_RULES}, "a rule without a place")

    def enforced(self) -> dict[str, Any]:
        """Return what is enforced, without where it was written."""
        return {name: value for name, value in self.plain().items() if name != "rules"}

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

    def command(self, argv: Sequence[str]) -> CommandRefusal | None:
        """Return which rule refuses a command, if one does."""
        return refusal(
            argv, binaries=self.binaries, patterns=self.patterns, arguments=self.arguments
        )


@flat_message("guest", "VIOLATION", sender="guest")
class RingViolation(FlatMessage):
    """A rule of the ring that was tried: which, with what, from which line of the code."""

    rule: str = head(Choice(*FIELDS, ARGUMENT_RULES), "the rule")
    argument: str = head(_ARGUMENT, "foreign; what is not printable is spelled out")
    line: int = head(Integer(0, MAX_LINE), "of the code; 0 where the executor cannot tell")
