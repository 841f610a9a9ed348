"""The head of a request, in the one form this server reads.

SECURITY
    Reads bytes of CORE, which may be owned.  Whatever HTTP allows beyond this form (folded
    lines, chunks, upgrades, ranges, expectations) is refused: nothing is interpreted twice.
"""

import re
from dataclasses import dataclass
from typing import Final

from threegate.gates.model.chat.messages import COMPLETIONS, MAX_CHAT_BYTES, MODELS
from threegate.gates.model.front.refused import Refused, Why

MAX_HEAD_BYTES: Final = 8 * 1024
END: Final = b"\r\n\r\n"
_LINE: Final = re.compile(rb"(GET|POST) (/[!-~]{0,200}) HTTP/1\.1")
_FIELD: Final = re.compile(rb"([A-Za-z-]{1,40}): ?([ -~]{0,200})")
_LENGTH: Final = re.compile(rb"0|[1-9][0-9]{0,9}")
_SPOKEN: Final = frozenset(
    {b"accept", b"accept-encoding", b"connection", b"content-length", b"content-type", b"host"}
    | {b"user-agent"}
)


@dataclass(frozen=True, slots=True)
class Head:
    """What is asked for, and how many bytes follow."""

    path: str
    length: int


def parse_head(untrusted: bytes) -> Head:
    """Return the head in `untrusted`, without its end, or raise `Refused`."""
    first, *rest = untrusted.split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise Refused(Why.MALFORMED, "the request line")
    fields = _fields(rest)
    asked = (line[1], line[2].decode("ascii"))
    if asked == (b"GET", MODELS):
        if fields.get(b"content-length", b"0") != b"0":
            raise Refused(Why.MALFORMED, "a body nobody asked for")
        return Head(MODELS, 0)
    if asked == (b"POST", COMPLETIONS):
        return Head(COMPLETIONS, _length(fields))
    raise Refused(Why.NO_SUCH_PLACE)


def _fields(lines: list[bytes]) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for line in lines:
        match = _FIELD.fullmatch(line)
        name = match[1].lower() if match is not None else b""
        # Twice is refused too: two lengths are two readings of the same bytes.
        if match is None or name not in _SPOKEN or name in fields:
            raise Refused(Why.MALFORMED, "a header field")
        fields[name] = match[2].strip(b" ")
    return fields


def _length(fields: dict[bytes, bytes]) -> int:
    if fields.get(b"content-type") != b"application/json":
        raise Refused(Why.MALFORMED, "the content type is not application/json")
    text = fields.get(b"content-length", b"")
    if _LENGTH.fullmatch(text) is None:
        raise Refused(Why.MALFORMED, "the length of the body")
    length = int(text)
    if length > MAX_CHAT_BYTES:
        raise Refused(Why.TOO_LARGE, f"{length} bytes, limit {MAX_CHAT_BYTES}")
    return length


def response(status: int, body: bytes) -> bytes:
    """Return a whole response."""
    head = (
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Refused'}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
