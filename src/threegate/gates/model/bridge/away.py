"""One question after the other to the one remote machine that policy names.

Through the proxy's socket, which is all this box has: a tunnel, TLS with a certificate that a
listed anchor vouches for, one request, one answer; no redirect is followed, and nothing is
kept for the next request.

SECURITY
    Reads bytes of a machine that belongs to a stranger, and holds the operator's key for it.
    The key is in the head of requests and in nothing that leaves the box otherwise: an answer
    that repeats it is refused.  What may be sent in one question is counted here and, because
    this box may be owned, by the proxy as well.
"""

import json
import time
from typing import Any, Final

import threegate
from threegate.base.credentials import Secret
from threegate.base.errors import GateUnavailable
from threegate.gates.http_library.client import ByteStream, Deadline
from threegate.gates.http_library.tunnel import PROXY_SOCKET, Tunnels, make_anchors
from threegate.gates.model.bridge.upstream import Stopped, completed, parse_json, request
from threegate.gates.model.front.refused import NoCompletion, Unanswered
from threegate.gates.model.messages import Remote

CONNECT_SECONDS: Final = 30.0
BEARER: Final = "Bearer "
_STATUSES: Final = {
    401: "it wants a key, or another one",
    403: "it wants a key, or another one",
    429: "it was asked too often, or the account is spent",
}


class RemoteServer:
    """The remote machine; lives for one question."""

    def __init__(self, opening: Remote, socket: str = PROXY_SOCKET) -> None:
        self._host, key = opening.host, opening.credential or ""
        self._headers = [
            ("Host", opening.host),
            ("User-Agent", f"ThreeGate/{threegate.__version__}"),
        ]
        if opening.header:
            self._headers.append((opening.header, key))
        self._secrets = [Secret(text) for text in (key, key.removeprefix(BEARER)) if text]
        self._requests, self._bytes = opening.requests, opening.sent_bytes
        try:
            anchors = make_anchors(dict(opening.anchors))
        except GateUnavailable as exc:
            raise NoCompletion(Unanswered.UNREACHABLE, exc.message) from exc
        self._way = Tunnels(anchors, socket)

    def ask(self, path: str, body: bytes | None, *, end: float, stopped: Stopped) -> Any:
        """Return the JSON value it answers with status 200; raise `Refused`."""
        exchange = request(path, body, self._headers)
        self._count(exchange.request, is_question=body is not None)
        left = end - time.monotonic()

        def opened() -> ByteStream:
            return self._way.open(self._host, Deadline(min(left, CONNECT_SECONDS), stopped)).stream

        return self._read(completed(opened, exchange, Deadline(left, stopped), _STATUSES))

    def _count(self, request: bytes, *, is_question: bool) -> None:
        """Refuse what would be more than one question may send; nothing of it leaves then."""
        if self._requests < is_question:
            raise NoCompletion(Unanswered.SPENT, "its requests are used up")
        if self._bytes < len(request):
            raise NoCompletion(Unanswered.SPENT, "its bytes are used up")
        self._requests -= is_question
        self._bytes -= len(request)

    def _read(self, answer: bytes) -> Any:
        found = parse_json(answer)
        try:
            plain = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
        except (ValueError, RecursionError) as exc:
            raise NoCompletion(Unanswered.FOREIGN, "not JSON") from exc
        # As it came and as it reads: a key may be written with escapes.
        if any(secret.stands_in(text) for secret in self._secrets for text in (answer, plain)):
            raise NoCompletion(Unanswered.REPEATED)
        return found
