r"""One spelling of a message: a line of canonical JSON, then raw parts of the lengths it names.

    {"fields":{...},"kind":"job","parts":[812,394,270],"protocol":"tool-lite/1"}\n<812 bytes>...

SECURITY
    Reads bytes from the other side of a gate, which may be compromised.  The header is cut
    off by its own bound, the parts must fill the message exactly, and nothing is decoded
    before its length is known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import ProtocolBroken
from threegate.base.limits import MAX_HEADER_BYTES, MAX_PARTS
from threegate.base.untrusted import Untrusted

_KEYS: Final = ("fields", "kind", "parts", "protocol")


@dataclass(frozen=True, slots=True)
class Packed:
    """A message taken apart; the values in `fields` are not validated yet."""

    kind: str
    fields: dict[str, Any]
    parts: tuple[bytes, ...]


def pack(protocol: str, kind: str, fields: dict[str, Any], parts: Sequence[bytes]) -> bytes:
    """Return the bytes of a message."""
    head = {
        "fields": fields,
        "kind": kind,
        "parts": [len(part) for part in parts],
        "protocol": protocol,
    }
    line = canonical.encode(head)
    if len(line) >= MAX_HEADER_BYTES:
        raise ProtocolBroken("the header is too long")
    return b"".join([line, b"\n", *parts])


def unpack(untrusted: bytes, *, protocol: str, most_bytes: int) -> Packed:
    """Return the message of `protocol` in `untrusted`, or raise `ProtocolBroken`."""
    if len(untrusted) > most_bytes:
        raise ProtocolBroken(f"{len(untrusted)} bytes, limit {most_bytes}")
    end = untrusted.find(b"\n", 0, MAX_HEADER_BYTES)
    if end < 0:
        raise ProtocolBroken("no header")
    try:
        head = canonical.decode(untrusted[:end])
    except ValueError as exc:
        raise ProtocolBroken("the header is not canonical JSON") from exc
    if not isinstance(head, dict) or tuple(head) != _KEYS or head["protocol"] != protocol:
        raise ProtocolBroken("not a message of this protocol")
    if type(head["kind"]) is not str or type(head["fields"]) is not dict:
        raise ProtocolBroken("not a message of this protocol")
    return Packed(head["kind"], head["fields"], tuple(_parts(untrusted, end + 1, head["parts"])))


def unpack_due(data: Untrusted[bytes], *kinds: str, protocol: str, most_bytes: int) -> Packed:
    """Return the message in `data` if it is one of these kinds, or raise `ProtocolBroken`."""
    packed = unpack(data.open_for_validation(), protocol=protocol, most_bytes=most_bytes)
    need(packed.kind in kinds, "not the message that is due")
    return packed


def _parts(untrusted: bytes, at: int, lengths: Any) -> Iterator[bytes]:
    if type(lengths) is not list or len(lengths) > MAX_PARTS:
        raise ProtocolBroken("too many parts")
    if not all(type(length) is int and length >= 0 for length in lengths):
        raise ProtocolBroken("a part without a length")
    if at + sum(lengths) != len(untrusted):
        raise ProtocolBroken("the parts do not fill the message")
    for length in lengths:
        yield untrusted[at : at + length]
        at += length


def parts_of(packed: Packed, count: int) -> tuple[bytes, ...]:
    """Return exactly `count` parts."""
    if len(packed.parts) != count:
        raise ProtocolBroken("unexpected parts")
    return packed.parts


def need(condition: bool, what: str) -> None:  # noqa: FBT001 -- the condition is the sentence
    """Raise `ProtocolBroken` unless the condition holds; `what` are our own words."""
    if not condition:
        raise ProtocolBroken(what)
