"""An analysis as text for people and values for scripts: the checks first, then the claims.

SECURITY
    Opens foreign text for display; `Output` makes every character of it visible.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from threegate.artifacts.analysis import Analysis, Cite, Claim
from threegate.artifacts.ids import short
from threegate.host.ask.answer import Outcome
from threegate.host.ask.labels import counts, is_sentence
from threegate.host.ask.storage import EXTRACTIVE, NEAREST, NOTHING_CLAIMED, own_claims
from threegate.host.output import Output, counted
from threegate.host.provenance.headlines import BROUGHT, Headline, Lookup, headline_of, page_of
from threegate.host.provenance.lines import line_of

RESTS_ON_BROUGHT: Final = "rests on a brought packet"  # said beside the label of a claim

Brought = Sequence[tuple[str, ...]]  # of each claim, the artifacts it cites that were brought


def label_line(analysis: Analysis, brought: Brought) -> str:
    """Return how many claims have each label, in one line; nearest sentences are not claims."""
    found, own = checked(analysis), own_claims(analysis)
    told = ", ".join(f"{count} {label}" for label, count in found["labels"].items())
    same = sum(is_sentence(text, quotes) for _, text, quotes in list(_claims(analysis))[:own])
    told += f"; {same} of {own} word for word" if same else ""
    resting = sum(map(bool, brought[:own]))
    told += f"; {resting} of {own} on brought packets, not retrieved here" if resting else ""
    beside = found["beside"]
    return f"{told}; beside them {counted(beside, 'nearest sentence')}" if beside else told


def checked(analysis: Analysis) -> dict[str, Any]:
    """Return how many claims have each label, and the number of nearest sentences."""
    own = own_claims(analysis)
    labels = counts([claim.label for claim in analysis.claims[:own]])
    return {"labels": labels, "beside": len(analysis.claims) - own}


def how_made(analysis: Analysis) -> str:
    """Return who wrote the words."""
    if analysis.model is None:
        return "extractive: sentences of the sources, word for word; no words were generated"
    model = analysis.model
    wrote = "written by" if own_claims(analysis) else "nothing claimed by"
    return f"{analysis.method}, {wrote} {model.name} ({model.server})"


def tell(out: Output, analysis_id: str, analysis: Analysis, look: Lookup, brought: Brought) -> None:
    """Print an analysis: labels, claims with their quotes and sources, then everything else."""
    out.line(f"Analysis {analysis_id}")
    out.fields([("labels", label_line(analysis, brought)), ("method", how_made(analysis))])
    if analysis.model is not None and analysis.model.host is not None:
        out.line(f"! the question and the sources were sent to {analysis.model.host}")
    _tell_text(out, "Question", analysis.question.open_for_display())
    if not analysis.claims:
        _tell_text(out, "Answer", analysis.answer.open_for_display())
    own = own_claims(analysis)
    for number, (claim, text, quotes) in enumerate(_claims(analysis), 1):
        if number == own + 1:
            _tell_nearest(out, own)
        what = "Claim" if number <= own else "Sentence"
        how = ", word for word" if is_sentence(text, quotes) else ""
        how += f", {RESTS_ON_BROUGHT}" if brought[number - 1] else ""
        _tell_text(out, f"{what} {number}: {claim.label}{how}", text)
        for cite, quote in zip(claim.cites, quotes, strict=True):
            came = cite.artifact in brought[number - 1]
            _tell_quote(out, cite, None if quote == text else quote, look, brought=came)


def _tell_quote(out: Output, cite: Cite, quote: str | None, look: Lookup, *, brought: bool) -> None:
    """Print a quote and its source: the headline behind the gutter, our words after it."""
    if quote is not None:
        out.line("  quote")
        out.foreign(quote)
    source, page = headline_of(cite.artifact, look), page_of(cite.artifact, cite.excerpt, look.read)
    out.line("  these very words in" if quote is None else "  in")
    if source.text:
        out.foreign(source.text)
    place = line_of(cite.artifact, cite.excerpt, cite.offset, look.read)
    if place is not None:
        out.foreign(place)
    where = [] if page is None else [f"page {page}"]
    where += [f"text {cite.excerpt} from character {cite.offset}", short(cite.artifact)]
    out.line(f"  {', '.join([*_ours(source, brought=brought), *where])}")


def _ours(source: Headline, *, brought: bool) -> tuple[str, ...]:
    """Return our words about a source; a result or an answer goes back to a brought packet."""
    if not brought or BROUGHT in source.marks:
        return source.ours
    return (*source.ours, f"goes back to a {BROUGHT} packet")


def _tell_nearest(out: Output, own: int) -> None:
    for words in (NEAREST,) if own else (NOTHING_CLAIMED, NEAREST):
        out.line()
        out.line(words)


def _tell_text(out: Output, heading: str, text: str) -> None:
    out.line()
    out.line(heading)
    out.foreign(text)


def _claims(analysis: Analysis) -> Iterator[tuple[Claim, str, list[str]]]:
    quotes = [quote.open_for_display() for quote in analysis.quotes]
    for claim, text in zip(analysis.claims, analysis.claim_texts, strict=True):
        own, quotes = quotes[: len(claim.cites)], quotes[len(claim.cites) :]
        yield claim, text.open_for_display(), own


def plain(analysis_id: str, analysis: Analysis, look: Lookup, brought: Brought) -> dict[str, Any]:
    """Return the analysis for scripts and pages."""
    by_model = 0 if analysis.method == EXTRACTIVE else own_claims(analysis)
    claims = [
        {
            "by": "model" if number <= by_model else "host",
            "text": text,
            "label": claim.label,
            "word_for_word": is_sentence(text, quotes),
            "brought": list(brought[number - 1]),
            "cites": [
                _plain_cite(cite, quote, look, brought=cite.artifact in brought[number - 1])
                for cite, quote in zip(claim.cites, quotes, strict=True)
            ],
        }
        for number, (claim, text, quotes) in enumerate(_claims(analysis), 1)
    ]
    return {
        "id": analysis_id,
        **checked(analysis),
        "method": analysis.method,
        "model": None if analysis.model is None else analysis.model.name,
        "sent_to": None if analysis.model is None else analysis.model.host,
        "question": analysis.question.open_for_display(),
        "answer": analysis.answer.open_for_display(),
        "claims": claims,
        "selection": list(analysis.selection),
        "derived_from": list(analysis.derived_from),
        "notes": [note.open_for_display() for note in analysis.notes],
    }


def _plain_cite(cite: Cite, quote: str, look: Lookup, *, brought: bool) -> dict[str, Any]:
    source = headline_of(cite.artifact, look)
    return {
        "artifact": cite.artifact,
        "source": source.text,
        "cautions": list(_ours(source, brought=brought)),
        "page": page_of(cite.artifact, cite.excerpt, look.read),
        "line": line_of(cite.artifact, cite.excerpt, cite.offset, look.read),
        "text": cite.excerpt,
        "offset": cite.offset,
        "length": cite.length,
        "quote": quote,
    }


def tell_drafts(out: Output, outcome: Outcome) -> None:
    """Print the drafts that wait for review, and the source that contains their words."""
    for number, (draft_id, request) in enumerate(outcome.stored.drafts):
        out.line()
        out.line(f"Draft {draft_id}, waits for review")
        for words in outcome.copied[number]:
            out.line(f"! {words}")
        out.foreign(request.purpose.open_for_display())


def plain_drafts(outcome: Outcome) -> dict[str, Any]:
    """Return drafts and what was refused, for scripts."""
    drafts = [
        {"id": draft_id, "state": "draft", "copied": list(outcome.copied[number])}
        for number, (draft_id, _) in enumerate(outcome.stored.drafts)
    ]
    return {"drafts": drafts, "told": list(outcome.notices), "withheld": outcome.withheld}
