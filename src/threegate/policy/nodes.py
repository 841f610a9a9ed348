"""What stands in a rule block before it has a type: text, lists and key-value blocks, with lines.

No scalar has been interpreted: `no` is the text `no` and `22:22:22` is eight characters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str, ...]  # section first, then keys
Value: TypeAlias = "int | str | tuple[Value, ...] | Mapping[str, Value] | None"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as written, without its quotes."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Listing:
    """A list."""

    items: "tuple[Node, ...]"
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """Keys and values, in the order written; no key stands twice."""

    entries: "tuple[tuple[Scalar, Node], ...]"
    line: int


Node = Scalar | Listing | Block


def node_of(value: Value) -> Node:
    """Return the node that spells a compiled value, so that one reader serves both."""
    if value is None:
        return Scalar("none", 0)
    if isinstance(value, Mapping):
        return Block(tuple((Scalar(key, 0), node_of(item)) for key, item in value.items()), 0)
    if isinstance(value, tuple):
        return Listing(tuple(node_of(item) for item in value), 0)
    return Scalar(str(value), 0)


def frozen(value: Any) -> Value:
    """Return a JSON value with no part that can be changed."""
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
