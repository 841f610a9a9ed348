r"""The head of an HTTP answer: status and headers, in the spelling of RFC 9112 and no other.

SECURITY
    Reads bytes of web servers.  Whatever two readers could take for two different answers is
    refused: folded lines, a bare CR or LF, a control character, a space before the colon, two
    of a header that can have one value, two ways to find the end of the body.
"""

import re
from dataclasses import dataclass
from typing import Final

from threegate.gates.https.limits import MAX_HEADERS, MAX_VALUE_CHARS
from threegate.gates.https.refused import NotRetrieved, Why

END: Final = b"\r\n\r\n"
NOT_CHANGED: Final = 304
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [\t -~\x80-\xff]*)?\Z")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}):[\t ]*([\t -~\x80-\xff]*)\Z")
_LENGTH: Final = re.compile(r"(?:0|[1-9][0-9]{0,17})\Z")
# Two of these with different values would be read one way here and another way elsewhere.
_SINGLE: Final = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-range",
        "content-type",
        "etag",
        "last-modified",
        "location",
        "retry-after",
        "transfer-encoding",
    }
)


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers; names in lower case."""

    status: int
    keeps: bool  # the connection may be used again after the body
    headers: dict[str, str]

    def header(self, name: str) -> str | None:
        """Return the value of a header, or None."""
        return self.headers.get(name)

    @property
    def length(self) -> int | None:
        """Return how long the body says it is, if it says so."""
        found = self.headers.get("content-length")
        return None if found is None else int(found)

    @property
    def chunked(self) -> bool:
        """Tell whether the body comes in chunks."""
        return "transfer-encoding" in self.headers


def parse_head(untrusted: bytes) -> Head:
    """Return the head in `untrusted`, which ends before the empty line; raise `NotRetrieved`."""
    line, *rest = untrusted.split(b"\r\n")
    found = _STATUS.match(line)
    if found is None:
        raise _refuse("its first line is not a status line")
    if len(rest) > MAX_HEADERS:
        raise _refuse(f"more than {MAX_HEADERS} headers")
    headers: dict[str, str] = {}
    for raw in rest:
        name, value = _header(raw)
        if name in headers:
            if name in _SINGLE:
                raise _refuse(f"two headers {name}")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    _check_framing(headers)
    status = int(found[2])
    ends = status == NOT_CHANGED or "content-length" in headers or "transfer-encoding" in headers
    keeps = headers.get("connection", "").lower() in ("", "keep-alive")
    return Head(status, found[1] == b"1" and ends and keeps, headers)


def _header(raw: bytes) -> tuple[str, str]:
    found = _HEADER.match(raw)
    if found is None:
        raise _refuse("a header that is not a name, a colon and a value")
    name, value = found[1].decode("ascii").lower(), found[2].strip(b"\t ")
    if name in _SINGLE and len(value) > MAX_VALUE_CHARS:
        raise _refuse(f"a header {name} of more than {MAX_VALUE_CHARS} bytes")
    return name, value.decode("latin-1")


def _check_framing(headers: dict[str, str]) -> None:
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None and coding.lower() != "chunked":
        raise _refuse("a transfer coding other than chunked")
    if coding is not None and length is not None:  # RFC 9112, section 6.1: request smuggling
        raise _refuse("both a length and chunks")
    if length is not None and _LENGTH.match(length) is None:
        raise _refuse("a length that is not a number")


def _refuse(detail: str) -> NotRetrieved:
    return NotRetrieved(Why.ANSWER, f"the answer is not HTTP as it should be: {detail}")
