"""The program of a bridge-remote sandbox: from CORE's socket to the remote machine of policy.

Its only connection is the proxy's socket: a tunnel, TLS with a certificate that a listed anchor
verifies, one request, one response.  No redirect is followed, and no connection is kept.  Not
part of `gate`, because a bridge to loopback has no TLS in its sandbox.

SECURITY
    Reads bytes of a machine that belongs to a stranger, and holds the operator's key for it.
    The key is in the head of requests and in nothing else that leaves the sandbox: a response
    that repeats it is refused.  What one question may send is counted here and, because this
    process may be owned, by the proxy as well.
"""

import json
import time
from typing import Any, Final

import threegate
from threegate.base.credentials import Secret
from threegate.base.errors import GateUnavailable
from threegate.gates.http_library.client import ByteStream, Deadline
from threegate.gates.http_library.tunnel import PROXY_SOCKET, Tunnels, make_anchors
from threegate.gates.model.bridge.gate import Stopped, bridge_to, completed, parse_json, request
from threegate.gates.model.front.server import NoCompletion, Opened, Unanswered, run
from threegate.gates.model.messages import Remote, parse_remote

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
        """Return the JSON value it answers with status 200; raise `NoCompletion`."""
        exchange = request(path, body, self._headers)
        self._count(exchange.request, is_question=body is not None)
        left = end - time.monotonic()

        def opened() -> ByteStream:
            return self._way.open(self._host, Deadline(min(left, CONNECT_SECONDS), stopped)).stream

        return self._read(completed(opened, exchange, Deadline(left, stopped), _STATUSES))

    def _count(self, request: bytes, *, is_question: bool) -> None:
        """Refuse a request beyond the bounds of one question, before any of it leaves."""
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
        # The bytes and their meaning: a key may be written with escapes.
        if any(secret.stands_in(text) for secret in self._secrets for text in (answer, plain)):
            raise NoCompletion(Unanswered.REPEATED)
        return found


# The program.

OPENING_SECONDS: Final = 60.0


def serve() -> None:
    """Carry requests until the host hangs up; the payload of a bridge-remote sandbox."""
    run(parse_remote, _opened)


def _opened(opening: Remote) -> Opened:
    return bridge_to(RemoteServer(opening), opening, OPENING_SECONDS)
