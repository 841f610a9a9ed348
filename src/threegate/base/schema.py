"""Shapes of values: how a JSON value becomes a typed one, and back.

A shape is the single place of a bound: the parsers of artifacts and messages, the JSON Schema
and the field tables in docs/formats all come from it.

SECURITY
    Reads values that came out of hostile JSON.  A shape returns a frozen typed value
    or raises; free text stays in its box.  If a shape is wrong, a value out of bounds
    enters the typed world.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields
from datetime import datetime
from enum import Enum, auto
from operator import call, ge
from typing import Any, Protocol

from threegate.base.limits import MAX_COUNT, MAX_LINE_CHARS
from threegate.base.untrusted import Untrusted


class ShapeRule(Enum):
    """A rule that a value can break."""

    UNKNOWN_KEY = auto()
    MISSING_KEY = auto()
    KEY_ORDER = auto()
    WRONG_TYPE = auto()
    OUT_OF_RANGE = auto()
    UNKNOWN_VALUE = auto()
    MALFORMED_VALUE = auto()
    LIST_ORDER = auto()


class Mismatch(Exception):
    """A value is not of its shape; the parser that asked turns this into an error of ours.

    `detail` is our own words and follows the name of the field: "is not a list".  Where
    `found` is given, it is the foreign value, and `detail` goes on after "is".
    """

    def __init__(self, rule: ShapeRule, detail: str, *, found: str | None = None) -> None:
        super().__init__(detail)
        self.rule, self.detail, self.found = rule, detail, found
        self.path = ""

    @property
    def words(self) -> str:
        """What is wrong, without a foreign character."""
        return f"{self.path}{'' if self.found is None else 'is '}{self.detail}"


class Shape(Protocol):
    """What a value must look like."""

    def build(self, value: Any) -> Any:
        """Return the typed value, or raise `Mismatch`."""

    def plain(self, value: Any) -> Any:
        """Return the JSON value that `build` turns into `value`."""

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the value."""

    def describe(self) -> str:
        """Return the words for the field table."""


class _Plain:
    """A shape whose typed value is the JSON value itself."""

    def plain(self, value: Any) -> Any:
        return value


def _not_a(name: str) -> Mismatch:
    return Mismatch(ShapeRule.WRONG_TYPE, f"is not {name}")


class Integer(_Plain):
    """A whole number within bounds."""

    def __init__(self, low: int = 0, high: int = MAX_COUNT) -> None:
        self.low, self.high = low, high

    def build(self, value: Any) -> int:
        if type(value) is not int:  # bool is an int to isinstance
            raise _not_a("a whole number")
        if not self.low <= value <= self.high:
            raise Mismatch(ShapeRule.OUT_OF_RANGE, f"is not within {self.low}..{self.high}")
        return value

    def json_schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}

    def describe(self) -> str:
        return f"whole number, {self.low} to {self.high}"


class Boolean(_Plain):
    """true or false."""

    def build(self, value: Any) -> bool:
        if type(value) is not bool:
            raise _not_a("true or false")
        return value

    def json_schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def describe(self) -> str:
        return "true or false"


class Choice(_Plain):
    """One word of a fixed list."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self._known = frozenset(words)

    def build(self, value: Any) -> str:
        if type(value) is not str:
            raise _not_a("a string")
        if value not in self._known:
            raise Mismatch(ShapeRule.UNKNOWN_VALUE, "not one of the known values", found=value)
        return value

    def json_schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}

    def describe(self) -> str:
        return " \\| ".join(f"`{word}`" for word in self.words)


class Pattern(_Plain):
    """A string of our own grammar; it holds no free text, so it stays unboxed."""

    def __init__(self, pattern: str, words: str, *, most: int = MAX_LINE_CHARS) -> None:
        self.pattern, self.words, self.most = pattern, words, most
        self._match = re.compile(rf"\A(?:{pattern})\Z", re.ASCII).match

    def build(self, value: Any) -> str:
        if type(value) is not str:
            raise _not_a("a string")
        if len(value) > self.most:
            raise Mismatch(
                ShapeRule.OUT_OF_RANGE, f"has {len(value)} characters, limit {self.most}"
            )
        if self._match(value) is None:
            raise Mismatch(ShapeRule.MALFORMED_VALUE, f"not {self.words}", found=value)
        return value

    def fits(self, text: str) -> bool:
        """Tell whether a string is of this grammar."""
        return len(text) <= self.most and self._match(text) is not None

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(?:{self.pattern})$", "maxLength": self.most}

    def describe(self) -> str:
        return self.words


class Time(Pattern):
    """A moment that exists in the calendar."""

    def build(self, value: Any) -> str:
        text = super().build(value)
        try:
            datetime.fromisoformat(text[:-1])
        except ValueError as exc:
            raise Mismatch(ShapeRule.MALFORMED_VALUE, "no such moment", found=text) from exc
        return text


class Text:
    """One line of free text; it stays boxed after parsing."""

    def __init__(self, most: int = MAX_LINE_CHARS, *, least: int = 1) -> None:
        self.most, self.least = most, least

    def build(self, value: Any) -> Untrusted[str]:
        if type(value) is not str:
            raise _not_a("a string")
        if not self.least <= len(value) <= self.most:
            detail = f"has {len(value)} characters, not {self.least} to {self.most}"
            raise Mismatch(ShapeRule.OUT_OF_RANGE, detail)
        return Untrusted(value)

    def plain(self, value: Untrusted[str]) -> str:
        return value.open_for_validation()

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": self.least, "maxLength": self.most}

    def describe(self) -> str:
        return f"free text, {self.least} to {self.most} characters"


class Nullable:
    """Another shape, or null."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def build(self, value: Any) -> Any:
        return None if value is None else self.shape.build(value)

    def plain(self, value: Any) -> Any:
        return None if value is None else self.shape.plain(value)

    def json_schema(self) -> dict[str, Any]:
        return {"anyOf": [self.shape.json_schema(), {"type": "null"}]}

    def describe(self) -> str:
        return f"{self.shape.describe()}, or null"


class Either:
    """One word of a fixed list, or a record in its place."""

    def __init__(self, words: Choice, record: "Record") -> None:
        self.words, self.record = words, record

    def build(self, value: Any) -> Any:
        return self.record.build(value) if type(value) is dict else self.words.build(value)

    def plain(self, value: Any) -> Any:
        return value if type(value) is str else self.record.plain(value)

    def json_schema(self) -> dict[str, Any]:
        return {"anyOf": [self.words.json_schema(), self.record.json_schema()]}

    def describe(self) -> str:
        return f"{self.words.describe()}, or a {self.record.describe()}"


class ListOf:
    """A bounded list, in the order the sender gave it."""

    order = "list"

    def __init__(self, shape: Shape, most: int, *, least: int = 0) -> None:
        self.shape, self.most, self.least = shape, most, least
        self._build = shape.build

    def build(self, value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise _not_a("a list")
        if not self.least <= len(value) <= self.most:
            detail = f"has {len(value)} items, not {self.least} to {self.most}"
            raise Mismatch(ShapeRule.OUT_OF_RANGE, detail)
        if not value:
            return ()
        return tuple(map(self._build, value))

    def plain(self, value: tuple[Any, ...]) -> list[Any]:
        return [self.shape.plain(item) for item in value]

    def json_schema(self) -> dict[str, Any]:
        schema = {"type": "array", "items": self.shape.json_schema()}
        return {**schema, "minItems": self.least, "maxItems": self.most}

    def describe(self) -> str:
        return f"{self.order} of {self.least} to {self.most}: {self.shape.describe()}"


class Sorted(ListOf):
    """A list in ascending order of code points, each item once."""

    order = "sorted list without repeats"

    def build(self, value: Any) -> tuple[Any, ...]:
        items = super().build(value)
        if len(items) > 1:
            keys = list(map(self._key, value))
            if any(map(ge, keys, keys[1:])):
                raise Mismatch(ShapeRule.LIST_ORDER, "is not sorted, or holds an item twice")
        return items

    def arrange(self, value: list[Any]) -> list[Any]:
        """Return `value` sorted, where its items can be compared at all."""
        try:
            return sorted(value, key=self._key)
        except (AttributeError, StopIteration, TypeError):
            return value

    def _key(self, item: Any) -> Any:
        return tuple(item.values()) if type(item) is dict else item

    def json_schema(self) -> dict[str, Any]:
        return {**super().json_schema(), "uniqueItems": True}


class Named(Sorted):
    """A list of records or rows sorted by their first field, which no two share."""

    order = "list sorted by its first field, which no two share,"

    def _key(self, item: Any) -> Any:
        # With two entries of one name, two readers could use different ones.
        return item[0] if type(item) is list else next(iter(item.values()))


class Record:
    """An object with exactly the fields of a dataclass, in their order."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.shapes = self._shapes(kind)
        self._keys = tuple(self.shapes)
        self._builders = tuple(shape.build for shape in self.shapes.values())
        self._make: Callable[..., Any] = kind

    def _shapes(self, kind: type) -> dict[str, Shape]:
        return shapes_of(kind)

    def build(self, value: Any) -> Any:
        if type(value) is not dict:
            raise _not_a("an object")
        if tuple(value) != self._keys:
            raise self._wrong_keys(value)
        try:
            return self._make(*map(call, self._builders, value.values()))
        except Mismatch as exc:
            raise first_mismatch(self.shapes, value) from exc

    def _wrong_keys(self, value: dict[str, Any]) -> Mismatch:
        rule = ShapeRule.KEY_ORDER
        if not set(self._keys) <= set(value):
            rule = ShapeRule.MISSING_KEY
        if not set(value) <= set(self._keys):
            rule = ShapeRule.UNKNOWN_KEY
        return Mismatch(rule, f"must have the keys {', '.join(self._keys)}, in this order")

    def plain(self, value: Any) -> dict[str, Any]:
        return plain_record(self.shapes, value)

    def json_schema(self) -> dict[str, Any]:
        return object_schema(self.shapes)

    def describe(self) -> str:
        return f"`{self.kind.__name__}` object"


def first_mismatch(shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> Mismatch:
    """Return what is wrong with the first field that is, with its name in front."""
    for key, shape in shapes.items():
        try:
            shape.build(values[key])
        except Mismatch as exc:
            exc.path = f"{key} {exc.path}"
            return exc
    raise AssertionError("every value is of its shape")


def plain_record(shapes: Mapping[str, Shape], value: Any) -> dict[str, Any]:
    """Return the JSON object for a typed record."""
    return {key: shape.plain(getattr(value, key)) for key, shape in shapes.items()}


def object_schema(shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """Return the JSON Schema of an object with exactly these keys."""
    return {
        "type": "object",
        "properties": {key: shape.json_schema() for key, shape in shapes.items()},
        "required": list(shapes),
        "additionalProperties": False,
    }


def spec(shape: Shape, doc: str) -> Any:
    """Declare a field of a dataclass: its shape and one sentence about it."""
    return field(metadata={"shape": shape, "doc": doc})


def shapes_of(kind: type) -> dict[str, Shape]:
    """Return the declared shapes of a dataclass, in order; none of its fields has a default."""
    declared = [item for item in fields(kind) if "shape" in item.metadata]
    assert all(item.default is MISSING for item in declared), "formats have no hidden defaults"
    return {item.name: item.metadata["shape"] for item in declared}


def docs_of(kind: type) -> dict[str, str]:
    """Return the declared sentences of a dataclass, sections included, in order."""
    return {item.name: item.metadata["doc"] for item in fields(kind)}
