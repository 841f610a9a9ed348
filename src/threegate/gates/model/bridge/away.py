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
from threegate.gates.https.bodies import read_body
from threegate.gates.https.heads import Head
from threegate.gates.https.refused import NotRetrieved, Stale
from threegate.gates.https.refused import Why as NotWhy
from threegate.gates.https.stream import Deadline, Stream
from threegate.gates.https.tls import make_anchors
from threegate.gates.https.ways import PROXY_SOCKET, Tunnels
from threegate.gates.model.bridge.upstream import MAX_BODY_BYTES, MAX_HEAD_BYTES, Stopped
from threegate.gates.model.front.refused import Refused, Why
from threegate.gates.model.messages import Remote

CONNECT_SECONDS: Final = 30.0
OK: Final = 200
BEARER: Final = "Bearer "
# Why there is no answer, in the words CORE's side has for it.
_WHY: Final = {
    NotWhy.ANSWER: Why.FOREIGN,
    NotWhy.CUT: Why.FOREIGN,
    NotWhy.DEADLINE: Why.DEADLINE,
    NotWhy.ENCODED: Why.FOREIGN,
    NotWhy.TOO_LARGE: Why.FOREIGN_TOO_LARGE,
}
_STATUSES: Final = {
    401: "it wants a key, or another one",
    403: "it wants a key, or another one",
    429: "it was asked too often, or the account is spent",
}


class Away:
    """The remote machine; lives for one question."""

    def __init__(self, opening: Remote, socket: str = PROXY_SOCKET) -> None:
        self._host, key = opening.host, opening.credential or ""
        self._key = (opening.header, key) if opening.header else None
        self._secrets = [Secret(text) for text in (key, key.removeprefix(BEARER)) if text]
        self._requests, self._bytes = opening.requests, opening.sent_bytes
        try:
            anchors = make_anchors(dict(opening.anchors))
        except GateUnavailable as exc:
            raise Refused(Why.UNREACHABLE, exc.message) from exc
        self._way = Tunnels(anchors, socket)

    def ask(self, path: str, body: bytes | None, *, end: float, stopped: Stopped) -> Any:
        """Return the JSON value it answers with status 200; raise `Refused`."""
        request = self._request(path, body)
        self._count(request, is_question=body is not None)
        left = end - time.monotonic()
        try:
            opening = Deadline(min(left, CONNECT_SECONDS), stopped)
            stream = self._way.open(self._host, opening).stream
            try:
                answer = _exchange(stream, request, Deadline(left, stopped))
            finally:
                stream.close()
        except Stale as exc:
            raise Refused(Why.UNREACHABLE, "it hung up") from exc
        except NotRetrieved as exc:
            raise Refused(_WHY.get(exc.why, Why.UNREACHABLE), exc.message) from exc
        return self._read(answer)

    def _request(self, path: str, body: bytes | None) -> bytes:
        lines = [
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1",
            f"Host: {self._host}",
            f"User-Agent: ThreeGate/{threegate.__version__}",
            "Accept: application/json",
            "Accept-Encoding: identity",
            "Connection: close",
        ]
        if self._key is not None:
            lines.append(f"{self._key[0]}: {self._key[1]}")
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")

    def _count(self, request: bytes, *, is_question: bool) -> None:
        """Refuse what would be more than one question may send; nothing of it leaves then."""
        if self._requests < is_question:
            raise Refused(Why.SPENT, "its requests are used up")
        if self._bytes < len(request):
            raise Refused(Why.SPENT, "its bytes are used up")
        self._requests -= is_question
        self._bytes -= len(request)

    def _read(self, answer: bytes) -> Any:
        try:
            found = json.loads(answer.decode("utf-8"))
            plain = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
        except (ValueError, RecursionError) as exc:
            raise Refused(Why.FOREIGN, "not JSON") from exc
        # As it came and as it reads: a key may be written with escapes.
        if any(secret.stands_in(text) for secret in self._secrets for text in (answer, plain)):
            raise Refused(Why.REPEATED)
        return found


def _exchange(stream: Stream, request: bytes, deadline: Deadline) -> bytes:
    stream.send(request, deadline)
    head = stream.head(MAX_HEAD_BYTES, deadline)
    _refuse_status(head)  # a redirect is one of those
    return read_body(stream, head, most=MAX_BODY_BYTES, deadline=deadline)


def _refuse_status(head: Head) -> None:
    if head.status != OK:
        said = _STATUSES.get(head.status)
        detail = f"status {head.status}" + (f", {said}" if said else "")
        raise Refused(Why.FOREIGN_STATUS, detail)
