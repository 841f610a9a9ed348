"""Types of lists, groups and tables of rules.

A kind does three things with one declaration: it reads nodes into a canonical value, it
compares two values and says which is wider, and it describes itself for the field tables.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol

from threegate.base.text import quote
from threegate.policy.leaves import UNORDERED, Leaf
from threegate.policy.limits import MAX_EXAMPLES
from threegate.policy.nodes import (
    BlockNode,
    Change,
    ListNode,
    Node,
    Path,
    PolicyReason,
    RuleReader,
    ScalarNode,
    Value,
    about,
    change,
    wider_if,
)


class ValueKind(Protocol):
    """The type of a key's value."""

    def read(self, node: Node, path: Path, reader: RuleReader) -> Value:
        """Return the canonical value of `node`, or raise `PolicyInvalid`."""

    def compare(self, old: Value, new: Value, path: Path, words: str) -> Iterator[Change]:
        """Yield every difference between two values of this kind."""

    def describe(self) -> str:
        """Return type and range, for people."""

    def wider(self) -> str:
        """Return which change lets more happen, for people."""


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """A set of values; sorted in the bundle, so that their order in the file means nothing."""

    item: Leaf
    widens: Literal["added", "removed"] = "added"
    most: int = 256
    least: int = 0

    def read(self, node: Node, path: Path, reader: RuleReader) -> Value:
        if not isinstance(node, ListNode):
            raise reader.fail(PolicyReason.VALUE, node.line, f"{path[-1]}: expected a list")
        if not self.least <= len(node.items) <= self.most:
            message = f"{path[-1]}: {len(node.items)} items, expected {self.least} to {self.most}"
            raise reader.fail(PolicyReason.VALUE, node.line, message)
        found: set[str] = set()
        for entry in node.items:
            value = self.item.read(entry, path, reader)
            assert isinstance(value, str), "a group holds only words"
            if value in found:
                raise reader.fail(
                    PolicyReason.DUPLICATE, entry.line, f"{quote(value)} is written twice"
                )
            found.add(value)
            reader.lines[(*path, value)] = entry.line
        return tuple(sorted(found))

    def compare(self, old: Value, new: Value, path: Path, words: str) -> Iterator[Change]:
        before, after = set(_texts(old)), set(_texts(new))
        for value in sorted(before ^ after):
            added = value in after
            effect = wider_if(added == (self.widens == "added"))
            sentence = f"{words} now also {value}" if added else f"{words} no longer {value}"
            gone, here = (None, value) if added else (value, None)
            yield change((*path, value), gone, here, effect, about(path, sentence))

    def describe(self) -> str:
        return f"list of {self.item.describe()}"

    def wider(self) -> str:
        return "an item added" if self.widens == "added" else "an item removed"


@dataclass(frozen=True, slots=True)
class Order:
    """A list whose items and order are fixed; files spell it out for their readers."""

    values: tuple[str, ...]

    def read(self, node: Node, path: Path, reader: RuleReader) -> Value:
        items = node.items if isinstance(node, ListNode) else ()
        found = tuple(item.text for item in items if isinstance(item, ScalarNode))
        if found != self.values or len(found) != len(items):
            message = f"{path[-1]}: expected {self.describe()}"
            raise reader.fail(PolicyReason.VALUE, node.line, message)
        for item, value in zip(items, found, strict=True):
            reader.lines[(*path, value)] = item.line
        return found

    def compare(self, old: Value, new: Value, path: Path, words: str) -> Iterator[Change]:
        assert old == new == self.values, f"{path} {words}: one value only"
        return iter(())

    def describe(self) -> str:
        return f"exactly [{', '.join(self.values)}], in this order"

    def wider(self) -> str:
        return "cannot change"


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences in the order written; the model or the operator reads them."""

    item: Leaf
    most: int = 16

    def read(self, node: Node, path: Path, reader: RuleReader) -> Value:
        if not isinstance(node, ListNode) or not 1 <= len(node.items) <= self.most:
            message = f"{path[-1]}: expected {self.describe()}"
            raise reader.fail(PolicyReason.VALUE, node.line, message)
        return tuple(self.item.read(item, path, reader) for item in node.items)

    def compare(self, old: Value, new: Value, path: Path, words: str) -> Iterator[Change]:
        if old != new:
            yield change(path, old, new, "changes", about(path, f"{words} reworded"))

    def describe(self) -> str:
        return f"list of 1 to {self.most}: {self.item.describe()}"

    def wider(self) -> str:
        return UNORDERED


@dataclass(frozen=True, slots=True)
class Examples:
    """What a rule must match, or must not; checked when the policy is read, then dropped."""

    words: str
    needed: bool = False  # the reader of the section refuses a rule without one

    def describe(self) -> str:
        """Return what an example is, for people."""
        rest = "at least one" if self.needed else "may be left out"
        return f"list of {self.words}, checked at load; {rest}"


@dataclass(frozen=True, slots=True)
class RuleField:
    """A key of a record; `words` name the value in tables and in sentences."""

    name: str
    kind: "ValueKind | Examples"
    words: str


@dataclass(frozen=True, slots=True)
class RuleRecord:
    """A fixed set of keys, all of them required."""

    fields: tuple[RuleField, ...]

    def read(self, node: Node, path: Path, reader: RuleReader) -> Value:
        return self.read_block(node, path, reader)

    def read_block(self, node: Node, path: Path, reader: RuleReader) -> Mapping[str, Value]:
        """Return the values by key."""
        if not isinstance(node, BlockNode):
            message = f"{path[-1]}: expected keys and values"
            raise reader.fail(PolicyReason.VALUE, node.line, message)
        self._refuse_unknown(node, reader)
        given = {key.text: (key.line, item) for key, item in node.entries}
        values: dict[str, Value] = {}
        for entry in self.fields:
            below = (*path, entry.name)
            if isinstance(entry.kind, Examples):
                reader.examples[below] = _read_examples(given.get(entry.name), below, reader)
            elif entry.name not in given:
                message = f"{path[-1]}: key {entry.name} is missing"
                raise reader.fail(PolicyReason.MISSING_KEY, reader.lines[path], message)
            else:
                reader.lines[below], item = given[entry.name]
                values[entry.name] = entry.kind.read(item, below, reader)
        return MappingProxyType(values)

    def _refuse_unknown(self, node: BlockNode, reader: RuleReader) -> None:
        known = [entry.name for entry in self.fields]
        for key, _ in node.entries:
            if key.text not in known:
                near = difflib.get_close_matches(key.text, known, n=1)
                guess = f"; did you mean {near[0]}" if near else ""
                message = f"unknown key {quote(key.text)}{guess}"
                raise reader.fail(PolicyReason.UNKNOWN_KEY, key.line, message)

    def compare(
        self,
        old: Value,
        new: Value,
        path: Path,
        words: str,  # noqa: ARG002 -- the words of its fields say more
    ) -> Iterator[Change]:
        before, after = _mapping(old), _mapping(new)
        for entry in self.fields:
            if not isinstance(entry.kind, Examples):
                below, name = (*path, entry.name), entry.name
                yield from entry.kind.compare(before[name], after[name], below, entry.words)

    def describe(self) -> str:
        return "keys and values, see below"

    def wider(self) -> str:
        return "see below"


@dataclass(frozen=True, slots=True)
class RuleTable:
    """Rules by name; each name has exactly one rule, so their order means nothing."""

    key: Leaf
    row: RuleRecord
    most: int = 256
    least: int = 0
    widens: Literal["added", "removed"] = "added"

    def read(self, node: Node, path: Path, reader: RuleReader) -> Value:
        if not isinstance(node, BlockNode) or not self.least <= len(node.entries) <= self.most:
            message = f"{path[-1]}: expected {self.least} to {self.most} named entries"
            raise reader.fail(PolicyReason.VALUE, node.line, message)
        rows: dict[str, Value] = {}
        for key, item in node.entries:
            name = self.key.read(key, path, reader)
            assert isinstance(name, str)
            reader.lines[(*path, name)] = key.line
            rows[name] = self.row.read(item, (*path, name), reader)
        return MappingProxyType(rows)

    def compare(self, old: Value, new: Value, path: Path, words: str) -> Iterator[Change]:
        before, after = _mapping(old), _mapping(new)
        for name in sorted(before.keys() | after.keys()):
            below = (*path, name)
            if name in before and name in after:
                yield from self.row.compare(before[name], after[name], below, words)
            else:
                added = name in after
                sentence = f"{words} now also {name}" if added else f"{words} no longer {name}"
                old_row, new_row = before.get(name), after.get(name)
                effect = wider_if(added == (self.widens == "added"))
                yield change(below, old_row, new_row, effect, about(path, sentence))

    def describe(self) -> str:
        return f"keys are {self.key.describe()}"

    def wider(self) -> str:
        return "an entry added" if self.widens == "added" else "an entry removed"


def _read_examples(
    given: tuple[int, Node] | None, path: Path, reader: RuleReader
) -> tuple[ScalarNode, ...]:
    if given is None:
        return ()
    _, node = given
    if not isinstance(node, ListNode) or len(node.items) > MAX_EXAMPLES:
        message = f"{path[-1]}: expected a list of at most {MAX_EXAMPLES}"
        raise reader.fail(PolicyReason.VALUE, node.line, message)
    found = tuple(item for item in node.items if isinstance(item, ScalarNode))
    if len(found) != len(node.items):
        raise reader.fail(PolicyReason.VALUE, node.line, f"{path[-1]}: expected plain values")
    return found


def _texts(value: Value) -> Iterator[str]:
    assert isinstance(value, tuple)
    for item in value:
        assert isinstance(item, str)
        yield item


def _mapping(value: Value) -> Mapping[str, Value]:
    assert isinstance(value, Mapping)
    return value
