"""One step: a question in its form, tried again a bounded number of times, and what it cost.

SECURITY
    Hands the words of a model to whoever reads them strictly.  A reply that was cut off is
    none, however whole it looks.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from threegate.gates.core.client import Client, NoModel
from threegate.gates.core.grammars import Form
from threegate.gates.core.messages import Usage
from threegate.gates.core.replies import NoReply
from threegate.gates.model.chat.messages import ChatRequest, Message

TOO_LONG: Final = "TG-MDL-006"  # the prompt did not fit
T = TypeVar("T")


class TooLong(Exception):
    """The server says that the prompt does not fit."""


class NoAnswer(Exception):
    """No usable reply after every try; the words are our own."""


@dataclass(slots=True)
class Conversation:
    """Asks a model, and counts."""

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
        messages: tuple[Message, ...],
        form: Form,
        read: Callable[[str], T],
        *,
        tokens: int,
        retries: int | None = None,
    ) -> T:
        """Return what `read` makes of a reply; raise `TooLong`, `NoAnswer` or `NoModel`.

        Fewer `retries` than policy allows are for what an answer can do without.
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

    def usage(self) -> Usage:
        """Return what it took so far."""
        return Usage(
            calls=self.calls,
            retries=self.tried_again,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            model_ms=int(self.model_seconds * 1000),
        )
