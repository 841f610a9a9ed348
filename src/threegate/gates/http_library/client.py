"""HTTP/1.1 responses of foreign servers: h11 reads them, this module bounds them.

    exchange = Exchange("GET", "/works", [("Host", host)], max_head_bytes=65_536)
    stream.send(exchange.request, deadline)
    head = exchange.head(stream, deadline)
    body = exchange.body(stream, most=1_000_000, deadline=deadline)

SECURITY
    Reads bytes of web servers.  h11 decides what a response says.  It accepts some forms that
    other programs read differently; `_spelled` and `_framed` refuse those, and each check
    names the attack.  Every wait is bounded by the time of the whole question: a server that
    sends a byte now and then gains nothing.  A body that is shorter or longer than announced
    is refused, because the missing part could be the retraction.  Nothing is decompressed:
    a server that compresses although we asked it not to is refused, so that no hostile byte
    meets a decompressor in the process that holds a credential.
"""

import re
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import h11

KIB: Final = 1024
MAX_HEADERS: Final = 100
MAX_VALUE_BYTES: Final = 8 * KIB  # of a header that we use
MAX_INTERIM: Final = 4  # responses 1xx before the real one
MAX_OVERHEAD_BYTES: Final = 1 * KIB  # of all chunk extensions and trailers of a body together
CHUNK_BYTES: Final = 16  # what the size line and line ends of one chunk need, generously
PIECE_BYTES: Final = 64 * KIB
SLICE_SECONDS: Final = 0.2  # how often a wait looks whether the question was given up
NO_CONTENT: Final = 204
NOT_CHANGED: Final = 304

# One spelling of a head.  h11 also accepts lines that end in LF and folded lines (response
# splitting), control characters (log and terminal injection), HTTP/2.0 and status 700.
_VALUE: Final = rb"[\t -~\x80-\xff]*"
_SPELLING: Final = re.compile(
    rb"HTTP/1\.[01] [1-5][0-9]{2}(?: " + _VALUE + rb")?\r\n"
    # h11 takes `5, 5` and `05` for 5, which others read as 0, 55 or an error.
    rb"(?:(?:(?i:content-length):[\t ]*(?:0|[1-9][0-9]{0,17})[\t ]*"
    rb"|(?!(?i:content-length):)[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}:" + _VALUE + rb")\r\n)*\r\n"
)
# Two of these with different values would be read one way here and another way elsewhere.
_SINGLE: Final = frozenset(
    {b"connection", b"content-encoding", b"content-length", b"content-range", b"content-type"}
    | {b"etag", b"last-modified", b"location", b"retry-after", b"transfer-encoding"}
)


class Failure(Enum):
    """Why there is no response: a stable code, and the reason of a gap in a packet."""

    URL = ("TG-FET-001", "denied")  # not a URL that may be asked for
    HOST = ("TG-FET-002", "denied")  # no rule for its host
    NOT_ALLOWED = ("TG-FET-003", "denied")  # policy or approval does not cover the question
    TYPE = ("TG-FET-004", "denied")  # a content type the rule does not list
    MISLABELLED = ("TG-FET-005", "unreadable")  # the bytes are not of the type they are called
    TOO_LARGE = ("TG-FET-006", "too-large")
    DEADLINE = ("TG-FET-007", "timed-out")
    REDIRECTS = ("TG-FET-008", "failed")  # too many
    LOOP = ("TG-FET-009", "failed")
    LOCATION = ("TG-FET-010", "denied")  # a redirect to a URL that may not be asked for
    PROXY_DENIED = ("TG-FET-011", "denied")
    UNREACHABLE = ("TG-FET-012", "failed")  # the proxy found no way
    PROXY = ("TG-FET-013", "failed")  # no proxy, or not one that speaks as it should
    CERTIFICATE = ("TG-FET-014", "failed")
    ANSWER = ("TG-FET-015", "unreadable")  # not HTTP as it should be
    CUT = ("TG-FET-016", "failed")  # less, or more, than was announced
    ENCODED = ("TG-FET-017", "unreadable")  # compressed, although we asked for plain bytes
    NOT_FOUND = ("TG-FET-018", "not-found")
    BUSY = ("TG-FET-019", "failed")  # too many requests, says the server
    BROKEN = ("TG-FET-020", "failed")  # the server says it failed
    FORBIDDEN = ("TG-FET-021", "denied")  # the server says we may not
    STATUS = ("TG-FET-022", "failed")  # a status that does not answer this question
    CREDENTIAL = ("TG-FET-023", "denied")  # one that has no place here
    REPEATED = ("TG-FET-024", "unreadable")  # a response that repeats the credential
    BUG = ("TG-FET-025", "failed")
    NO_NAME = ("TG-FET-031", "failed")  # a name server says that the name does not exist
    NO_NETWORK = ("TG-FET-032", "failed")  # no name server answers anything

    @property
    def code(self) -> str:
        """Return the stable code."""
        return self.value[0]

    @property
    def reason(self) -> str:
        """Return the reason as a packet's gap spells it."""
        return self.value[1]


class NotRetrieved(Exception):
    """There is no response to hand back; `message` is our own text, foreign parts quoted."""

    def __init__(
        self,
        failure: Failure,
        message: str,
        *,
        status: int | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.failure, self.message = failure, message
        self.status, self.retry_after = status, retry_after


class ConnectionLost(Exception):
    """The connection broke before the response was complete."""


class ResponseCut(ConnectionLost):
    """The other side closed the connection, in order, before its response was complete."""


class Deadline:
    """The time until which a question must be answered, over all its hops."""

    def __init__(self, seconds: float, stopped: Callable[[], bool] = lambda: False) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds
        self._stopped = stopped

    def left(self) -> float:
        """Return the seconds left, or raise `NotRetrieved`."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.over()
        if self._stopped():
            raise NotRetrieved(Failure.DEADLINE, "nobody waits for the answer any more")
        return left

    def slice(self) -> float:
        """Return how long to wait before looking up again, or raise `NotRetrieved`."""
        return min(self.left(), SLICE_SECONDS)

    def over(self) -> NotRetrieved:
        """Return the refusal for time that is up."""
        seconds = f"{round(self._seconds, 1):g}"
        return NotRetrieved(Failure.DEADLINE, f"no whole answer within {seconds} seconds")


class ByteStream:
    """The bytes of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received = 0

    @property
    def has_more(self) -> bool:
        """True if decrypted bytes wait that no exchange has read."""
        pending = getattr(self.sock, "pending", None)  # of `ssl`, which the bridge does not have
        return pending is not None and pending() > 0

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of `data`, or raise `ConnectionLost`."""
        view = memoryview(data)
        while view:
            self.sock.settimeout(deadline.slice())
            try:
                view = view[self.sock.send(view[:PIECE_BYTES]) :]
            except TimeoutError:
                continue
            except OSError as exc:
                raise ConnectionLost from exc

    def receive(self, deadline: Deadline) -> bytes:
        """Return the next bytes; none if the other side ended well, or raise `ConnectionLost`."""
        while True:
            self.sock.settimeout(deadline.slice())
            try:
                data = self.sock.recv(PIECE_BYTES)
            except TimeoutError:
                continue
            except OSError as exc:  # also TLS that ends without its closing message
                deadline.left()
                raise ConnectionLost from exc
            if not data:  # the proxy ends tunnels by the same clock: report the time first
                deadline.left()
            self.received += len(data)
            return data

    def close(self) -> None:
        """Close the connection without a closing message: the other side needs none."""
        self.sock.close()


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """Status and headers; names in lower case."""

    status: int
    headers: dict[str, str]
    length: int | None  # of the body; None if its end shows it
    keeps: bool  # the connection may be used again after the body

    def header(self, name: str) -> str | None:
        """Return the value of a header, or None."""
        return self.headers.get(name)


class Exchange:
    """One request, and the response to it."""

    def __init__(
        self,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        body: bytes = b"",
        *,
        max_head_bytes: int,
    ) -> None:
        # The bounds here count first; h11's own is one piece wider.
        self._http = h11.Connection(h11.CLIENT, max_head_bytes + PIECE_BYTES)
        self._max_head_bytes, self._bodiless = max_head_bytes, method == "HEAD"
        asked = h11.Request(method=method, target=target, headers=list(headers))
        data = [h11.Data(data=body)] if body else []
        events: list[h11.Event] = [asked, *data, h11.EndOfMessage()]
        self.request = b"".join(self._http.send(event) or b"" for event in events)
        self._raw = bytearray()  # what came and is not attributed to a head yet
        self._head: ResponseHead | None = None
        self._over = False  # the other side has ended

    @property
    def behind(self) -> int:
        """Return how many bytes came behind the part that was read so far."""
        return len(self._http.trailing_data[0])

    def head(self, stream: ByteStream, deadline: Deadline) -> ResponseHead:
        """Return the head of the response; raise `NotRetrieved` or `ConnectionLost`."""
        left = self._max_head_bytes
        for _ in range(MAX_INTERIM + 1):
            event = self._next_head(stream, deadline)
            size = len(self._raw) - self.behind
            left -= size
            if left < 0:
                break
            _spelled(bytes(self._raw[:size]))
            del self._raw[:size]
            if isinstance(event, h11.Response):
                self._head = _framed(event, bodiless=self._bodiless)
                return self._head
        raise _malformed("its headers are longer than policy allows")

    def _next_head(self, stream: ByteStream, deadline: Deadline) -> Any:
        while (event := self._event()) is h11.NEED_DATA:
            if len(self._raw) >= self._max_head_bytes:
                raise _malformed("its headers are longer than policy allows")
            self._raw += self._fed(stream, deadline)
        return event

    def _event(self) -> Any:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as exc:  # its text quotes the server
            if self._over:
                raise ResponseCut from exc
            raise _malformed("h11 does not accept it") from exc

    def _fed(self, stream: ByteStream, deadline: Deadline) -> bytes:
        data = stream.receive(deadline)
        self._over = not data
        self._http.receive_data(data)
        return data

    def body(self, stream: ByteStream, *, most: int, deadline: Deadline) -> bytes:
        """Return the whole body, or raise `NotRetrieved`."""
        assert self._head is not None, "the head comes first"
        encoding = self._head.headers.get("content-encoding", "").lower()
        if self._head.length != 0 and encoding not in ("", "identity"):
            message = "the answer is compressed, though asked for as it is"
            raise NotRetrieved(Failure.ENCODED, message)
        if self._head.length is not None and self._head.length > most:
            raise _too_large(most)
        body = _Body(most, len(self._raw), self._raw)
        try:
            self._read(body, stream, deadline)
        except ConnectionLost as exc:
            message = f"the answer ends after {len(body.data)} bytes"
            raise NotRetrieved(Failure.CUT, message) from exc
        if self._head.keeps and (self.behind or stream.has_more):
            raise NotRetrieved(Failure.CUT, "the answer is longer than it says")
        if self._head.headers.get("transfer-encoding"):
            body.check_end(self.behind)
        return bytes(body.data)

    def _read(self, body: "_Body", stream: ByteStream, deadline: Deadline) -> None:
        while not isinstance(event := self._event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                body.add(event)
            else:
                body.check_overhead()
                body.count(self._fed(stream, deadline))


class _Body:
    """A body that grows within its bound."""

    def __init__(self, most: int, came: int, recent: bytearray) -> None:
        self._most, self._came, self._chunks = most, came, 0
        self._recent = bytes(recent)  # the last bytes that came
        self.data = bytearray()

    def add(self, event: h11.Data) -> None:
        self.data += event.data
        self._chunks += event.chunk_start
        if len(self.data) > self._most:
            raise _too_large(self._most)

    def count(self, data: bytes) -> None:
        self._came += len(data)
        self._recent = self._recent[-4:] + data

    def check_overhead(self, behind: int = 0) -> None:
        """Refuse endless extensions and trailers: h11 reads and drops them (CVE-2023-39326)."""
        overhead = self._came - behind - len(self.data)
        if overhead > MAX_OVERHEAD_BYTES + self._chunks * CHUNK_BYTES:
            raise _malformed("more bytes around its chunks than in them")

    def check_end(self, behind: int) -> None:
        """Refuse a last line that ends in LF: another reader would wait for CRLF."""
        self.check_overhead(behind)
        if not self._recent[: len(self._recent) - behind].endswith(b"\r\n\r\n"):
            raise NotRetrieved(Failure.CUT, "the answer's last line does not end")


def _spelled(untrusted: bytes) -> None:
    """Refuse a head that is not in the spelling of RFC 9112, which h11 reads leniently."""
    if _SPELLING.fullmatch(untrusted) is None:
        raise _malformed("a line that is not a status, or not a name, a colon and a value")
    names = [line.partition(b":")[0].lower() for line in untrusted.split(b"\r\n")[1:-2]]
    if len(names) > MAX_HEADERS:
        raise _malformed(f"more than {MAX_HEADERS} headers")
    # Here and not in `_framed`: h11 merges two equal lengths into one.
    for name in {name for name in names if names.count(name) > 1} & _SINGLE:
        raise _malformed(f"two headers {name.decode('ascii')}")


def _framed(event: h11.Response, *, bodiless: bool) -> ResponseHead:
    headers: dict[str, str] = {}
    for raw_name, raw_value in event.headers.raw_items():
        name, value = raw_name.lower().decode("ascii"), raw_value.decode("latin-1")
        if len(value) > MAX_VALUE_BYTES and raw_name.lower() in _SINGLE:
            raise _malformed(f"a header {name} of more than {MAX_VALUE_BYTES} bytes")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    old, chunked = event.http_version < b"1.1", "transfer-encoding" in headers
    # RFC 9112, section 6.1: request smuggling.  h11 lets the chunks win.
    if chunked and (old or "content-length" in headers):
        raise _malformed("both a length and chunks, or chunks in HTTP/1.0")
    length = int(headers["content-length"]) if "content-length" in headers else None
    if bodiless or event.status_code in (NO_CONTENT, NOT_CHANGED):
        length = 0  # whatever it announces, h11 reads no body
    keeps = headers.get("connection", "").lower() in ("", "keep-alive")
    ends = chunked or length is not None
    return ResponseHead(event.status_code, headers, length, keeps and ends and not old)


def _malformed(detail: str) -> NotRetrieved:
    return NotRetrieved(Failure.ANSWER, f"the answer is not HTTP as it should be: {detail}")


def _too_large(most: int) -> NotRetrieved:
    return NotRetrieved(Failure.TOO_LARGE, f"the answer is larger than {most} bytes")
