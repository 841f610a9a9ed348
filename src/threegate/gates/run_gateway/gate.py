"""The program of a run-gateway sandbox: requests of the guest of one approved run.

In this order: how many requests are left; the URL in the grammar of policy; its host, which the
approved request must list; the method; the headers; no credential in any of it; the bytes that
are left.  Only then is anything sent, through the proxy's socket; the proxy judges the name
again, resolves it and judges its addresses.  No redirect is followed: the guest receives it,
and its next request is judged like the first.

SECURITY
    Reads what a hostile guest asks and what servers answer.  Frames are bounded before they are
    read; a broken protocol ends the gateway, and so all that the run could ask.  If this module
    is wrong, a run sends more than was approved, or a credential; the proxy still restricts it
    to the hosts of its request and to what policy grants any run.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import threegate
from threegate.base.credentials import Marks
from threegate.base.errors import GateUnavailable, ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.http_library.client import (
    ByteStream,
    ConnectionLost,
    Deadline,
    Exchange,
    Failure,
    NotRetrieved,
    ResponseHead,
)
from threegate.gates.http_library.tunnel import PROXY_SOCKET, Tunnels, make_anchors
from threegate.gates.run_gateway import messages as say
from threegate.gates.run_gateway.messages import (
    GatewayNote,
    GatewayOpened,
    GatewayOpening,
    GuestRequest,
    parse_opening,
    parse_request,
)
from threegate.policy.hosts import Url, parse_url
from threegate.sandbox import payload
from threegate.sandbox.channel import read_message, write_message, write_note
from threegate.sandbox.payload import ANSWERS_FD, REQUESTS_FD

MAX_HEAD_BYTES: Final = 64 * 1024
# Headers that a guest may send; none that names a user or a session.
HEADERS: Final = ("accept", "accept-language", "content-type", "if-modified-since", "if-none-match")
# Headers of a response that the guest receives.
HEARD: Final = ("content-type", "etag", "last-modified", "location", "retry-after")
_REASONS: Final = {
    Failure.PROXY_DENIED: say.ADDRESS,
    Failure.TOO_LARGE: say.DOWN,
    Failure.ANSWER: say.FOREIGN,
    Failure.CUT: say.FOREIGN,
    Failure.ENCODED: say.FOREIGN,
}


class AskRefused(Exception):
    """A request is not sent, or has no answer; `detail` is our own text."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


@dataclass(slots=True)
class AskCase:
    """One request of the guest: what its note to the host will say."""

    host: str = ""
    up: int = 0
    down: int = 0


Tell = Callable[[GatewayNote], None]


class RunGateway:
    """Sends requests of one run, and counts what is left."""

    def __init__(self, opening: GatewayOpening, tell: Tell, socket: str = PROXY_SOCKET) -> None:
        self._rules, self._tell = opening, tell
        self._marks = Marks(bytes.fromhex(opening.key), opening.marks)
        self._way = Tunnels(make_anchors(dict(opening.anchors)), socket)
        self._asked, self._up, self._down = 0, opening.up_bytes, opening.down_bytes

    @property
    def most(self) -> int:
        """The longest body that may still be sent."""
        return self._up

    def answer(self, ask: GuestRequest, body: bytes | None) -> bytes:
        """Return the frames for the guest; a `body` of None was longer than `most`."""
        case = AskCase()
        self._asked += 1
        try:
            head, data = self._carried(case, ask, body)
        except AskRefused as no:
            self._told(case, ask, no.reason)
            return say.no_frame(no.reason, no.detail, self._rules.places.get(no.reason, ""))
        self._told(case, ask, "")
        heard: dict[str, str] = {name: head.headers[name] for name in HEARD if name in head.headers}
        return say.answer_frames(head.status, heard, data)

    def _told(self, case: AskCase, ask: GuestRequest, reason: str) -> None:
        # A guest that goes on beyond its number is refused each time, and logged once.
        if self._asked <= self._rules.requests + 1:
            host = case.host[: say.MAX_ARGUMENT_CHARS]
            self._tell(GatewayNote(case.down, host, ask.line, ask.method, reason, case.up))

    def _carried(
        self, case: AskCase, ask: GuestRequest, body: bytes | None
    ) -> tuple[ResponseHead, bytes]:
        if self._asked > self._rules.requests:
            raise AskRefused(say.SPENT, f"limit {self._rules.requests} requests")
        url = _url(case, ask.url)
        if url.host not in self._rules.hosts:
            raise AskRefused(say.HOST, "the request does not list it")
        if ask.method not in self._rules.methods:
            raise AskRefused(say.METHOD, f"allowed: {', '.join(self._rules.methods) or 'none'}")
        exchange = _exchange(ask, url, body, min(MAX_HEAD_BYTES, self._down))
        if self._marks.stand_in(exchange.request):
            raise AskRefused(say.CREDENTIAL, "it contains a credential of the operator")
        if body is None or len(exchange.request) > self._up:
            raise AskRefused(say.UP, f"{self._up} bytes of {self._rules.up_bytes} are left")
        return self._sent(case, url.host, exchange)

    def _sent(self, case: AskCase, host: str, exchange: Exchange) -> tuple[ResponseHead, bytes]:
        deadline = Deadline(self._rules.seconds)
        try:
            stream = self._way.open(host, deadline).stream
            self._up -= len(exchange.request)
            case.up = len(exchange.request)
            try:
                stream.send(exchange.request, deadline)
                return self._answered(stream, exchange, deadline)
            finally:
                stream.close()
                case.down = stream.received
                self._down = max(0, self._down - stream.received)
        except ConnectionLost as exc:
            raise AskRefused(say.FAILED, "the connection broke off") from exc
        except NotRetrieved as exc:
            raise AskRefused(_REASONS.get(exc.failure, say.FAILED), exc.message) from exc

    def _answered(
        self, stream: ByteStream, exchange: Exchange, deadline: Deadline
    ) -> tuple[ResponseHead, bytes]:
        if not self._down:
            raise AskRefused(say.DOWN, "nothing more may come")
        head = exchange.head(stream, deadline)
        left = max(0, self._down - stream.received + exchange.behind)
        return head, exchange.body(stream, most=left, deadline=deadline)


def _url(case: AskCase, text: str) -> Url:
    try:
        url = parse_url(text)
    except ValueError as exc:
        raise AskRefused(say.URL, str(exc)) from exc
    case.host = url.host
    return url


def _exchange(ask: GuestRequest, url: Url, body: bytes | None, max_head_bytes: int) -> Exchange:
    named = {name.lower(): value.strip(" ") for name, value in ask.headers.items()}
    strange = sorted(set(named) - set(HEADERS))
    if strange or len(named) < len(ask.headers):
        raise AskRefused(say.HEAD, f"allowed: {', '.join(HEADERS)}")
    headers = [
        ("Host", url.host),
        ("User-Agent", f"ThreeGate/{threegate.__version__}"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
        *sorted(named.items()),
    ]
    if ask.method == "POST":
        headers.append(("Content-Length", str(len(body or b""))))
    elif body:
        raise AskRefused(say.METHOD, f"{ask.method} has no body")
    target = url.path if url.query is None else f"{url.path}?{url.query}"
    return Exchange(ask.method, target, headers, body or b"", max_head_bytes=max_head_bytes)


# The guest's side.

_PIECE: Final = 64 * 1024


class Hung(Exception):
    """The guest hung up between two requests."""


def serve() -> None:
    """Answer a guest until it hangs up; the payload of a run-gateway sandbox."""
    payload.serve(_serve, GateUnavailable)


def _serve() -> None:
    message = read_message(REQUESTS_FD, parse_opening.most_bytes)
    if message is None:
        return
    opening = parse_opening(Untrusted(message))
    asking = RunGateway(opening, _tell)
    write_message(ANSWERS_FD, GatewayOpened().to_bytes())
    try:
        while True:
            answer_one(opening.channel_fd, asking)
    except Hung:
        return


def _tell(told: GatewayNote) -> None:
    write_note(ANSWERS_FD, told.to_bytes())


def answer_one(fd: int, asking: RunGateway) -> None:
    """Read one request and answer it; raise `Hung` or `ProtocolBroken`."""
    asked = _frame(fd, say.ASK, say.MAX_HEAD_BYTES, first=True) or b""
    ask = parse_request(Untrusted(asked))
    body = _frame(fd, say.BODY, asking.most)
    _write(fd, asking.answer(ask, body))


def _frame(fd: int, kind: int, most: int, *, first: bool = False) -> bytes | None:
    """Return the body of a frame; one longer than `most` is dropped, and None returned."""
    head = _read(fd, say.HEADER.size, first=first)
    found, length = say.HEADER.unpack(head)
    if found != kind or length > max(say.MAX_HEAD_BYTES, say.MAX_UP_BYTES * (kind == say.BODY)):
        raise ProtocolBroken("not a frame of this protocol")
    if length <= most:
        return _read(fd, length)
    while length:
        length -= len(_read(fd, min(length, _PIECE)))
    return None


def _read(fd: int, size: int, *, first: bool = False) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            piece = os.read(fd, min(size - len(data), _PIECE))
        except ConnectionError:  # the engine ended before it read our bytes
            piece = b""
        if not piece:
            raise Hung if first and not data else ProtocolBroken("the guest broke off")
        data += piece
    return bytes(data)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except (BrokenPipeError, ConnectionError) as exc:
            raise Hung from exc
