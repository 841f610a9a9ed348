"""Types of single values: how text is parsed, the range, and which change is wider.

SECURITY
    Reads text from policy files.  Each type accepts ASCII listed by its own pattern, so
    that no second spelling of a value exists; only `prose` texts may hold more.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from threegate.base.text import quote
from threegate.policy.limits import MAX_NUMBER_DIGITS, MAX_SCALAR_CHARS
from threegate.policy.nodes import (
    Change,
    Effect,
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

# Sizes and times as people write them, and the one integer that each of them is.
#
# A key names its canonical unit (`wall_ms`, `memory_bytes`); the value may use any unit that
# converts to it exactly: `wall_ms: 2s`, `memory_bytes: 64MiB`.

# [0-9], not \d: `int("٣")` is 3, and nobody reviewing the file would read it so.
_NUMBER: Final = re.compile(rf"(0|[1-9][0-9]{{0,{MAX_NUMBER_DIGITS - 1}}})([A-Za-z]*)\Z")


@dataclass(frozen=True, slots=True)
class Unit:
    """What a number counts; `factors` lists the suffixes it may carry, largest first."""

    name: str
    factors: tuple[tuple[str, int], ...] = ()

    def parse(self, text: str) -> int:
        """Return the number in the canonical unit, or raise ValueError."""
        found = _NUMBER.match(text)
        if found is None:
            raise ValueError(f"expected {self.expected()}")
        for suffix, factor in (*self.factors, ("", 1)):
            if suffix == found[2]:
                return int(found[1]) * factor
        raise ValueError(f"expected {self.expected()}")

    def show(self, number: int) -> str:
        """Return the shortest spelling that `parse` reads as `number`."""
        for suffix, factor in self.factors:
            if number and number % factor == 0:
                return f"{number // factor}{suffix}"
        return str(number)

    def expected(self) -> str:
        """Return what an author may write."""
        if not self.factors:
            return "a whole number"
        suffixes = ", ".join(suffix for suffix, _ in reversed(self.factors))
        return f"a number of {self.name}, or one with {suffixes}"


def unit_of(key: str) -> Unit:
    """Return the canonical unit that the end of a key names."""
    ending = key.rpartition("_")[2]
    return MILLISECONDS if ending == "ms" else BYTES if ending == "bytes" else COUNT


def sized(number: int) -> str:
    """Return a number of bytes as a policy file would spell it, never without a unit."""
    shown = BYTES.show(number)
    return f"{shown} bytes" if shown.isdigit() else shown


COUNT: Final = Unit("whole number")
BYTES: Final = Unit("bytes", (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)))
SECONDS: Final = Unit("seconds", (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)))
MILLISECONDS: Final = Unit(
    "milliseconds", (("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
)


UNORDERED: Final = "no order: every change is shown"

LeafValue = int | str | None


class Leaf(ABC):
    """A single value."""

    @abstractmethod
    def parse(self, text: str) -> LeafValue:
        """Return the value spelled by `text`, or raise ValueError saying what was expected."""

    @abstractmethod
    def effect(self, old: LeafValue, new: LeafValue) -> Effect:
        """Return what a change from `old` to `new` does; the two differ."""

    @abstractmethod
    def describe(self) -> str:
        """Return type and range, for people."""

    @abstractmethod
    def wider(self) -> str:
        """Return which change lets more happen, for people."""

    def show(self, value: LeafValue) -> str:
        """Return the value as an author would write it."""
        return "none" if value is None else str(value)

    def read(self, node: Node, path: Path, reader: RuleReader) -> LeafValue:
        """Return the typed value of `node`, or raise `PolicyInvalid`."""
        if not isinstance(node, ScalarNode):
            raise reader.fail(
                PolicyReason.VALUE, node.line, f"{path[-1]}: expected {self.describe()}"
            )
        try:
            return self.parse(node.text)
        except ValueError as exc:
            message = f"{path[-1]} {quote(node.text)}: {exc}"
            raise reader.fail(PolicyReason.VALUE, node.line, message) from exc

    def compare(self, old: Value, new: Value, path: Path, words: str) -> Iterator[Change]:
        """Yield the one change between two values of this type, if there is any."""
        assert not isinstance(old, tuple) and (old is None or isinstance(old, int | str))
        assert not isinstance(new, tuple) and (new is None or isinstance(new, int | str))
        if old != new:
            sentence = f"{words} now {self.show(new)}, before {self.show(old)}"
            yield change(path, old, new, self.effect(old, new), about(path, sentence))


@dataclass(frozen=True, slots=True)
class Number(Leaf):
    """A whole number within a range, in the unit its key names."""

    low: int
    high: int
    unit: Unit = COUNT
    widens: Literal["up", "down"] = "up"

    def parse(self, text: str) -> int:
        number = self.unit.parse(text)
        if not self.low <= number <= self.high:
            raise ValueError(f"outside {self._range()}")
        return number

    def effect(self, old: LeafValue, new: LeafValue) -> Effect:
        assert isinstance(old, int)
        assert isinstance(new, int)
        return wider_if((new > old) == (self.widens == "up"))

    def describe(self) -> str:
        return f"{self.unit.name}, {self._range()}"

    def wider(self) -> str:
        return "more" if self.widens == "up" else "less"

    def show(self, value: LeafValue) -> str:
        assert isinstance(value, int)
        return self.unit.show(value)

    def _range(self) -> str:
        low, high = self.unit.show(self.low), self.unit.show(self.high)
        return f"exactly {low}" if low == high else f"{low} to {high}"


@dataclass(frozen=True, slots=True)
class WordChoice(Leaf):
    """One of a few words, listed from the narrowest to the widest."""

    values: tuple[str, ...]

    def parse(self, text: str) -> str:
        if text not in self.values:
            raise ValueError(f"expected {self.describe()}")
        return text

    def effect(self, old: LeafValue, new: LeafValue) -> Effect:
        assert isinstance(old, str)
        assert isinstance(new, str)
        return wider_if(self.values.index(new) > self.values.index(old))

    def describe(self) -> str:
        return ", ".join(f"`{value}`" for value in self.values)

    def wider(self) -> str:
        return "further right" if len(self.values) > 1 else "cannot change"


def no_further_rule(_: str) -> None:
    """Accept everything that the pattern accepted."""


@dataclass(frozen=True, slots=True)
class Word(Leaf):
    """Text of a given form; `none` may stand for its absence, as the narrowest value or not."""

    pattern: str
    words: str
    most: int = 128
    check: Callable[[str], None] = no_further_rule
    optional: Literal["", "narrowest", "unordered"] = ""

    def parse(self, text: str) -> str | None:
        if self.optional and text == "none":
            return None
        if len(text) > self.most or re.fullmatch(self.pattern, text) is None:
            raise ValueError(f"expected {self.describe()}")
        self.check(text)
        return text

    def effect(self, old: LeafValue, new: LeafValue) -> Effect:
        if self.optional == "narrowest":
            # Another value is wider as well: the new name had nothing before.
            return wider_if(new is not None and new != old)
        return "changes"

    def describe(self) -> str:
        return f"{self.words}, or `none`" if self.optional else self.words

    def wider(self) -> str:
        return "any new value but `none`" if self.optional == "narrowest" else UNORDERED


def prose(most: int = MAX_SCALAR_CHARS) -> Word:
    """Return the type of a sentence; the characters were checked with the whole file."""
    return Word(r"[^\n]+", f"a sentence of at most {most} characters", most=most)


NAME: Final = Word(r"[a-z][a-z0-9_-]{0,63}", "a lower-case name", most=64)
DIGEST: Final = Word(r"[0-9a-f]{64}", "a SHA-256 in lower-case hex")
OPTIONAL_DIGEST: Final = Word(DIGEST.pattern, DIGEST.words, optional="unordered")
SWITCH: Final = WordChoice(("no", "yes"))
