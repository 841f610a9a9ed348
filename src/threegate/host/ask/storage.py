"""Storage of an answer: the analysis and its drafts as one change of the workspace.

A crash before the change leaves nothing, and the question can be asked again; a crash during it
leaves all or nothing.

SECURITY
    Assembles artifacts from words that a model wrote.  Derivation, labels, time, policy and quotes
    of the analysis come from the host.
"""

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts import registry
from threegate.artifacts.analysis import Analysis, Claim, ModelUsed
from threegate.artifacts.limits import MAX_ANSWER_CHARS
from threegate.artifacts.registry import Request
from threegate.base.untrusted import Untrusted
from threegate.handoff.admission import admit_answer
from threegate.host.ask.labels import Checked
from threegate.host.ask.selection import Selection
from threegate.host.provenance.texts import DraftOrigin
from threegate.host.workspace.drafts import NONCE_BYTES
from threegate.host.workspace.workspace import Workspace

EXTRACTIVE: Final = "extractive"
NOTHING_FOUND: Final = "No sentence of the sources that were selected has a word of the question."
_NUMBERED: Final = re.compile(r"\[(\s*\d[\d\s,;-]*)\]")
NEAREST: Final = (
    "Nearest sentences of the sources, word for word, not chosen by the model that answers:"
)
_AFTER_NEAREST: Final = re.compile(
    r".* \[([0-9]{1,4})\]|Claims ([0-9]{1,4}) to [0-9]{1,4} stand below only\."
)
_OUR_LINES_CHARS: Final = 400  # text of an answer besides claims
NOTHING_CLAIMED: Final = "The model made no claim about the sources that were selected."


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """What the operator asked."""

    question: str
    role: str
    continues: str | None = None


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer: claims with their labels, and notes about the run."""

    method: str
    claims: tuple[Checked, ...]
    model: ModelUsed | None = None
    notes: tuple[str, ...] = ()
    beside: tuple[Checked, ...] = ()  # nearest sentences, behind the claims of a model

    @property
    def all_claims(self) -> tuple[Checked, ...]:
        """Everything that is claimed, in the order it is stored in."""
        return (*self.claims, *self.beside)


@dataclass(frozen=True, slots=True)
class StoredAnalysis:
    """The stored analysis and its drafts."""

    id: str
    analysis: Analysis
    drafts: tuple[tuple[str, Request], ...] = ()


# Drafts are made for an analysis, because they name it; None are made for an extractive one.
Drafts = Callable[[str, str], Sequence[Request]]  # id and time of the analysis


def no_drafts(_analysis_id: str, _created: str) -> Sequence[Request]:
    """Return none."""
    return ()


def store_answer(
    ws: Workspace,
    asked: StoredQuestion,
    answered: StoredAnswer,
    *,
    selection: Selection,
    origin: DraftOrigin,
    drafts: Drafts = no_drafts,
) -> StoredAnalysis:
    """Store an analysis and its drafts in one step; raise `ArtifactRejected` and store nothing."""
    analysis = assemble(ws, asked, answered, selection, origin)
    made = drafts(registry.id_of(analysis), analysis.created)
    detail: dict[str, Any] = {
        "left_out": selection.left_out,
        "method": answered.method,
        "ranked_by": selection.ranked_by,
        "texts": len(selection.passages),
    }
    stored, draft_ids = admit_answer(ws.store, analysis, made, detail=detail)
    return StoredAnalysis(stored, analysis, tuple(zip(draft_ids, made, strict=True)))


def assemble(
    ws: Workspace,
    asked: StoredQuestion,
    answered: StoredAnswer,
    selection: Selection,
    origin: DraftOrigin,
) -> Analysis:
    """Return the analysis of an answer; the answer in one piece is made of its claims."""
    quotes = [one for claim in answered.all_claims for one in claim.quotes]
    claims = [
        Claim(claim.label, tuple(one.cite for one in claim.quotes)) for claim in answered.all_claims
    ]
    notes = (selection.note(), *answered.notes)
    return Analysis(
        created=ws.now(),
        nonce=secrets.token_hex(NONCE_BYTES),
        method=answered.method,
        model=answered.model,
        role=asked.role,
        policy_sha256=ws.bundle.digest,
        continues=asked.continues,
        selection=tuple(sorted(selection.materials)),
        claims=tuple(claims),
        integrity="external",
        confidentiality=origin.labels.confidentiality,
        derived_from=origin.derived_from,
        question=Untrusted(asked.question),
        answer=Untrusted(answer_of(answered)),
        claim_texts=tuple(Untrusted(claim.text) for claim in answered.all_claims),
        quotes=tuple(Untrusted(one.text) for one in quotes),
        notes=tuple(Untrusted(note[:MAX_ANSWER_CHARS]) for note in notes),
    )


def answer_of(answered: StoredAnswer) -> str:
    """Return the answer in one piece: each claim, with its number behind it."""
    room = MAX_ANSWER_CHARS - _OUR_LINES_CHARS
    lines = _lines(answered.claims, 1, room) or [_nothing(answered)]
    if answered.beside:
        room -= sum(len(line) + 1 for line in lines)
        lines += [NEAREST, *_lines(answered.beside, len(answered.claims) + 1, room)]
    return "\n".join(lines)


def _lines(claims: Sequence[Checked], first: int, room: int) -> list[str]:
    lines: list[str] = []
    for number, claim in enumerate(claims, first):
        line = answer_line(claim.text, number)
        room -= len(line) + 1
        if room < 0:
            return [*lines, f"Claims {number} to {first + len(claims) - 1} stand below only."]
        lines.append(line)
    return lines


def own_claims(analysis: Analysis) -> int:
    """Return how many claims are the answer's own; the rest are the nearest sentences.

    The answer says it: a claim is one line that ends in its number, so none can be `NEAREST`.
    An analysis from elsewhere may say anything.  A claim that is not word for word its one quote
    is not a sentence of a source, and then no claim is taken for one.
    """
    every = len(analysis.claims)
    lines = analysis.answer.open_for_validation().split("\n")
    if analysis.method == EXTRACTIVE or lines.count(NEAREST) != 1 or lines[-1] == NEAREST:
        return every
    found = _AFTER_NEAREST.fullmatch(lines[lines.index(NEAREST) + 1])
    own = every if found is None else int(found[1] or found[2]) - 1
    if not 0 <= own < every or any(len(claim.cites) != 1 for claim in analysis.claims[own:]):
        return every
    return own if analysis.claim_texts[own:] == analysis.quotes[own - every :] else every


def _nothing(answered: StoredAnswer) -> str:
    return NOTHING_FOUND if answered.method == EXTRACTIVE else NOTHING_CLAIMED


def answer_line(text: str, number: int) -> str:
    """Return the line of a claim in an answer, with its own number in brackets.

    A claim that writes `[1]` itself would pass for one that rests on the first one's quotes.
    """
    return f"{_NUMBERED.sub(_in_parentheses, ' '.join(text.split()))} [{number}]"


def _in_parentheses(match: re.Match[str]) -> str:
    return f"({match[1]})"
