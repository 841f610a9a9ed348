"""CORE's only connection: a chat completion over the Unix socket that is bound into its sandbox.

SECURITY
    Reads frames of a model server.  The answer is bounded, the exchange has one deadline, and
    anything but one reply or one refusal of the protocol is an error.  Opens AF_UNIX only; the
    sandbox has no other family.
"""

import socket
import time
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import (
    MAX_REPLY_BYTES,
    ChatReply,
    ChatRequest,
    parse_refused,
    parse_reply,
)
from threegate.sandbox.channel import ChannelBroken, MessageReader, frames

MODEL_SOCKET: Final = "/run/model.sock"
REFUSAL: Final = b'{"error":'  # how a refusal begins; a reply is `{"choices":`
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
            answer = self._exchange(request.to_bytes())
            if not answer.startswith(REFUSAL):
                return parse_reply(Untrusted(answer))
            refused = parse_refused(Untrusted(answer))
        except TimeoutError as exc:
            raise NoModel("the model did not answer in time") from exc
        except OSError as exc:
            raise NoModel("the model server does not answer") from exc
        except (ChannelBroken, ProtocolBroken) as exc:
            raise NoModel("the model server said what is no reply") from exc
        raise NoModel(refused.message, refused.code)

    def _exchange(self, request: bytes) -> bytes:
        reader = MessageReader(MAX_REPLY_BYTES)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(self._left())
            sock.connect(self.path)
            sock.sendall(frames(request))
            while not (found := reader.feed(self._piece(sock))):
                pass
        if len(found) > 1 or reader.mid_message:
            raise ChannelBroken("more than one answer")
        return found[0]

    def _piece(self, sock: socket.socket) -> bytes:
        sock.settimeout(self._left())  # a server that drips gets no time beyond ours
        piece = sock.recv(_PIECE)
        if not piece:
            raise ChannelBroken("the answer ended early")
        return piece

    def _left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left
