"""The page of questions: the form, and the question that is being answered, one at a time.

SECURITY
    The words of progress are ours.  The question is the operator's; its answer is an analysis like
    any other, and drafts that wait.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from threegate.artifacts.ids import is_id
from threegate.console.messages import Malformed, Response, as_json, redirect
from threegate.console.page import Call, ConsolePage
from threegate.console.workspace_threads import ConsoleJob, JobRunner, Tell, WorkspaceThread
from threegate.host.ask.answer import TypedQuestion, answer_by_extracts, answer_by_model
from threegate.host.ask.core_session import TOKENS, gates_of
from threegate.host.ask.nearness import meaning
from threegate.host.command_context import Context
from threegate.host.output import Output
from threegate.host.proxy.supervisor import LogWriter
from threegate.host.workspace.live import LiveWorkspace

MAX_QUESTION_CHARS: Final = 4000


@dataclass(slots=True)
class QuestionJob(ConsoleJob):
    """One question."""

    question: str = ""
    extractive: bool = False
    analysis: str = ""
    drafts: int = 0


class QuestionRunner(JobRunner[QuestionJob]):
    """Answers one question after the other, and remembers the last."""

    def __init__(self, context: Context, thread: WorkspaceThread, tell: Tell) -> None:
        super().__init__(thread, tell, "question")
        self._context = context
        self.quiet: Output = _Heard(lambda _: None)  # for calls without visible progress

    def start(self, typed: TypedQuestion, *, extractive: bool) -> None:
        """Start a question; raise `UsageError` while another one is answered."""
        job = QuestionJob(question=typed.question, extractive=extractive)
        self.begin(job, lambda live: self._work(live, job, typed))

    def ended(self, job: QuestionJob) -> None:
        """Tell the pages that a question is answered."""
        self._tell("asked", analysis=job.analysis)

    def _work(self, live: LiveWorkspace, job: QuestionJob, typed: TypedQuestion) -> None:
        def step(words: str) -> None:
            if not words.startswith(TOKENS):
                job.step(words)
            self._tell("asking", words=words)

        live.ws.refuse_wrong_clock()
        context = replace(self._context, out=_Heard(step))
        noter = LogWriter(live.ws.store)
        with meaning(context, live.ws, live.index, noter) as near:
            if job.extractive:
                outcome = answer_by_extracts(live.ws, live.index, typed, near)
            else:
                boxed = gates_of(context, live.ws, step, noter)
                outcome = answer_by_model(live.ws, live.index, typed, boxed, near)
        job.analysis, job.drafts = outcome.stored.id, len(outcome.stored.drafts)
        for words in (*outcome.notices, *([outcome.withheld] if outcome.withheld else [])):
            step(words)


class _Heard(Output):
    """An output whose notes are steps of the question."""

    def __init__(self, step: Callable[[str], None]) -> None:
        super().__init__(io.StringIO(), io.StringIO(), io.StringIO())
        self._step = step

    def note(self, text: str) -> None:
        """Add a step."""
        self._step(text)


async def ask(call: Call) -> Response:
    """Show the form, and the current question."""
    roles = await call.app.reading.do(lambda live: sorted(live.ws.bundle.words("core", "roles")))
    continues = call.request.query.get("continues", "")
    if continues and not is_id(continues):
        raise Malformed("that is not the id of an answer")
    return call.show("ask", job=call.app.asking.job, roles=roles, continues=continues)


async def state(call: Call) -> Response:
    """Tell a page that missed the event whether its question is answered."""
    return as_json({"over": not call.app.asking.busy})


async def start(call: Call) -> Response:
    """Start a question."""
    form = call.request.form()
    question = form.get("question", "").replace("\r\n", "\n").strip()
    continues = form.get("continues", "").strip()
    if not 0 < len(question) <= MAX_QUESTION_CHARS:
        raise Malformed("a question has 1 to 4000 characters")
    if continues and not is_id(continues):
        raise Malformed("that is not the id of an answer")
    query, role = form.get("query", "").strip(), form.get("role", "")
    typed = TypedQuestion(question, [], query or None, continues or None, role or None)
    call.app.asking.start(typed, extractive=form.get("extractive") == "yes")
    return redirect("/ask")


PAGES: Final = (
    ConsolePage("/ask", ask, start, title="Ask", listed=True),
    ConsolePage("/ask/state", state),
)
