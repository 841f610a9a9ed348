"""CORE's only connection: chat completions over the Unix socket that is bound into its sandbox.

SECURITY
    Reads frames of a model server.  The answer is bounded, all questions share one deadline,
    and anything but one reply or one refusal of the protocol is an error.  A reply that was cut
    off is not used, however complete it looks.  Opens AF_UNIX only; the sandbox has no other
    family.
"""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.core.messages import ModelUsage
from threegate.gates.core.replies import Form, NoReply
from threegate.gates.model.chat.messages import (
    MAX_REPLY_BYTES,
    ChatReply,
    ChatRequest,
    ChatTurn,
    parse_refused,
    parse_reply,
)
from threegate.sandbox.channel import ChannelBroken, MessageReader, frames

MODEL_SOCKET: Final = "/run/model.sock"
REFUSAL: Final = b'{"error":'  # how a refusal begins; a reply is `{"choices":`
_PIECE: Final = 64 * 1024


class NoModel(Exception):
    """The server gave no reply; `code` is the server's, if it sent one."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.code = message, code


@dataclass(frozen=True, slots=True)
class Client:
    """Asks one server, one question at a time."""

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
            raise NoModel("the model server's answer is not a reply") from exc
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


# Steps: a question in its form, asked again a bounded number of times, and what it cost.

TOO_LONG: Final = "TG-MDL-006"  # the prompt did not fit
T = TypeVar("T")


class TooLong(Exception):
    """The server says that the prompt is too long."""


class NoAnswer(Exception):
    """No usable reply after every try; the text is our own."""


@dataclass(slots=True)
class ModelConversation:
    """The questions of one task, and their cost."""

    client: Client
    retries: int
    calls: int = 0
    tried_again: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model_seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def ask(
        self,
        messages: tuple[ChatTurn, ...],
        form: Form,
        read: Callable[[str], T],
        *,
        tokens: int,
        retries: int | None = None,
    ) -> T:
        """Return what `read` makes of a reply; raise `TooLong`, `NoAnswer` or `NoModel`.

        An optional step may take fewer `retries` than policy allows.
        """
        problem = ""
        for seed in range(min(self.retries, self.retries if retries is None else retries) + 1):
            self.tried_again += seed > 0
            request = ChatRequest(messages, tokens, seed, form.grammar, form.schema)
            content, finished = self._reply(request)
            try:
                if not finished:
                    raise NoReply("cut off before its end")
                return read(content)
            except NoReply as exc:
                problem = f"a reply was refused: {exc}"
                self.problems.append(problem)
        raise NoAnswer(problem)

    def _reply(self, request: ChatRequest) -> tuple[str, bool]:
        began = time.monotonic()
        self.calls += 1
        try:
            reply = self.client.ask(request)
        except NoModel as exc:
            if exc.code == TOO_LONG:
                raise TooLong from exc
            raise
        finally:
            self.model_seconds += time.monotonic() - began
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        return reply.content.open_for_validation(), reply.finish_reason == "stop"

    def usage(self) -> ModelUsage:
        """Return the cost so far."""
        return ModelUsage(
            calls=self.calls,
            retries=self.tried_again,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            model_ms=int(self.model_seconds * 1000),
        )
