"""Untyped values of a rule block, with their lines: text, lists and key-value blocks.

No scalar has been interpreted: `no` is the text `no` and `22:22:22` is eight characters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from threegate.base.errors import PolicyInvalid

Path: TypeAlias = tuple[str, ...]  # section first, then keys
Value: TypeAlias = "int | str | tuple[Value, ...] | Mapping[str, Value] | None"


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A value as written, without its quotes."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list."""

    items: "tuple[Node, ...]"
    line: int


@dataclass(frozen=True, slots=True)
class BlockNode:
    """Keys and values, in the order written; no key is written twice."""

    entries: "tuple[tuple[ScalarNode, Node], ...]"
    line: int


Node = ScalarNode | ListNode | BlockNode


def node_of(value: Value) -> Node:
    """Return the node that spells a compiled value, so that one reader serves both."""
    if value is None:
        return ScalarNode("none", 0)
    if isinstance(value, Mapping):
        return BlockNode(
            tuple((ScalarNode(key, 0), node_of(item)) for key, item in value.items()), 0
        )
    if isinstance(value, tuple):
        return ListNode(tuple(node_of(item) for item in value), 0)
    return ScalarNode(str(value), 0)


def frozen(value: Any) -> Value:
    """Return an immutable copy of a JSON value."""
    if isinstance(value, dict):
        return MappingProxyType({key: frozen(item) for key, item in value.items()})
    if isinstance(value, list):
        return tuple(frozen(item) for item in value)
    assert value is None or isinstance(value, int | str), "canonical JSON has no floats"
    return value


def plain(value: Value) -> Any:
    """Return the JSON value of a frozen one."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


# One difference between two policies, and whether it permits more.

Effect = Literal["widens", "narrows", "changes"]


@dataclass(frozen=True, slots=True)
class Change:
    """A rule that differs; `path` starts with the section's name."""

    path: str
    old: Value
    new: Value
    effect: Effect
    sentence: str


def change(path: Path, old: Value, new: Value, effect: Effect, sentence: str) -> Change:
    """Return the change at `path`."""
    return Change("/".join(path), old, new, effect, sentence)


_MARKS: Final = {"widens": "! wider", "changes": "~ other", "narrows": "- narrower"}


def change_line(change: Change) -> str:
    """Return the line with which a change is shown."""
    return f"{_MARKS[change.effect]:<11} {change.sentence}"


def about(path: Path, text: str) -> str:
    """Return a sentence that starts with the path of the rule."""
    return f"{' '.join(path[:-1])}: {text}"


def wider_if(condition: bool) -> Effect:  # noqa: FBT001 -- the condition is the whole sentence
    """Return `widens` if the new rule permits more, else `narrows`."""
    return "widens" if condition else "narrows"


# Why a policy is invalid: one stable code per kind of mistake. A code is never reused.


class PolicyReason(Enum):
    """A mistake a policy can hold; the value is (code, what its author must do)."""

    FILE = (
        "TG-POL-003",
        "put the file back, or take it from a new workspace: `threegate init DIR` writes them all",
    )
    CHARACTERS = ("TG-POL-004", "save the file as UTF-8 with plain line ends, nothing invisible")
    FENCE = (
        "TG-POL-005",
        "write the rules in exactly one block, opened by ```yaml threegate-policy",
    )
    SYNTAX = (
        "TG-POL-006",
        "the block must be YAML: `key: value`, lists in brackets, no tabs, `*.name` in quotes",
    )
    SUBSET = (
        "TG-POL-007",
        "write plain values: no anchors, tags, documents, escapes or text blocks",
    )
    DUPLICATE = ("TG-POL-008", "write each key once")
    TOO_LARGE = ("TG-POL-009", "make the block smaller or flatter")
    UNKNOWN_KEY = ("TG-POL-010", "remove the key; docs/policy.md lists those that exist")
    MISSING_KEY = ("TG-POL-011", "add the key; nothing has a silent default")
    VALUE = ("TG-POL-012", "docs/policy.md lists type and range of every key")
    CONFLICT = ("TG-POL-013", "change one of the two rules")
    EXAMPLE = ("TG-POL-014", "correct the rule or its example")
    SIGNERS = ("TG-POL-015", "`threegate key list` shows who may sign")
    BUNDLE = ("TG-POL-016", "apply the policy again; a bundle is never edited")

    @property
    def code(self) -> str:
        """The stable code."""
        return self.value[0]

    @property
    def hint(self) -> str:
        """What the author must do."""
        return self.value[1]


def invalid(reason: PolicyReason, where: str, detail: str) -> PolicyInvalid:
    """Return the error for `reason`; foreign parts of `detail` are already quoted."""
    return PolicyInvalid(f"{where}: {detail}", code=reason.code, hint=reason.hint)


def place(file: str, line: int) -> str:
    """Return file and line as every message and decision names them."""
    return f"policy/{file}:{line}" if line else f"policy/{file}"


# The file being read: the line of each rule, and the examples.


@dataclass(slots=True)
class RuleReader:
    """Collects the line of every rule in one file, and the examples rules carry."""

    file: str
    stored: bool = False  # a bundle, which carries no examples
    lines: dict[Path, int] = field(default_factory=dict)
    examples: dict[Path, tuple[ScalarNode, ...]] = field(default_factory=dict)

    def fail(self, reason: PolicyReason, line: int, message: str) -> PolicyInvalid:
        """Return the error for a mistake in this file."""
        return invalid(reason, place(self.file, line), message)

    def fail_at(self, reason: PolicyReason, path: Path, message: str) -> PolicyInvalid:
        """Return the error for a rule that was read already."""
        return self.fail(reason, self.lines[path], message)
