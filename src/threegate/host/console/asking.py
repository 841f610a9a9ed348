"""A question that is being answered, one at a time, and how far it is.

SECURITY
    The words of progress are ours.  The question is the operator's; what comes of it is an
    analysis like any other, and drafts that wait.
"""

import asyncio
import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from threegate.errors import ThreeGateError, UsageError
from threegate.host.asking.answering import Wish, answer_by_extracts, answer_by_model
from threegate.host.asking.preparing import meaning
from threegate.host.asking.serving import TOKENS
from threegate.host.commands.ask import sides
from threegate.host.console.offices import Desk, Office
from threegate.host.context import Context
from threegate.host.output import Output

MAX_STEPS: Final = 100
Tell = Callable[..., None]


@dataclass(slots=True)
class Job:
    """One question."""

    question: str
    extractive: bool
    steps: list[str] = field(default_factory=list)
    analysis: str = ""
    drafts: int = 0
    error: ThreeGateError | None = None
    over: bool = False


class Asking:
    """Answers one question after the other, and remembers the last."""

    def __init__(self, context: Context, office: Office, tell: Tell) -> None:
        self._context, self.office, self._tell = context, office, tell
        self.job: Job | None = None
        self.quiet: Output = _Heard(lambda _: None)  # for what speaks of its progress
        self._task: asyncio.Task[None] | None = None

    def start(self, wish: Wish, *, extractive: bool) -> None:
        """Begin to answer; raise `UsageError` while another question is answered."""
        if self.job is not None and not self.job.over:
            raise UsageError("another question is being answered", hint="wait for its answer")
        self.job = Job(wish.question, extractive)
        self._task = asyncio.create_task(self._answer(self.job, wish))

    async def _answer(self, job: Job, wish: Wish) -> None:
        try:
            await self.office.do(lambda desk: self._work(desk, job, wish))
        except ThreeGateError as exc:
            job.error = exc
        except Exception as exc:  # noqa: BLE001 -- told on the page; the console goes on
            job.error = ThreeGateError(f"unexpected {type(exc).__name__}")
            self._tell("bug", kind=type(exc).__name__, where="asking")
        job.over = True
        self._tell("asked", analysis=job.analysis)

    def _work(self, desk: Desk, job: Job, wish: Wish) -> None:
        def step(words: str) -> None:
            if not words.startswith(TOKENS) and words not in job.steps:
                del job.steps[MAX_STEPS:]
                job.steps.append(words)
            self._tell("asking", words=words)

        desk.ws.refuse_wrong_clock()
        context = replace(self._context, out=_Heard(step))
        with meaning(context, desk.ws, desk.index) as near:
            if job.extractive:
                outcome = answer_by_extracts(desk.ws, desk.index, wish, near)
            else:
                boxed = sides(context, desk.ws, step)
                outcome = answer_by_model(desk.ws, desk.index, wish, boxed, near)
        job.analysis, job.drafts = outcome.stored.id, len(outcome.stored.drafts)
        for words in (*outcome.told, *([outcome.withheld] if outcome.withheld else [])):
            step(words)


class _Heard(Output):
    """What a command would note is a step of the question."""

    def __init__(self, step: Callable[[str], None]) -> None:
        super().__init__(io.StringIO(), io.StringIO(), io.StringIO())
        self._step = step

    def note(self, text: str) -> None:
        """Tell it to the page."""
        self._step(text)
