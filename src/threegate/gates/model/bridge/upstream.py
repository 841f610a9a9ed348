"""One question to the operator's own server, on loopback or a Unix socket.

SECURITY
    Reads bytes of a server that this project did not write, through `http_library`.  No
    redirect is followed, and a connection carries one request.
"""

import json
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from threegate.gates.http_library.client import (
    ByteStream,
    ConnectionLost,
    Deadline,
    Exchange,
    Failure,
    NotRetrieved,
    ResponseCut,
)
from threegate.gates.model.chat.messages import MAX_REPLY_BYTES
from threegate.gates.model.front.refused import NoCompletion, Unanswered
from threegate.gates.model.messages import SERVER_SOCKET

LOOPBACK: Final = "127.0.0.1"
MAX_HEAD_BYTES: Final = 64 * 1024
MAX_BODY_BYTES: Final = 2 * MAX_REPLY_BYTES  # foreign servers write more around the same content
CONNECT_SECONDS: Final = 5.0
# Why there is no response, as CORE is told.
_WHY: Final = {
    Failure.ANSWER: Unanswered.FOREIGN,
    Failure.CUT: Unanswered.FOREIGN,
    Failure.DEADLINE: Unanswered.DEADLINE,
    Failure.ENCODED: Unanswered.FOREIGN,
    Failure.TOO_LARGE: Unanswered.FOREIGN_TOO_LARGE,
}

Stopped = Callable[[], bool]
Open = Callable[[], ByteStream]


class LocalServer:
    """A server on one port of loopback, or on the socket that is bound into the sandbox."""

    def __init__(self, port: int | None) -> None:
        self._port = port

    def ask(self, path: str, body: bytes | None, *, end: float, stopped: Stopped) -> Any:
        """Return the JSON value the server answers with status 200; raise `Refused`."""
        exchange = request(path, body, [("Host", "localhost")])
        deadline = Deadline(end - time.monotonic(), stopped)
        return parse_json(completed(self._open, exchange, deadline, {}))

    def _open(self) -> ByteStream:
        family = socket.AF_UNIX if self._port is None else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(CONNECT_SECONDS)
            sock.connect(SERVER_SOCKET if self._port is None else (LOOPBACK, self._port))
        except OSError as exc:
            sock.close()
            where = "its socket" if self._port is None else f"{LOOPBACK}:{self._port}"
            raise NoCompletion(Unanswered.UNREACHABLE, f"nothing at {where}") from exc
        return ByteStream(sock)


def request(path: str, body: bytes | None, headers: list[tuple[str, str]]) -> Exchange:
    """Return a request for JSON, the last one on its connection."""
    headers = [
        *headers,
        ("Accept", "application/json"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ]
    if body is None:
        return Exchange("GET", path, headers, max_head_bytes=MAX_HEAD_BYTES)
    headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return Exchange("POST", path, headers, body, max_head_bytes=MAX_HEAD_BYTES)


def completed(
    opened: Open, exchange: Exchange, deadline: Deadline, statuses: Mapping[int, str]
) -> bytes:
    """Return the body of a response with status 200; raise `Refused`."""
    try:
        stream = opened()
        try:
            stream.send(exchange.request, deadline)
            head = exchange.head(stream, deadline)
            if head.status != 200:  # also a redirect
                told = f", {statuses[head.status]}" if head.status in statuses else ""
                raise NoCompletion(Unanswered.FOREIGN_STATUS, f"status {head.status}{told}")
            return exchange.body(stream, most=MAX_BODY_BYTES, deadline=deadline)
        finally:
            stream.close()
    except ResponseCut as exc:
        raise NoCompletion(Unanswered.FOREIGN, "it hung up before its answer") from exc
    except ConnectionLost as exc:
        raise NoCompletion(Unanswered.UNREACHABLE, "it hung up") from exc
    except NotRetrieved as exc:
        raise NoCompletion(_WHY.get(exc.failure, Unanswered.UNREACHABLE), exc.message) from exc


def parse_json(untrusted: bytes) -> Any:
    """Return the JSON value in a response; raise `Refused`."""
    try:
        return json.loads(untrusted.decode("utf-8"))
    except (ValueError, RecursionError) as exc:
        raise NoCompletion(Unanswered.FOREIGN, "not JSON") from exc
