"""Raw parts of a message: bytes and texts that follow its header, with their bounds.

SECURITY
    Reads bytes from the other side of a gate.  The message as a whole was bounded before; each
    part has a bound of its own, and text that is not UTF-8 is refused.
"""

from collections.abc import Iterator
from typing import Any, Protocol

from threegate.base import canonical
from threegate.base.message_shapes import RowShape
from threegate.base.schema import Integer, ListOf, Mismatch, Named, Shape, ShapeRule
from threegate.base.untrusted import Untrusted


class Carrier(Protocol):
    """How a field travels outside the header; `header` is the shape of what it leaves in it."""

    header: Shape | None
    most_bytes: int  # of all its parts

    def split(self, value: Any) -> tuple[Any, list[Any]]:
        """Return what goes into the header, and the parts."""

    def join(self, head: Any, parts: Iterator[Any]) -> Any:
        """Return the typed value, or raise `Mismatch`; takes from `parts` what is its own."""

    def describe(self) -> str:
        """Return the words for the field table."""


class Raw:
    """Bytes as they are."""

    words = "bytes"

    def take(self, raw: bytes) -> Any:
        return raw

    def put(self, value: Any) -> bytes:
        if type(value) is not bytes:
            raise Mismatch(ShapeRule.WRONG_TYPE, "is not bytes")
        return value


class Utf8(Raw):
    """Text as UTF-8."""

    words = "bytes of UTF-8"

    def take(self, raw: bytes) -> Any:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise Mismatch(ShapeRule.MALFORMED_VALUE, "is not UTF-8") from exc

    def put(self, value: Any) -> bytes:
        try:
            spelled: bytes = value.encode("utf-8")
        except UnicodeEncodeError as exc:  # half a surrogate pair
            raise Mismatch(ShapeRule.MALFORMED_VALUE, "has no spelling in UTF-8") from exc
        return spelled


class BoxedUtf8(Utf8):
    """Text as UTF-8 that stays boxed."""

    def take(self, raw: bytes) -> Any:
        return Untrusted(super().take(raw))

    def put(self, value: Any) -> bytes:
        return super().put(value.open_for_validation())


class RawPart:
    """One part."""

    header: Shape | None = None

    def __init__(self, most_bytes: int, form: Raw | None = None) -> None:
        self.most_bytes, self.form = most_bytes, form or Raw()

    def split(self, value: Any) -> tuple[Any, list[bytes]]:
        return None, [self.form.put(value)]

    def join(self, _head: Any, parts: Iterator[bytes]) -> Any:
        raw = next(parts, None)
        if raw is None:
            raise Mismatch(ShapeRule.MISSING_KEY, "is missing")
        if len(raw) > self.most_bytes:
            raise Mismatch(ShapeRule.OUT_OF_RANGE, "is too large")
        return self.form.take(raw)

    def describe(self) -> str:
        return f"part: up to {self.most_bytes} {self.form.words}"


class RawParts:
    """All parts that are left, in their order."""

    header: Shape | None = None

    def __init__(
        self,
        most: int,
        each_bytes: int,
        *,
        least: int = 0,
        total_bytes: int | None = None,
        form: Raw | None = None,
    ) -> None:
        self.most, self.least, self.one = most, least, RawPart(each_bytes, form)
        self.most_bytes = most * each_bytes if total_bytes is None else total_bytes

    def split(self, value: Any) -> tuple[Any, list[bytes]]:
        return None, [part for item in value for part in self.one.split(item)[1]]

    def join(self, _head: Any, parts: Iterator[bytes]) -> tuple[Any, ...]:
        raws = list(parts)
        if not self.least <= len(raws) <= self.most:
            raise Mismatch(ShapeRule.OUT_OF_RANGE, "has too few or too many parts")
        if sum(map(len, raws)) > self.most_bytes:
            raise Mismatch(ShapeRule.OUT_OF_RANGE, "is too large")
        return tuple(self.one.join(None, iter([raw])) for raw in raws)

    def describe(self) -> str:
        size = f"up to {self.one.most_bytes} {self.one.form.words} each, {self.most_bytes} in all"
        return f"{self.least} to {self.most} parts: {size}"


class NamedParts:
    """Pairs of a name and bytes: the names in the header, the bytes as parts in their order.

    The name `without` has no bytes: its pair holds None.
    """

    def __init__(
        self,
        names: ListOf,
        each_bytes: int,
        *,
        total_bytes: int | None = None,
        without: str | None = None,
    ) -> None:
        self.header: Shape | None = names
        self.names, self.one, self.without = names, RawPart(each_bytes), without
        self.most_bytes = names.most * each_bytes if total_bytes is None else total_bytes

    def split(self, value: Any) -> tuple[Any, list[bytes]]:
        given = [data for name, data in value if name != self.without]
        if any(data is not None for name, data in value if name == self.without):
            raise Mismatch(ShapeRule.MALFORMED_VALUE, "has bytes for a name without any")
        return [name for name, _ in value], [self.one.form.put(data) for data in given]

    def join(self, head: Any, parts: Iterator[bytes]) -> tuple[tuple[str, bytes | None], ...]:
        found = tuple(
            (name, None if name == self.without else self.one.join(None, parts)) for name in head
        )
        if sum(len(data) for _, data in found if data is not None) > self.most_bytes:
            raise Mismatch(ShapeRule.OUT_OF_RANGE, "is too large")
        return found

    def describe(self) -> str:
        bare = f", none for `{self.without}`" if self.without else ""
        return f"{self.names.describe()}; each with a part{bare}: {self.one.describe()[6:]}"


class JsonPart:
    """One part that holds a value as canonical JSON: more than a header has room for."""

    header: Shape | None = None

    def __init__(self, shape: Shape, most_bytes: int) -> None:
        self.shape, self.most_bytes = shape, most_bytes

    def split(self, value: Any) -> tuple[Any, list[bytes]]:
        return None, [canonical.encode(self.shape.plain(value))]

    def join(self, _head: Any, parts: Iterator[bytes]) -> Any:
        raw = RawPart(self.most_bytes).join(None, parts)
        try:
            return self.shape.build(canonical.decode(raw))
        except ValueError as exc:
            raise Mismatch(ShapeRule.MALFORMED_VALUE, "is not canonical JSON") from exc

    def describe(self) -> str:
        return f"part of canonical JSON: {self.shape.describe()}"


class JoinedParts:
    """Pairs of a name and bytes: names and sizes in the header, all bytes in one part."""

    def __init__(self, name: Shape, most: int, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.header: Shape | None = Named(RowShape(name, Integer(0, most_bytes)), most)

    def split(self, value: Any) -> tuple[Any, list[bytes]]:
        return [[name, len(data)] for name, data in value], [b"".join(data for _, data in value)]

    def join(self, head: Any, parts: Iterator[bytes]) -> tuple[tuple[str, bytes], ...]:
        joined = RawPart(self.most_bytes).join(None, parts)
        found, at = [], 0
        for name, size in head:
            found.append((name, joined[at : at + size]))
            at += size
        if at != len(joined):
            raise Mismatch(ShapeRule.OUT_OF_RANGE, "does not fill its part")
        return tuple(found)

    def describe(self) -> str:
        assert self.header is not None
        return f"{self.header.describe()}; all bytes in one part, up to {self.most_bytes}"


class OptionalParts:
    """All parts that are left as the fields of a record, or none of them and no record."""

    header: Shape | None = None

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.most_bytes = sum(one.carrier.most_bytes for one in kind.declared)

    def split(self, value: Any) -> tuple[Any, list[bytes]]:
        return None, [] if value is None else value.spelled()[1]

    def join(self, _head: Any, parts: Iterator[bytes]) -> Any:
        left = list(parts)
        return self.kind.read({}, left) if left else None

    def describe(self) -> str:
        each = "; ".join(f"{one.name}: {one.describe()}" for one in self.kind.declared)
        return f"no part, or all of these: {each}"
