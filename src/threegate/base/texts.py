"""Messages that are mostly text: a header of fields, then all texts with their lengths.

SECURITY
    Reads bytes from the other side of a gate.  Lengths are checked before anything is cut
    out, the texts must fill the message exactly, and what is not UTF-8 is refused.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from threegate.base import wire
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.base.wire import need, parts_of


def pack_texts(protocol: str, kind: str, fields: dict[str, Any], texts: Sequence[str]) -> bytes:
    """Return a message whose one part is all texts, and whose header says where each ends."""
    datas = [text.encode("utf-8") for text in texts]
    lengths = b"".join(len(data).to_bytes(4, "big") for data in datas)
    return wire.pack(protocol, kind, fields, [lengths, b"".join(datas)])


def open_texts(
    protocol: str, data: Untrusted[bytes], most: int, *kinds: str
) -> tuple[str, dict[str, Any], list[str]]:
    """Return the kind, the fields and the texts of a message of one of these kinds."""
    packed = wire.unpack_due(data, *kinds, protocol=protocol, most_bytes=most)
    lengths, joined = parts_of(packed, 2)
    need(len(lengths) % 4 == 0, "a text without a length")
    texts, at = [], 0
    for start in range(0, len(lengths), 4):
        size = int.from_bytes(lengths[start : start + 4], "big")
        need(at + size <= len(joined), "the texts do not fill the message")
        texts.append(_decoded(joined[at : at + size]))
        at += size
    need(at == len(joined), "the texts do not fill the message")
    return packed.kind, packed.fields, texts


def _decoded(untrusted: bytes) -> str:
    try:
        return untrusted.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ProtocolBroken("a text that is none") from exc


def next_text(left: Iterator[str]) -> str:
    """Return the next text, or raise `ProtocolBroken` if there is none."""
    text = next(left, None)
    if text is None:
        raise ProtocolBroken("fewer texts than it names")
    return text


def need_list(value: Any, most: int) -> list[Any]:
    """Return `value` if it is a list within its bound."""
    need(type(value) is list and len(value) <= most, "not a list, or too long a one")
    found: list[Any] = value
    return found
