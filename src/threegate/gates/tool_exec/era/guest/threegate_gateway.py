"""Asking a host through the gateway of this run: `inference.local`, and nothing else.

    import threegate_gateway as gateway

    answer = gateway.get("https://api.example.org/rows?from=1")
    answer.status, answer.headers["content-type"], answer.body

Hosts, methods and bytes are those that the request of this run was approved with.  What is not
is refused outside the guest, and `Refused` names the rule.  No redirect is followed: ask for
`answer.headers["location"]` if you may.  It can be imported where the ring's network is
`gateway`, and nowhere else.

SECURITY
    Runs in the interpreter of approved code, which may change it: what it refuses or counts
    holds nothing back.  The gateway outside does.
"""

import _socket
import json
import struct
import sys

__all__ = ["Answer", "NotReached", "Refused", "get", "post", "request"]
PLACE = "/run/inference.local"
ASK, BODY, ANSWER, DATA, NO = 1, 2, 11, 12, 13
HEADER = struct.Struct(">BI")
PIECE_BYTES = 64 * 1024
FAILED = ("not-reached", "answer-malformed")


class Refused(PermissionError):
    """A rule does not let this be asked; `place` is its file and line."""

    def __init__(self, reason: str, detail: str, place: str) -> None:
        by = f" by {place}" if place else ""
        super().__init__(f"refused{by}: {reason} ({detail})")
        self.reason, self.place = reason, place


class NotReached(ConnectionError):
    """It was asked, and there is no answer."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason} ({detail})")
        self.reason = reason


class Answer:
    """What a host answered."""

    def __init__(self, status: int, headers: "dict[str, str]", body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def text(self) -> str:
        """Return the body as text."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> object:
        """Return the value of a body in JSON."""
        return json.loads(self.body)


def get(url: str, headers: "dict[str, str] | None" = None) -> Answer:
    """Ask for a URL."""
    return _ask("GET", url, headers, b"", sys._getframe(1).f_lineno)


def post(url: str, body: bytes, headers: "dict[str, str] | None" = None) -> Answer:
    """Send a body to a URL."""
    return _ask("POST", url, headers, body, sys._getframe(1).f_lineno)


def request(
    method: str, url: str, body: bytes = b"", headers: "dict[str, str] | None" = None
) -> Answer:
    """Ask with any method; policy lists those that are carried."""
    return _ask(method, url, headers, body, sys._getframe(1).f_lineno)


def _ask(
    method: str, url: str, headers: "dict[str, str] | None", body: bytes, line: int | None
) -> Answer:
    said = {"headers": headers or {}, "line": line or 0, "method": method, "url": url}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        channel.connect(PLACE)
        _send(channel, ASK, text.encode("utf-8"))
        _send(channel, BODY, bytes(body))
        kind, head = _hear(channel)
        found = json.loads(head)
        if kind == ANSWER:
            return Answer(found["status"], found["headers"], _hear(channel)[1])
    finally:
        channel.close()
    if found["reason"] in FAILED:
        raise NotReached(found["reason"], found["detail"])
    raise Refused(found["reason"], found["detail"], found["place"])


def _send(channel: _socket.socket, kind: int, data: bytes) -> None:
    channel.sendall(HEADER.pack(kind, len(data)) + data)


def _hear(channel: _socket.socket) -> tuple[int, bytes]:
    kind, length = HEADER.unpack(_read(channel, HEADER.size))
    return kind, _read(channel, length)


def _read(channel: _socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = channel.recv(min(size - len(data), PIECE_BYTES))
        if not piece:
            raise NotReached("not-reached", "the gateway is gone")
        data += piece
    return bytes(data)
