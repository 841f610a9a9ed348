"""One question, from its words to the stored analysis.

SECURITY
    Decides what a question may see.  If this module is wrong, an answer uses sources that it does
    not name.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.codec import decode
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.limits import MAX_PURPOSE_CHARS
from threegate.base.errors import QuotaExceeded, UsageError
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.gates.core.messages import FIXED_TOKENS, CoreSaid
from threegate.host.ask.claims import Denied, check_said, denied_of, hand_over, may_propose
from threegate.host.ask.core_session import Say, model_of
from threegate.host.ask.draft_requests import Prepared, prepare
from threegate.host.ask.extracts import beside, extract
from threegate.host.ask.selection import Limits, Nearness, Selection, select, select_named
from threegate.host.ask.storage import (
    EXTRACTIVE,
    StoredAnalysis,
    StoredAnswer,
    StoredQuestion,
    store_answer,
)
from threegate.host.models.choice import chosen
from threegate.host.models.server import announce, may_leave
from threegate.host.provenance.headlines import retractions
from threegate.host.provenance.texts import DraftOrigin, origin_of
from threegate.host.request.code import Ask
from threegate.host.workspace.index import Index
from threegate.host.workspace.offered_files import named
from threegate.host.workspace.places import refuse_absent, resolve
from threegate.host.workspace.workspace import Workspace
from threegate.policy.decide import may_draft
from threegate.policy.decision import Deny

DEFAULT_ROLE: Final = "research-assistant"


OWN_TOKENS: Final = 100  # about: policy, role and question
CHARS_PER_TOKEN: Final = 2  # fewer than any text has, so that the selection fits
SOURCE_CHARS: Final = 200  # words around a source in the prompt


class AskGates(Protocol):
    """The gates a question needs; tests put others in their place."""

    def serving(self) -> AbstractContextManager[Say]:
        """Return CORE with its model, once that is loaded."""
        ...

    def asking(self) -> AbstractContextManager[Ask]:
        """Return the lite lane, to check programs; started for the first one."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a question."""

    stored: StoredAnalysis
    selection: Selection
    copied: tuple[tuple[str, ...], ...] = ()  # for each draft, the sources that contain its words
    notices: tuple[str, ...] = ()  # errors and refusals, in our words
    beside: int = 0  # of the claims, the last ones: the nearest sentences
    withheld: str | None = None


@dataclass(frozen=True, slots=True)
class TypedQuestion:
    """A question as it was typed."""

    question: str
    packets: Sequence[str] = ()
    query: str | None = None
    continues: str | None = None
    role: str | None = None


def read_question(ws: Workspace, typed: TypedQuestion) -> StoredQuestion:
    """Return the question, checked against the policy; raise `UsageError` or `PolicyDenied`."""
    if typed.packets and typed.query is not None:
        raise UsageError("--packets and --query both choose the sources", hint="give one of them")
    with named("the question"):
        # Arguments from a shell need not be valid text.
        text = decode(
            Untrusted(typed.question.encode("utf-8", "surrogateescape")), 4 * MAX_PURPOSE_CHARS
        ).strip()
        if not text or len(text) > MAX_PURPOSE_CHARS:
            raise UsageError("it is empty" if not text else f"longer than {MAX_PURPOSE_CHARS}")
    role = _role(ws, typed.role)
    decision = may_draft(ws.bundle, "core", "an", role=role)
    if isinstance(decision, Deny):
        raise decision.error(f"an analysis by {role}")
    continues = None if typed.continues is None else _analysis(ws, typed.continues)
    return StoredQuestion(text, role, continues)


def _role(ws: Workspace, wanted: str | None) -> str:
    roles = ws.bundle.words("core", "roles")
    role = wanted or (DEFAULT_ROLE if DEFAULT_ROLE in roles else roles[0])
    if role not in roles:
        hint = f"{ws.bundle.ref('core', 'roles')} has {', '.join(sorted(roles))}"
        raise UsageError(f"the policy has no role {quote(role)}", hint=hint)
    return role


def _analysis(ws: Workspace, text: str) -> str:
    found = resolve(ws.store, text)
    if prefix_of(found) != "an":
        hint = "`threegate analysis list` shows them"
        raise UsageError(f"{quote(text)} is not an analysis", hint=hint)
    refuse_absent(ws.store, found)
    return found


def choose(
    ws: Workspace,
    index: Index,
    asked: StoredQuestion,
    typed: TypedQuestion,
    near: Nearness | None = None,
) -> Selection:
    """Return the texts that the question is about."""
    if asked.continues is not None:
        first, rest = _continued(ws, index, asked.continues)
        # Together they may exceed the limit of one question: the cited sources stay.
        room = max(0, Limits.of(ws.bundle).packets - len(first) - len(typed.packets))
        named_too = [*typed.packets, *rest[:room]]
        chosen = select_named(ws, asked.question, named_too, first=first, near=near)
        return replace(chosen, unread=len(rest[room:]))
    if typed.packets:
        return select_named(ws, asked.question, typed.packets, near=near)
    return select(ws, index, asked.question, query=typed.query, near=near)


def choose_for_model(
    ws: Workspace,
    index: Index,
    asked: StoredQuestion,
    typed: TypedQuestion,
    near: Nearness | None = None,
) -> Selection:
    """Return the texts for a model; without named sources, no more than it sees at once."""
    selection = choose(ws, index, asked, typed, near)
    if typed.packets or asked.continues:
        return selection
    return selection.within(one_prompt(ws), each=SOURCE_CHARS)


def _continued(ws: Workspace, index: Index, analysis_id: str) -> tuple[list[str], list[str]]:
    """Return what is read back first (results, then the analysis), and its sources."""
    analysis = ws.store.read(analysis_id)
    assert isinstance(analysis, Analysis)
    results = [
        result
        for request in index.made_from(analysis_id)
        if prefix_of(request) == "tr"
        for result in index.made_from(request)
        if prefix_of(result) == "res" and ws.store.locate(result) is not None
    ]
    cited = sorted({cite.artifact for claim in analysis.claims for cite in claim.cites})
    sources = dict.fromkeys([*cited, *analysis.selection])
    here = [one for one in sources if ws.store.locate(one) is not None and one not in results]
    return [*results, analysis_id], here


def answer_by_extracts(
    ws: Workspace, index: Index, typed: TypedQuestion, near: Nearness | None = None
) -> Outcome:
    """Answer with sentences of the sources, word for word, and store the analysis."""
    asked = read_question(ws, typed)
    selection = choose(ws, index, asked, typed, near)
    most = ws.bundle.integer("core", "answer", "claims")
    claims = extract(selection, retractions(ws.store, index), most=most, near=near)
    origin = origin_of(ws.store, readable(asked, selection))
    answered = StoredAnswer(EXTRACTIVE, tuple(claims))
    stored = store_answer(ws, asked, answered, selection=selection, origin=origin)
    return Outcome(stored, selection)


def answer_by_model(
    ws: Workspace, index: Index, typed: TypedQuestion, gates: AskGates, near: Nearness | None = None
) -> Outcome:
    """Let CORE answer with the model of the policy, check what it says, and store it."""
    model, asked = model_of(ws.bundle), read_question(ws, typed)
    selection = choose_for_model(ws, index, asked, typed, near)
    denied = denied_of(ws, index, asked.continues)
    could_read = [*readable(asked, selection), *(one.request for one in denied)]
    origin = origin_of(ws.store, could_read)
    let_leave(ws, could_read, origin)
    handed = hand_over(ws.bundle, asked, selection, origin, denied)
    with gates.serving() as say:
        said = say(handed.task)
    retracted = retractions(ws.store, index)
    kept = check_said(handed, said, retracted)
    nearest = tuple(beside(selection, kept.claims, retracted, near))
    with gates.asking() as ask:
        drafts, refused = prepare(ws, handed, origin, kept.drafts, ask)
    notices = [*said.problems, *kept.refused, *refused]

    def store(drafts: Sequence[Prepared]) -> Outcome:
        notes = (_cost(said, notices, denied, len(nearest)), *kept.notes)
        stored = store_answer(
            ws,
            asked,
            StoredAnswer(said.method, kept.claims, model, notes, nearest),
            selection=selection,
            origin=origin,
            drafts=lambda made, created: [draft.named(made, created) for draft in drafts],
        )
        words = tuple(tuple(draft.words()) for draft in drafts)
        withheld = _withheld(ws, asked, origin)
        return Outcome(stored, selection, words, tuple(notices), len(nearest), withheld)

    try:
        return store(drafts)
    except QuotaExceeded as exc:  # too much waits already; the answer need not
        if not drafts:
            raise
        notices.append(f"{len(drafts)} drafts were not kept: {exc.message}")
        return store(())


def let_leave(ws: Workspace, could_read: Sequence[str], origin: DraftOrigin) -> None:
    """Allow the texts to go to a model on another machine; raise `PolicyDenied`."""
    model = chosen(ws.bundle)
    if model.host is not None:
        level = origin.labels.confidentiality
        may_leave(ws, model, could_read, level)
        announce(ws, model, could_read, level)


def one_prompt(ws: Workspace) -> int:
    """Return about how many characters a model sees at once, beside everything else."""
    context = ws.bundle.integer("core", "model", "context_tokens")
    output = min(ws.bundle.integer("core", "answer", "output_tokens"), context // 2)
    return max(0, context - output - FIXED_TOKENS - OWN_TOKENS) * CHARS_PER_TOKEN


def _cost(said: CoreSaid, notices: Sequence[str], denied: Sequence[Denied], nearest: int) -> str:
    """Return the host's note about the run: its cost, texts that did not fit, errors."""
    usage = said.usage
    tokens = f"read {usage.prompt_tokens} tokens and wrote {usage.completion_tokens}"
    lines = [
        f"The model was called {usage.calls} times, {usage.retries} of them again; it {tokens}.",
        f"Sentences that did not fit: {said.left_out}.",
        f"Sentences not chosen by the model, the last of the claims: {nearest}.",
        *(f"It was told why {one.request} was denied." for one in denied),
        *(f"{line[0].upper()}{line[1:]}." for line in notices),
    ]
    return "\n".join(lines)


def _withheld(ws: Workspace, asked: StoredQuestion, origin: DraftOrigin) -> str | None:
    """Return why this run could leave no fetch request, if it otherwise might have."""
    without = replace(origin, read_a_result=False)
    if may_propose(ws.bundle, asked.role, origin) == may_propose(ws.bundle, asked.role, without):
        return None
    return "no fetch request is drafted: this run could read a tool result"


def readable(asked: StoredQuestion, selection: Selection) -> list[str]:
    """Return everything that could be read in a run."""
    return [*selection.materials, *([] if asked.continues is None else [asked.continues])]
