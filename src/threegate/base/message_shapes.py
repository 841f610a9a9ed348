"""Shapes of values that only messages have: lines, rows, tables, records sorted by key.

SECURITY
    Reads values that came out of hostile JSON, as `schema` does.  Text in a message is read by
    a sandbox or compared by the host; where it is shown to people, it is a `TextLine`.
"""

from collections.abc import Mapping
from dataclasses import fields
from operator import call
from types import MappingProxyType
from typing import Any

from threegate.base.limits import MAX_LINE_CHARS
from threegate.base.schema import Mismatch, Record, Shape, ShapeRule
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted


class _Same:
    """A shape whose typed value is the JSON value itself."""

    def plain(self, value: Any) -> Any:
        return value


class OneNumber(_Same):
    """One number of a fixed list."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def build(self, value: Any) -> int:
        if type(value) is not int or value not in self.numbers:
            raise Mismatch(ShapeRule.UNKNOWN_VALUE, "is not one of the known numbers")
        return value

    def json_schema(self) -> dict[str, Any]:
        return {"enum": list(self.numbers)}

    def describe(self) -> str:
        return " \\| ".join(map(str, self.numbers))


class OpenText(_Same):
    """Text of any characters that is not boxed: its reader is a sandbox, or only counts it."""

    def __init__(self, most: int, *, least: int = 0) -> None:
        self.most, self.least = most, least

    def build(self, value: Any) -> str:
        if type(value) is not str:
            raise Mismatch(ShapeRule.WRONG_TYPE, "is not a string")
        if not self.least <= len(value) <= self.most:
            detail = f"has {len(value)} characters, not {self.least} to {self.most}"
            raise Mismatch(ShapeRule.OUT_OF_RANGE, detail)
        return value

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": self.least, "maxLength": self.most}

    def describe(self) -> str:
        return f"text, {self.least} to {self.most} characters"


class Utf8Text(_Same):
    """Text that is not boxed, bounded by its bytes in UTF-8."""

    def __init__(self, most_bytes: int, *, least: int = 0) -> None:
        self.most_bytes, self.least = most_bytes, least

    def build(self, value: Any) -> str:
        if type(value) is not str:
            raise Mismatch(ShapeRule.WRONG_TYPE, "is not a string")
        try:
            size = len(value.encode("utf-8"))
        except UnicodeEncodeError as exc:  # half a surrogate pair
            raise Mismatch(ShapeRule.MALFORMED_VALUE, "has no spelling in UTF-8") from exc
        if not self.least <= size <= self.most_bytes:
            raise Mismatch(ShapeRule.OUT_OF_RANGE, f"has {size} bytes, limit {self.most_bytes}")
        return value

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": self.least, "maxLength": self.most_bytes}

    def describe(self) -> str:
        return f"text, {self.least} to {self.most_bytes} bytes of UTF-8"


class TextLine(OpenText):
    """One line of characters that are allowed in an artifact."""

    def __init__(self, most: int = MAX_LINE_CHARS, *, least: int = 1) -> None:
        super().__init__(most, least=least)

    def build(self, value: Any) -> str:
        text = super().build(value)
        if "\n" in text or "\t" in text or FORBIDDEN.search(text) is not None:
            raise Mismatch(ShapeRule.MALFORMED_VALUE, "holds a character that is not allowed there")
        return text

    def describe(self) -> str:
        return f"one line, {self.least} to {self.most} characters"


class BoxedText:
    """Another shape of text, which stays boxed after parsing."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def build(self, value: Any) -> Untrusted[str]:
        return Untrusted(self.shape.build(value))

    def plain(self, value: Untrusted[str]) -> Any:
        return self.shape.plain(value.open_for_validation())

    def json_schema(self) -> dict[str, Any]:
        return self.shape.json_schema()

    def describe(self) -> str:
        return self.shape.describe()


class RowShape:
    """A list of fixed length whose items have a shape each: a tuple, or a dataclass."""

    def __init__(self, *shapes: Shape) -> None:
        self.shapes = shapes
        self._builders = tuple(shape.build for shape in shapes)

    def build(self, value: Any) -> Any:
        if type(value) is not list or len(value) != len(self.shapes):
            raise Mismatch(ShapeRule.WRONG_TYPE, f"is not a list of {len(self.shapes)} values")
        return tuple(map(call, self._builders, value))

    def plain(self, value: Any) -> list[Any]:
        return [shape.plain(item) for shape, item in zip(self.shapes, value, strict=True)]

    def json_schema(self) -> dict[str, Any]:
        return {"type": "array", "prefixItems": [shape.json_schema() for shape in self.shapes]}

    def describe(self) -> str:
        return f"[{'; '.join(shape.describe() for shape in self.shapes)}]"


class RecordRow(RowShape):
    """A dataclass spelled as the list of its values, in the order of its fields."""

    def __init__(self, kind: Any, *shapes: Shape) -> None:
        self.kind, self.names = kind, tuple(item.name for item in fields(kind))
        declared = [item.metadata.get("shape") for item in fields(kind)]
        super().__init__(*(shapes or declared))

    def build(self, value: Any) -> Any:
        built = super().build(value)
        make = getattr(self.kind, "from_built", None)
        return (
            self.kind(*built) if make is None else make(dict(zip(self.names, built, strict=True)))
        )

    def plain(self, value: Any) -> list[Any]:
        return super().plain([getattr(value, name) for name in self.names])

    def describe(self) -> str:
        return f"`{self.kind.__name__}` as a list"


class TableShape:
    """An object whose keys are data: names with a value each, sorted by name."""

    def __init__(self, key: Shape, value: Shape, most: int) -> None:
        self.key, self.value, self.most = key, value, most

    def build(self, value: Any) -> Mapping[str, Any]:
        if type(value) is not dict:
            raise Mismatch(ShapeRule.WRONG_TYPE, "is not an object")
        if len(value) > self.most:
            raise Mismatch(ShapeRule.OUT_OF_RANGE, f"has {len(value)} keys, limit {self.most}")
        items = value.items()
        return MappingProxyType(
            {self.key.build(key): self.value.build(item) for key, item in items}
        )

    def plain(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self.value.plain(item) for key, item in sorted(value.items())}

    def json_schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.value.json_schema()}

    def describe(self) -> str:
        words = f"key: {self.key.describe()}; value: {self.value.describe()}"
        return f"object of up to {self.most} keys ({words})"


class SortedRecord(Record):
    """A record inside a message: exactly its fields, sorted as canonical JSON sorts keys."""

    def __init__(self, kind: Any) -> None:
        super().__init__(kind)
        self._make = lambda *values: kind.from_built(dict(zip(self.shapes, values, strict=True)))

    def _shapes(self, kind: Any) -> dict[str, Shape]:
        return {item.name: item.metadata["shape"] for item in sorted(fields(kind), key=_name)}


def _name(item: Any) -> str:
    name: str = item.name
    return name
