"""One question to the operator's own server, over HTTP/1.0 on loopback or a Unix socket.

HTTP/1.0 with a length or an end is all that is read: no chunks, no redirects, no second
request on a connection.

SECURITY
    Reads bytes of a server that nobody here wrote.  Heads and bodies are bounded before they
    are kept; what is not understood is refused.
"""

import json
import re
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from threegate.gates.model.chat.messages import MAX_REPLY_BYTES
from threegate.gates.model.front.refused import Refused, Why
from threegate.gates.model.messages import SERVER_SOCKET

LOOPBACK: Final = "127.0.0.1"
MAX_HEAD_BYTES: Final = 64 * 1024
MAX_BODY_BYTES: Final = 2 * MAX_REPLY_BYTES  # theirs say more around the same content
CONNECT_SECONDS: Final = 5.0
SLICE_SECONDS: Final = 0.2  # how long a client that hung up is waited for
_PIECE: Final = 64 * 1024
_END: Final = b"\r\n\r\n"
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?")
_LENGTH: Final = re.compile(rb"[0-9]{1,10}")

Stopped = Callable[[], bool]


class Upstream:
    """A server on one port of loopback, or on the socket that is bound into the box."""

    def __init__(self, port: int | None) -> None:
        self._port = port

    def ask(self, path: str, body: bytes | None, *, end: float, stopped: Stopped) -> Any:
        """Return the JSON value the server answers with status 200; raise `Refused`."""
        with self._connected() as sock:
            sock.settimeout(SLICE_SECONDS)
            _send(sock, _request(path, body), end=end, stopped=stopped)
            status, answer = _answer(_Reading(sock, end, stopped))
        if status != 200:
            raise Refused(Why.FOREIGN_STATUS, f"status {status}")
        try:
            return json.loads(answer.decode("utf-8"))
        except (ValueError, RecursionError) as exc:
            raise Refused(Why.FOREIGN, "not JSON") from exc

    def _connected(self) -> socket.socket:
        family = socket.AF_UNIX if self._port is None else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(CONNECT_SECONDS)
            sock.connect(SERVER_SOCKET if self._port is None else (LOOPBACK, self._port))
        except OSError as exc:
            sock.close()
            where = "its socket" if self._port is None else f"{LOOPBACK}:{self._port}"
            raise Refused(Why.UNREACHABLE, f"nothing at {where}") from exc
        return sock


def _request(path: str, body: bytes | None) -> bytes:
    lines = [
        f"{'GET' if body is None else 'POST'} {path} HTTP/1.0",
        "Host: localhost",
        "Accept: application/json",
        "Connection: close",
    ]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")


def _send(sock: socket.socket, data: bytes, *, end: float, stopped: Stopped) -> None:
    view = memoryview(data)
    while view:
        _look_up(end, stopped)
        try:
            view = view[sock.send(view[:_PIECE]) :]
        except TimeoutError:
            continue
        except OSError as exc:
            raise Refused(Why.UNREACHABLE, "it hung up") from exc


class _Reading:
    """What comes from the server, within time and size."""

    def __init__(self, sock: socket.socket, end: float, stopped: Stopped) -> None:
        self._sock, self._end, self._stopped = sock, end, stopped
        self.held = bytearray()

    def more(self, most: int) -> bool:
        """Take more bytes, at most `most` in all; return False at the end of them."""
        while True:
            _look_up(self._end, self._stopped)
            try:
                piece = self._sock.recv(_PIECE)
            except TimeoutError:
                continue
            except OSError as exc:
                raise Refused(Why.UNREACHABLE, "it hung up") from exc
            self.held += piece
            if len(self.held) > most:
                raise Refused(Why.FOREIGN_TOO_LARGE)
            return bool(piece)


def _answer(reading: _Reading) -> tuple[int, bytes]:
    at = _end_of_head(reading)
    status, length = _head(bytes(reading.held[:at]))
    del reading.held[: at + len(_END)]
    if status != 200:
        return status, b""
    if length is not None and length > MAX_BODY_BYTES:
        raise Refused(Why.FOREIGN_TOO_LARGE)
    while (length is None or len(reading.held) < length) and reading.more(MAX_BODY_BYTES):
        pass
    if length is not None and len(reading.held) < length:
        raise Refused(Why.FOREIGN, "its answer was cut off")
    return status, bytes(reading.held[:length])


def _end_of_head(reading: _Reading) -> int:
    while (at := reading.held.find(_END, 0, MAX_HEAD_BYTES)) < 0:
        if len(reading.held) >= MAX_HEAD_BYTES or not reading.more(MAX_BODY_BYTES):
            raise Refused(Why.FOREIGN, "no head")
    return at


def _head(untrusted: bytes) -> tuple[int, int | None]:
    first, *lines = untrusted.split(b"\r\n")
    match = _STATUS.fullmatch(first)
    if match is None:
        raise Refused(Why.FOREIGN, "not HTTP")
    length: int | None = None
    for line in lines:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if name == b"transfer-encoding" and value.lower() != b"identity":
            raise Refused(Why.FOREIGN, "an answer in chunks to HTTP/1.0")
        if name == b"content-length":
            if length is not None or _LENGTH.fullmatch(value) is None:
                raise Refused(Why.FOREIGN, "its length")
            length = int(value)
    return int(match[1]), length


def _look_up(end: float, stopped: Stopped) -> None:
    if time.monotonic() > end:
        raise Refused(Why.DEADLINE)
    if stopped():  # nobody reads this: the client has hung up
        raise Refused(Why.FAILED, "nobody waits for it")
