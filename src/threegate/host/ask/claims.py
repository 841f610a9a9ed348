"""The task for CORE and the check of its answer: claims get their quotes and labels here.

SECURITY
    Reads the answer of a sandbox that may be compromised by what it read.  A number that refers to
    nothing in the task, more items than allowed, or a draft of a kind that was not allowed is not a
    mistake of the model: CORE checks those itself.  The whole answer is refused then.  Text is kept
    only if it may be part of an artifact.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.limits import MAX_CITES_PER_CLAIM
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import ProtocolBroken
from threegate.base.forms import KINDS
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted
from threegate.gates.core.messages import (
    MAX_DENIED,
    Cited,
    CoreSaid,
    CoreTask,
    Draft,
    TaskBudget,
    TaskSource,
    ToolDraft,
)
from threegate.handoff.approvals import denial_of
from threegate.host.ask.labels import Checked, Quoted, labelled, quote_sentences
from threegate.host.ask.selection import Selection
from threegate.host.ask.storage import StoredQuestion
from threegate.host.provenance.headlines import Retracted
from threegate.host.provenance.texts import DraftOrigin, Material, Passage
from threegate.host.review.origins import host_of
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_draft
from threegate.policy.decision import Deny

# Proposals of an earlier answer that a person denied, as data for the next question.
#
# SECURITY: the purpose of a request is in the words of a model or a stranger; the reason is the
# operator's. Both reach CORE inside quoted data, and the request counts as something that could be
# read.

PURPOSE_CHARS: Final = 500
REASON_CHARS: Final = 1_000
_PROPOSED: Final = {"tr": "compute", "fr": "fetch"}


@dataclass(frozen=True, slots=True)
class Denied:
    """A denied proposal, and the words about it for CORE."""

    request: str
    text: str


def denied_of(ws: Workspace, index: Index, analysis_id: str | None) -> tuple[Denied, ...]:
    """Return the denied proposals of an analysis; raise `HandoffTampered`."""
    if analysis_id is None:
        return ()
    made = (one for one in index.made_from(analysis_id) if prefix_of(one) in _PROPOSED)
    found = (_denied(ws, request_id) for request_id in made)
    return tuple(one for one in found if one is not None)[:MAX_DENIED]


def _denied(ws: Workspace, request_id: str) -> Denied | None:
    denial = denial_of(ws.store, request_id)
    if denial is None or ws.store.locate(request_id) is None:
        return None
    request = ws.store.read(request_id)
    assert isinstance(request, ToolRequest | FetchRequest)
    purpose = request.purpose.open_for_validation()[:PURPOSE_CHARS]
    # The operator's reason first: a hostile proposal could append a forged reason.
    proposed = f"{_PROPOSED[prefix_of(request_id)]}: {purpose}"
    words = f"Denied, because: {denial.reason[:REASON_CHARS]} What was proposed, {proposed}"
    return Denied(request_id, words)


# The task that CORE gets for a question, and the meaning of its numbers.
#
# CORE gets texts and numbers; no id, no path, no label. When it answers with numbers, this code
# finds the stored text of each.
#
# SECURITY: puts foreign text into a message for a sandbox. The only foreign words outside the
# texts themselves are titles, in the line that names a source's origin.

FETCH, TOOL = "fetch-request", "tool-request"
TITLE_CHARS: Final = 200
_BLANKS: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Sent:
    """One source as it was handed over: its artifact and passages."""

    material: Material
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class TaskTexts:
    """A task, and what its sources are; the first is number 1."""

    task: CoreTask
    sent: tuple[Sent, ...]


def hand_over(
    bundle: Bundle,
    asked: StoredQuestion,
    selection: Selection,
    origin: DraftOrigin,
    denied: Sequence[Denied] = (),
) -> TaskTexts:
    """Return the task for a question about a selection."""
    sent = tuple(_sent(selection))
    path = ("core", "answer")
    keys = ("output_tokens", "claims", "drafts", "retries")
    budget = TaskBudget(
        context_tokens=bundle.integer("core", "model", "context_tokens"),
        deadline_ms=bundle.integer(*path, "deadline_seconds") * 1000,
        **{key: bundle.integer(*path, key) for key in keys},
    )
    may = may_propose(bundle, asked.role, origin)
    task = CoreTask(
        question=asked.question,
        policy=_policy(may),
        brief=bundle.words("core", "roles", asked.role, "brief"),
        may_draft=may,
        marker=secrets.token_hex(bundle.integer("instruction-hierarchy", "marker_bytes")),
        model=bundle.text("core", "model", "name"),
        budget=budget,
        denied=tuple(one.text for one in denied),
        sources=tuple(_source(one) for one in sent),
    )
    return TaskTexts(task, sent)


def may_propose(bundle: Bundle, role: str, origin: DraftOrigin) -> tuple[str, ...]:
    """Return the drafts that policy and role allow a run that could read this."""
    found = []
    # A result could leave in a URL: results never feed FETCH.
    if not origin.read_a_result and _may(bundle, role, "fr"):
        found.append(FETCH)
    # A program for a lane that is closed would only wait.
    if _may(bundle, role, "tr") and bundle.text("tool-exec", "lanes", "monty", "enabled") == "yes":
        found.append(TOOL)
    return tuple(found)


def _may(bundle: Bundle, role: str, kind: str) -> bool:
    return not isinstance(may_draft(bundle, "core", kind, role=role), Deny)


def _policy(may: tuple[str, ...]) -> tuple[str, ...]:
    proposals = {FETCH: "further sources to fetch", TOOL: "a computation"}
    words = " and ".join(proposals[kind] for kind in may) or "nothing"
    return (
        "Answers rest on the quoted sources.",
        f"Besides an answer you may propose {words}; a person decides about every proposal.",
    )


def _sent(selection: Selection) -> list[Sent]:
    found: dict[str, list[Passage]] = {}
    for passage in selection.passages:
        found.setdefault(passage.artifact, []).append(passage)
    # Best source first; its passages in their order.
    return [
        Sent(selection.materials[one], tuple(sorted(passages, key=lambda p: p.key)))
        for one, passages in found.items()
    ]


def _source(sent: Sent) -> TaskSource:
    texts = tuple(passage.text.open_for_validation() for passage in sent.passages)
    return TaskSource(provenance_of(sent.material), texts)


def provenance_of(material: Material) -> str:
    """Return where a source is from, in one line; the title in it is foreign."""
    artifact = material.artifact
    kind = KINDS[prefix_of(material.id)]
    title = _BLANKS.sub(" ", material.title.open_for_validation())[:TITLE_CHARS].strip()
    if isinstance(artifact, ResearchPacket):
        published = f", published {artifact.published}" if artifact.published else ""
        standing = "" if artifact.retraction in ("none", "unknown") else f", {artifact.retraction}"
        about = f"{kind} from {host_of(artifact.url)}{published}{standing}"
        return f"{about}: {title}" if title else about
    if isinstance(artifact, Analysis):
        return f"{kind}, an earlier answer to: {title}"
    return f"{kind}, computed by {short(artifact.request)}, ended {artifact.exit}"


@dataclass(frozen=True, slots=True)
class KeptClaim:
    """The claims and drafts of an answer that are kept, and why others are not, in our words."""

    claims: tuple[Checked, ...]
    notes: tuple[str, ...]  # foreign
    drafts: tuple[Draft, ...]
    refused: tuple[str, ...]


def check_said(handed: TaskTexts, said: CoreSaid, retracted: Retracted) -> KeptClaim:
    """Return the claims with quotes and labels; raise `ProtocolBroken` for a forged answer."""
    _refuse_more(handed, said)
    refused: list[str] = []
    claims: list[Checked] = []
    for number, claimed in enumerate(said.claims, 1):
        quotes = _quotes(handed, claimed.cites)
        text = readable_text(claimed.text)
        if text is None or "\n" in text:  # the answer has one line for each claim
            refused.append(f"claim {number} holds characters that are not allowed in an analysis")
        else:
            claims.append(labelled(text, quotes, retracted))
    notes = [readable_text(note) for note in said.notes]
    missing = notes.count(None)
    if missing:
        refused.append(f"{missing} notes hold characters that are not allowed in an analysis")
    kept = tuple(note for note in notes if note is not None)
    return KeptClaim(tuple(claims), kept, said.drafts, tuple(refused))


def readable_text(text: Untrusted[str]) -> str | None:
    """Return a text without blank ends, None if it may not be part of an artifact."""
    found = text.open_for_validation().strip()
    return found if found and FORBIDDEN.search(found) is None else None


def _refuse_more(handed: TaskTexts, said: CoreSaid) -> None:
    budget = handed.task.budget
    if len(said.claims) > budget.claims or len(said.drafts) > budget.drafts:
        raise ProtocolBroken("CORE said more than it may")
    for draft in said.drafts:
        kind = TOOL if isinstance(draft, ToolDraft) else FETCH
        if kind not in handed.task.may_draft:
            raise ProtocolBroken(f"CORE drafted a {kind}, which it may not")
        numbers = draft.sources if isinstance(draft, ToolDraft) else ()
        if not all(1 <= number <= len(handed.sent) for number in numbers):
            raise ProtocolBroken("a draft reads a source that was not handed over")
    if not all(1 <= number <= len(handed.sent) for number in said.shown):
        raise ProtocolBroken("CORE names a source that was not handed over")


def _quotes(handed: TaskTexts, cites: Sequence[Cited]) -> list[Quoted]:
    """Return the quotes of a claim: sentences that follow each other are one."""
    runs: list[list[Cited]] = []
    for cite in sorted(set(cites), key=attrgetter("source", "excerpt", "sentence")):
        last = runs[-1][-1] if runs else None
        follows = last is not None and (cite.source, cite.excerpt, cite.sentence) == (
            last.source,
            last.excerpt,
            last.sentence + 1,
        )
        if follows:
            runs[-1].append(cite)
        else:
            runs.append([cite])
    found = [one for run in runs for one in _quote_run(handed, run)]
    return found[:MAX_CITES_PER_CLAIM]


def _quote_run(handed: TaskTexts, run: Sequence[Cited]) -> list[Quoted]:
    whole = _quote(handed, run)
    if whole is not None:
        return [whole]
    singly = [_quote(handed, [cite]) for cite in run]  # together they were too long
    return [one for one in singly if one is not None]


def _quote(handed: TaskTexts, run: Sequence[Cited]) -> Quoted | None:
    first = run[0]
    if first.source > len(handed.sent):
        raise ProtocolBroken("a claim cites a source that was not handed over")
    sent = handed.sent[first.source - 1]
    if first.excerpt > len(sent.passages):
        raise ProtocolBroken("a claim cites a text that was not handed over")
    passage = sent.passages[first.excerpt - 1]
    found = quote_sentences(sent.material, passage, [cite.sentence for cite in run])
    if found is None and len(run) == 1:
        raise ProtocolBroken("a claim cites a sentence that is not there")
    return found
