"""Messages that are mostly text: a header of fields, then all texts with their lengths.

SECURITY
    Reads bytes from the other side of a gate.  Lengths are checked before anything is cut
    out, the texts must fill the message exactly, and what is not UTF-8 is refused.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from threegate.base import wire
from threegate.base.errors import ProtocolBroken
from threegate.base.schema import Integer, ListOf, Mismatch, Shape, ShapeRule
from threegate.base.wire import Packed, need, parts_of


def pack_texts(protocol: str, kind: str, fields: dict[str, Any], texts: Sequence[str]) -> bytes:
    """Return a message whose one part is all texts, and whose header says where each ends."""
    datas = [text.encode("utf-8") for text in texts]
    lengths = b"".join(len(data).to_bytes(4, "big") for data in datas)
    return wire.pack(protocol, kind, fields, [lengths, b"".join(datas)])


def texts_of(packed: Packed) -> list[str]:
    """Return the texts of a message, or raise `ProtocolBroken`."""
    lengths, joined = parts_of(packed, 2)
    need(len(lengths) % 4 == 0, "a text without a length")
    texts, at = [], 0
    for start in range(0, len(lengths), 4):
        size = int.from_bytes(lengths[start : start + 4], "big")
        need(at + size <= len(joined), "the texts do not fill the message")
        texts.append(_decoded(joined[at : at + size]))
        at += size
    need(at == len(joined), "the texts do not fill the message")
    return texts


def _decoded(untrusted: bytes) -> str:
    try:
        return untrusted.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ProtocolBroken("a text is not UTF-8") from exc


class OneText:
    """One text."""

    header: Shape | None = None
    most_bytes = 0  # the message as a whole is bounded

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def split(self, value: Any) -> tuple[Any, list[str]]:
        return None, [self.shape.plain(value)]

    def join(self, _head: Any, parts: Iterator[str]) -> Any:
        text = next(parts, None)
        if text is None:
            raise Mismatch(ShapeRule.MISSING_KEY, "is missing")
        return self.shape.build(text)

    def describe(self) -> str:
        return f"text: {self.shape.describe()}"


class CountedTexts:
    """Several texts; the header holds how many."""

    most_bytes = 0

    def __init__(self, shape: Shape, most: int, *, least: int = 0) -> None:
        self.header: Shape | None = Integer(least, most)
        self.one, self.most, self.least = OneText(shape), most, least

    def split(self, value: Any) -> tuple[Any, list[str]]:
        texts = [text for item in value for text in self.one.split(item)[1]]
        return len(texts), texts

    def join(self, head: Any, parts: Iterator[str]) -> tuple[Any, ...]:
        return tuple(self.one.join(None, parts) for _ in range(head))

    def describe(self) -> str:
        return f"{self.least} to {self.most} texts: {self.one.shape.describe()}"


class _AnyValue:
    """What `TextRecords` builds with the shape of the record that it belongs to."""

    def build(self, value: Any) -> Any:
        return value

    def plain(self, value: Any) -> Any:
        return value

    def json_schema(self) -> dict[str, Any]:
        return {}

    def describe(self) -> str:
        return "the value of its one field in the header"


class TextRecords:
    """Records of texts and one field in the header; of several kinds: `[KIND, value]`."""

    most_bytes = 0

    def __init__(self, most: int, plain: Any = None, **kinds: Any) -> None:
        self.header: Shape | None = ListOf(_AnyValue(), most)
        self.most, self.plain, self.kinds = most, plain, kinds

    def split(self, value: Any) -> tuple[Any, list[str]]:
        heads, texts = [], []
        for item in value:
            head, more = self._split(item)
            heads.append(head)
            texts += more
        return heads, texts

    def join(self, head: Any, parts: Iterator[str]) -> tuple[Any, ...]:
        return tuple(self._join(item, parts) for item in head)

    def describe(self) -> str:
        names = [kind.__name__ for kind in ([self.plain] if self.plain else self.kinds.values())]
        return f"list of up to {self.most}: {' or '.join(f'`{name}`' for name in names)}"

    def _split(self, item: Any) -> tuple[Any, list[str]]:
        head, texts = None, []
        for one in item.declared:
            found, more = one.spell(getattr(item, one.name))
            head = found if one.header is not None else head
            texts += more
        if self.plain is not None:
            return head, texts
        return [next(name for name, kind in self.kinds.items() if type(item) is kind), head], texts

    def _join(self, head: Any, parts: Iterator[str]) -> Any:
        kind = self.plain
        if kind is None:
            if type(head) is not list or len(head) != 2 or type(head[0]) is not str:
                raise Mismatch(ShapeRule.WRONG_TYPE, "holds an item that is not a pair")
            name, head = head
            kind = self.kinds.get(name)
            if kind is None:
                raise Mismatch(ShapeRule.UNKNOWN_VALUE, "holds an item of no known kind")
        return kind.from_built({one.name: one.read(head, parts) for one in kind.declared})
