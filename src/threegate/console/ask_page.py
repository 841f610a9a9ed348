"""A question that is being answered, one at a time, and how far it is.

SECURITY
    The words of progress are ours.  The question is the operator's; what comes of it is an
    analysis like any other, and drafts that wait.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace

from threegate.console.jobs import ConsoleJob, JobRunner, Tell
from threegate.console.workspace_threads import Desk, WorkspaceThread
from threegate.host.ask.answer import Wish, answer_by_extracts, answer_by_model
from threegate.host.ask.core_session import TOKENS
from threegate.host.ask.gates import gates_of
from threegate.host.ask.passage_vectors import meaning
from threegate.host.command_context import Context
from threegate.host.output import Output
from threegate.host.proxy.log_entries import Noter


@dataclass(slots=True)
class QuestionJob(ConsoleJob):
    """One question."""

    question: str = ""
    extractive: bool = False
    analysis: str = ""
    drafts: int = 0


class QuestionRunner(JobRunner[QuestionJob]):
    """Answers one question after the other, and remembers the last."""

    def __init__(self, context: Context, office: WorkspaceThread, tell: Tell) -> None:
        super().__init__(office, tell, "question")
        self._context = context
        self.quiet: Output = _Heard(lambda _: None)  # for what speaks of its progress

    def start(self, wish: Wish, *, extractive: bool) -> None:
        """Begin to answer; raise `UsageError` while another question is answered."""
        job = QuestionJob(question=wish.question, extractive=extractive)
        self.begin(job, lambda desk: self._work(desk, job, wish))

    def ended(self, job: QuestionJob) -> None:
        """Tell the pages that a question is answered."""
        self._tell("asked", analysis=job.analysis)

    def _work(self, desk: Desk, job: QuestionJob, wish: Wish) -> None:
        def step(words: str) -> None:
            if not words.startswith(TOKENS):
                job.step(words)
            self._tell("asking", words=words)

        desk.ws.refuse_wrong_clock()
        context = replace(self._context, out=_Heard(step))
        noter = Noter(desk.ws.store)
        with meaning(context, desk.ws, desk.index, noter) as near:
            if job.extractive:
                outcome = answer_by_extracts(desk.ws, desk.index, wish, near)
            else:
                boxed = gates_of(context, desk.ws, step, noter)
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
