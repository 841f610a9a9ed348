"""What CORE said, against what it was handed: claims get their quotes and labels here.

SECURITY
    Reads the answer of a box that may be owned by what it read.  A number that names nothing
    that was handed over, more than was allowed, or a draft of a kind that was not, is no slip
    of a model: CORE checks those itself.  The whole answer is refused then.  Text is kept
    only if it may stand in an artifact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from threegate.artifacts.limits import MAX_CITES_PER_CLAIM
from threegate.base.errors import ProtocolBroken
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted
from threegate.gates.core.messages import Cited, Draft, Said, ToolDraft
from threegate.host.ask.labels import Checked, labelled
from threegate.host.ask.quotes import Quoted, quote_sentences
from threegate.host.ask.task import FETCH, TOOL, Handed
from threegate.host.provenance.retraction import Retracted


@dataclass(frozen=True, slots=True)
class Kept:
    """What of an answer can be kept, and what was not, in our words."""

    claims: tuple[Checked, ...]
    notes: tuple[str, ...]  # foreign
    drafts: tuple[Draft, ...]
    refused: tuple[str, ...]


def check_said(handed: Handed, said: Said, retracted: Retracted) -> Kept:
    """Return the claims with quotes and labels; raise `ProtocolBroken` for a forged answer."""
    _refuse_more(handed, said)
    refused: list[str] = []
    claims: list[Checked] = []
    for number, claimed in enumerate(said.claims, 1):
        quotes = _quotes(handed, claimed.cites)
        text = readable_text(claimed.text)
        if text is None or "\n" in text:  # the answer has one line for each claim
            refused.append(f"claim {number} holds characters that may not stand in an analysis")
        else:
            claims.append(labelled(text, quotes, retracted))
    notes = [readable_text(note) for note in said.notes]
    missing = notes.count(None)
    if missing:
        refused.append(f"{missing} notes hold characters that may not stand in an analysis")
    kept = tuple(note for note in notes if note is not None)
    return Kept(tuple(claims), kept, said.drafts, tuple(refused))


def readable_text(text: Untrusted[str]) -> str | None:
    """Return a text without blank ends, None if it may not stand in an artifact."""
    found = text.open_for_validation().strip()
    return found if found and FORBIDDEN.search(found) is None else None


def _refuse_more(handed: Handed, said: Said) -> None:
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


def _quotes(handed: Handed, cites: Sequence[Cited]) -> list[Quoted]:
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


def _quote_run(handed: Handed, run: Sequence[Cited]) -> list[Quoted]:
    whole = _quote(handed, run)
    if whole is not None:
        return [whole]
    singly = [_quote(handed, [cite]) for cite in run]  # together they were too long
    return [one for one in singly if one is not None]


def _quote(handed: Handed, run: Sequence[Cited]) -> Quoted | None:
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
