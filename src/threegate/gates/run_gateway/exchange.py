"""One ask of a guest after the other: judged, counted, carried, and told.

In this order: how many asks are left; the URL in the grammar that policy has; its host, which the
request must list; the method; the headers; no credential in any of it; the bytes that are
left.  Only then is anything sent, through the proxy's socket, where the name is judged again,
resolved and its addresses looked at.  No redirect is followed: an answer that points elsewhere
is the guest's, and what it asks next is judged like the first.

SECURITY
    Reads what a hostile guest asks and what servers answer.  If this module is wrong, a run
    sends more than was approved, or a credential; the proxy still holds it to the hosts its
    request lists and to what policy grants any run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import threegate
from threegate.base.credentials import Marks
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
from threegate.gates.run_gateway.messages import Ask, Opening, Told
from threegate.policy.hosts import Url, parse_url

MAX_HEAD_BYTES: Final = 64 * 1024
# What a guest may say besides method, URL and body; nothing that names a user or a session.
HEADERS: Final = ("accept", "accept-language", "content-type", "if-modified-since", "if-none-match")
# What a guest hears of an answer besides status and body.
HEARD: Final = ("content-type", "etag", "last-modified", "location", "retry-after")
_REASONS: Final = {
    Failure.PROXY_DENIED: say.ADDRESS,
    Failure.TOO_LARGE: say.DOWN,
    Failure.ANSWER: say.FOREIGN,
    Failure.CUT: say.FOREIGN,
    Failure.ENCODED: say.FOREIGN,
}


class AskRefused(Exception):
    """It is not asked, or there is no answer; `detail` is our own text."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


@dataclass(slots=True)
class AskCase:
    """One ask: what is known of it so far, for the note that ends it."""

    host: str = ""
    up: int = 0
    down: int = 0


Tell = Callable[[Told], None]


class RunGateway:
    """What one run may still ask."""

    def __init__(self, opening: Opening, tell: Tell, socket: str = PROXY_SOCKET) -> None:
        self._rules, self._tell = opening, tell
        self._marks = Marks(bytes.fromhex(opening.key), opening.marks)
        self._way = Tunnels(make_anchors(dict(opening.anchors)), socket)
        self._asked, self._up, self._down = 0, opening.up_bytes, opening.down_bytes

    @property
    def most(self) -> int:
        """The longest body that could still be carried."""
        return self._up

    def answer(self, ask: Ask, body: bytes | None) -> bytes:
        """Return what the guest hears; without a `body` it was longer than `most`."""
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

    def _told(self, case: AskCase, ask: Ask, reason: str) -> None:
        # A guest that asks on and on is told so; the log hears of it once.
        if self._asked <= self._rules.requests + 1:
            host = case.host[: say.MAX_ARGUMENT_CHARS]
            self._tell(Told(case.down, host, ask.line, ask.method, reason, case.up))

    def _carried(self, case: AskCase, ask: Ask, body: bytes | None) -> tuple[ResponseHead, bytes]:
        if self._asked > self._rules.requests:
            raise AskRefused(say.SPENT, f"limit {self._rules.requests} requests")
        url = _url(case, ask.url)
        if url.host not in self._rules.hosts:
            raise AskRefused(say.HOST, "the request does not list it")
        if ask.method not in self._rules.methods:
            raise AskRefused(say.METHOD, f"allowed: {', '.join(self._rules.methods) or 'none'}")
        exchange = _exchange(ask, url, body, min(MAX_HEAD_BYTES, self._down))
        if self._marks.stand_in(exchange.request):
            raise AskRefused(say.CREDENTIAL, "a credential of the operator stands in it")
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


def _exchange(ask: Ask, url: Url, body: bytes | None, max_head_bytes: int) -> Exchange:
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
