"""The program of a CORE sandbox: reads one task, writes what CORE says about it, ends.

If all sentences fit, the model gives one reply (`model`).  Otherwise claims about each portion
are notes, and the answer is made from the sentences that the notes cite (`map-reduce`), so that
every claim of the answer cites a sentence of a source, never a note.  Drafts come last.

SECURITY
    Reads what the host sends, with text of strangers in it, and what a model says that may obey
    them.  The worst they can cause here is text in a claim or in a draft.  CORE asks only for
    drafts of the kinds that the task names.  Only our own messages leave: an unexpected error
    ends the process, and its text stays inside.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from threegate.base.limits import MAX_LINE_CHARS
from threegate.base.untrusted import Untrusted
from threegate.gates.core import prompts
from threegate.gates.core.client import (
    MODEL_SOCKET,
    Client,
    ModelConversation,
    NoAnswer,
    NoModel,
    TooLong,
)
from threegate.gates.core.messages import (
    FIXED_TOKENS,
    MAX_TASK_BYTES,
    CoreNotSaid,
    CoreSaid,
    CoreTask,
    Draft,
    FetchDraft,
    ModelClaim,
    ToolDraft,
    parse_task,
)
from threegate.gates.core.prompts import (
    MarkerSpoken,
    QuotedData,
    QuotedSentence,
    fenced,
    guessed_tokens,
    lines_of,
    listed,
    portions,
)
from threegate.gates.core.replies import (
    NextStep,
    claims_form,
    code_form,
    named,
    next_form,
    read_claims,
    read_code,
    read_wanted,
)
from threegate.gates.model.chat.messages import ChatTurn
from threegate.sandbox.channel import write_note
from threegate.sandbox.payload import ANSWERS_FD, answer_once

MAP_CLAIMS: Final = 3
MAX_PROBLEMS: Final = 16
KEPT_NOTES: Final = 400  # an analysis holds 500, with those of the host
# A small model may never end a program: it writes number after number.  One retry with few
# tokens costs a minute, not five.
CODE_TOKENS: Final = 400
CODE_RETRIES: Final = 1
NEXT_TOKENS: Final = 500
LEAST_ROOM: Final = 200
MAX_INPUTS: Final = 8

Tell = Callable[[str], None]


@dataclass(slots=True)
class _Run:
    task: CoreTask
    asking: ModelConversation
    tell: Tell
    room: int
    denied: str  # quoted denials, or empty
    seen: set[int] = field(default_factory=set)
    notes: list[ModelClaim] = field(default_factory=list)


def answer(task: CoreTask, asking: ModelConversation, tell: Tell) -> CoreSaid:
    """Return what CORE says; raise `NoAnswer`, `NoModel` or `MarkerSpoken`."""
    lines = list(lines_of(task.sources, task.marker))
    denied = listed(prompts.DENIALS, task.denied, task.marker) if task.denied else ""
    fixed = FIXED_TOKENS + guessed_tokens("".join(_words(task)))
    room = task.budget.context_tokens - min(task.budget.output_tokens, _output(task)) - fixed
    run = _Run(task, asking, tell, max(LEAST_ROOM, room), denied)
    claims, shown, used = _claims(run, lines)
    drafts = _drafts(run, lines, claims, shown)
    if len(run.notes) > KEPT_NOTES:
        asking.problems.insert(0, f"{len(run.notes) - KEPT_NOTES} notes were left out")
    return CoreSaid(
        method="map-reduce" if run.notes else "model",
        claims=claims,
        drafts=drafts[: task.budget.drafts],
        notes=tuple(claim.text for claim in run.notes[:KEPT_NOTES]),
        shown=tuple(sorted(run.seen)),
        left_out=len(lines) - used,
        problems=tuple(dict.fromkeys(asking.problems))[:MAX_PROBLEMS],
        usage=asking.usage(),
    )


def _words(task: CoreTask) -> tuple[str, ...]:
    return (task.question, task.question, *task.policy, *task.brief, *task.denied)


def _output(task: CoreTask) -> int:
    """Return the tokens an answer may take: at most half of the context."""
    return min(task.budget.output_tokens, task.budget.context_tokens // 2)


def _claims(
    run: _Run, lines: Sequence[QuotedSentence]
) -> tuple[tuple[ModelClaim, ...], QuotedData, int]:
    """Return the answer's claims, the data they rest on, and how many sentences were shown."""
    while True:
        cut = portions(lines, run.room)
        used = sum(map(len, cut))
        try:
            if len(cut) > 1:
                lines = _mapped(run, cut)
                cut = portions(lines, run.room)[:1]
            shown = _shown(run, cut[0] if cut else [])
            run.tell("asking the model for an answer")
            found = _ask_claims(run, shown, prompts.ANSWER, most=run.task.budget.claims)
        except TooLong:
            run.notes.clear()
            if run.room // 2 < LEAST_ROOM:
                raise NoAnswer("the question does not fit into the model's context") from None
            run.room //= 2
            continue
        return found, shown, used


def _mapped(run: _Run, cut: Sequence[Sequence[QuotedSentence]]) -> list[QuotedSentence]:
    """Ask about each portion; return the sentences that the notes cite, in order."""
    cited: dict[object, QuotedSentence] = {}
    for number, portion in enumerate(cut, 1):
        run.tell(f"reading part {number} of {len(cut)}")
        shown = _shown(run, portion)
        try:
            notes = _ask_claims(run, shown, prompts.MAP, most=MAP_CLAIMS)
        except NoAnswer:
            continue  # its problem is recorded; the other portions count
        run.notes += notes
        wanted = {cite for claim in notes for cite in claim.cites}
        cited.update({line.cited: line for line in portion if line.cited in wanted})
    return list(cited.values())


def _shown(run: _Run, lines: Sequence[QuotedSentence]) -> QuotedData:
    shown = fenced(run.task.sources, lines, run.task.marker)
    run.seen |= shown.sources
    return shown


def _ask_claims(run: _Run, shown: QuotedData, step: str, *, most: int) -> tuple[ModelClaim, ...]:
    form = claims_form(shown.cites, most=most)
    messages = prompts.about(run.task, shown.text, step)
    return run.asking.ask(
        messages,
        form,
        lambda text: read_claims(text, shown, most=most),
        tokens=_output(run.task),
    )


def _drafts(
    run: _Run, lines: Sequence[QuotedSentence], claims: Sequence[ModelClaim], shown: QuotedData
) -> tuple[Draft, ...]:
    may = run.task.may_draft
    if not may or not run.task.budget.drafts:
        return ()
    before = set(shown.cites.values())
    known = named([line for line in lines if line.cited in before])
    references = known if "fetch-request" in may else ()
    if "tool-request" not in may and not references:
        return ()
    run.tell("asking the model what is needed next")
    messages = _next(run, shown, prompts.FETCH if references else prompts.NO_FETCH)
    try:
        form = next_form(references)
        wanted = run.asking.ask(
            messages, form, lambda text: read_wanted(text, references), tokens=NEXT_TOKENS
        )
        tool = _tool(run, wanted, lines, claims) if "tool-request" in may else ()
        return (*tool, *_fetch(wanted))
    except NoModel as exc:  # the claims stay; at a remote server they may have been paid for
        run.asking.problems.append(f"no draft: {exc.message}"[:MAX_LINE_CHARS])
    except (NoAnswer, TooLong):
        run.asking.problems.append("no draft: the model gave no usable reply")
    return ()


def _next(run: _Run, shown: QuotedData, fetch: str) -> tuple[ChatTurn, ...]:
    step = f"{prompts.NEXT}\n{fetch}"
    if not run.denied:
        return prompts.about(run.task, shown.text, step)
    return prompts.about(run.task, _joined(shown.text, run.denied), f"{step}\n{prompts.DENIED}")


def _tool(
    run: _Run, wanted: NextStep, lines: Sequence[QuotedSentence], claims: Sequence[ModelClaim]
) -> tuple[Draft, ...]:
    """Ask for a program for the operator's question, not for the model's proposal."""
    if not wanted.compute:
        return ()
    run.tell("asking the model for a program")
    numbers = _inputs(run, claims)
    cut = portions([line for line in lines if line.cited.source in numbers], run.room)
    quoted = _joined(_shown(run, cut[0] if cut else []).text, run.denied)
    messages = prompts.programming(run.task, quoted, numbers)
    code = run.asking.ask(
        messages, code_form(), read_code, tokens=CODE_TOKENS, retries=CODE_RETRIES
    )
    return (ToolDraft(Untrusted(wanted.compute), Untrusted(code), numbers),)


def _inputs(run: _Run, claims: Sequence[ModelClaim]) -> tuple[int, ...]:
    """Return the sources a program reads: those that claims cite come first."""
    cited = sorted({cite.source for claim in claims for cite in claim.cites})
    return tuple(sorted(list(dict.fromkeys([*cited, *sorted(run.seen)]))[:MAX_INPUTS]))


def _joined(*blocks: str) -> str:
    return "\n".join(filter(None, blocks))


def _fetch(wanted: NextStep) -> tuple[Draft, ...]:
    return tuple(
        FetchDraft(Untrusted(why), (Untrusted(reference),)) for reference, why in wanted.fetch
    )


NO_MODEL: Final = "TG-COR-001"
NO_ANSWER: Final = "TG-COR-002"
MARKER_SPOKEN: Final = "TG-COR-003"


def serve() -> None:
    """Answer one task; the payload of a CORE sandbox."""
    answer_once(
        lambda task: say(parse_task(Untrusted(task)), MODEL_SOCKET).to_bytes(), MAX_TASK_BYTES
    )


def say(task: CoreTask, path: str) -> CoreSaid | CoreNotSaid:
    """Return what CORE says, or why it says nothing."""
    client = Client(path, time.monotonic() + task.budget.deadline_ms / 1000)
    try:
        return answer(task, ModelConversation(client, task.budget.retries), _tell)
    except NoModel as exc:
        return CoreNotSaid(NO_MODEL, exc.message)
    except NoAnswer as exc:
        return CoreNotSaid(NO_ANSWER, str(exc))
    except MarkerSpoken:
        return CoreNotSaid(MARKER_SPOKEN, "a source contains the marker of this run")


def _tell(words: str) -> None:
    write_note(ANSWERS_FD, words.encode("ascii"))
