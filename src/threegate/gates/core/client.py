"""CORE's one way out: a chat completion over the Unix socket that is bound into its box.

SECURITY
    Reads what a model server says, ours or, behind the bridge, somebody else's.  Head and
    body are bounded, the whole has one deadline, and what is not a reply of the protocol is
    none.  Opens AF_UNIX only; the box has no other family.
"""

import re
import socket
import time
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import (
    COMPLETIONS,
    MAX_REPLY_BYTES,
    ChatReply,
    ChatRequest,
    parse_refused,
    parse_reply,
)

MODEL_SOCKET: Final = "/run/model.sock"
MAX_HEAD_BYTES: Final = 8 * 1024
_STATUS: Final = re.compile(rb"HTTP/1\.1 ([0-9]{3}) [ -~]{0,100}\r\n")
_LENGTH: Final = re.compile(rb"(?i:\r\nContent-Length): ?([0-9]{1,9})\r\n")
_PIECE: Final = 64 * 1024


class NoModel(Exception):
    """The server gave no reply; `code` is its own, if it had one."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.code = message, code


@dataclass(frozen=True, slots=True)
class Client:
    """Asks one server, one thing at a time."""

    path: str
    deadline: float  # by the monotonic clock, for all questions together

    def ask(self, request: ChatRequest) -> ChatReply:
        """Return the reply, or raise `NoModel`."""
        try:
            status, body = self._exchange(request.to_bytes())
            if status == 200:
                return parse_reply(Untrusted(body))
            refused = parse_refused(Untrusted(body))
        except TimeoutError as exc:
            raise NoModel("the model did not answer in time") from exc
        except OSError as exc:
            raise NoModel("the model server does not answer") from exc
        except ProtocolBroken as exc:
            raise NoModel("the model server said what is no reply") from exc
        raise NoModel(refused.message, refused.code)

    def _exchange(self, body: bytes) -> tuple[int, bytes]:
        head = (
            f"POST {COMPLETIONS} HTTP/1.1\r\nHost: model\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(self._left())
            sock.connect(self.path)
            sock.sendall(head.encode("ascii") + body)
            return self._answer(sock)

    def _answer(self, sock: socket.socket) -> tuple[int, bytes]:
        data = bytearray()
        while (end := data.find(b"\r\n\r\n")) < 0:
            self._more(sock, data, MAX_HEAD_BYTES)
        head = bytes(data[: end + 2])
        status, length = _STATUS.match(head), _LENGTH.search(head)
        if status is None or length is None or int(length[1]) > MAX_REPLY_BYTES:
            raise ProtocolBroken("not an answer")
        whole = end + 4 + int(length[1])
        while len(data) < whole:
            self._more(sock, data, whole)
        return int(status[1]), bytes(data[end + 4 : whole])

    def _more(self, sock: socket.socket, data: bytearray, most: int) -> None:
        sock.settimeout(self._left())  # a server that drips gets no time beyond ours
        piece = sock.recv(_PIECE)
        data += piece
        if not piece or (len(data) > most and most == MAX_HEAD_BYTES and b"\r\n\r\n" not in data):
            raise ProtocolBroken("the answer ended early, or never ends")

    def _left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left
