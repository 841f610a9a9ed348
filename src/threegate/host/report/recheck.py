"""Every quote of an analysis looked up again: what is shown says no more than what is found now.

An analysis may come from elsewhere with any label in it, and a source may be withdrawn,
forgotten or retracted after the answer.  So labels are worked out anew, and the lesser of
both is shown.

SECURITY
    Compares foreign texts and believes no label.  If this module is wrong, a report vouches
    for a quote that its source does not have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from threegate.artifacts.analysis import Analysis, Cite
from threegate.artifacts.registry import Artifact
from threegate.handoff.store import Store
from threegate.host.ask.labels import (
    NUMBER_DIFFERS,
    QUOTE_FOUND,
    SOURCE_RETRACTED,
    UNCHECKED,
    labelled,
)
from threegate.host.ask.quotes import Quoted
from threegate.host.provenance.retraction import Retracted, retractions
from threegate.host.provenance.texts import texts_of
from threegate.host.workspace.index import Index
from threegate.host.workspace.places import ArtifactReader

FOUND: Final = "found again at its place"
NOT_FOUND: Final = "NOT FOUND at its place"
GONE: Final = "not looked up: its source is not here any more"

# From the most that can be said to the least.
ORDER: Final = (QUOTE_FOUND, NUMBER_DIFFERS, UNCHECKED, SOURCE_RETRACTED)

Read = Callable[[str], Artifact | None]


@dataclass(frozen=True, slots=True)
class Rechecked:
    """A claim, the label it may be shown with, and where each of its quotes stands."""

    label: str
    stored: str
    text: str  # foreign
    quotes: tuple[tuple[Cite, str, str], ...]  # place, foreign text, standing


def recheck(analysis: Analysis, read: Read, retracted: Retracted) -> list[Rechecked]:
    """Return every claim with the label that holds now."""
    quotes = [quote.open_for_validation() for quote in analysis.quotes]
    found = []
    for claim, boxed in zip(analysis.claims, analysis.claim_texts, strict=True):
        own, quotes = quotes[: len(claim.cites)], quotes[len(claim.cites) :]
        text = boxed.open_for_validation()
        standings = [
            standing(cite, quote, read) for cite, quote in zip(claim.cites, own, strict=True)
        ]
        now = _label_now(text, claim.cites, own, standings, retracted)
        label = max(now, claim.label, key=ORDER.index)
        placed = tuple(zip(claim.cites, own, standings, strict=True))
        found.append(Rechecked(label, claim.label, text, placed))
    return found


def relabelled(store: Store, index: Index, analysis: Analysis) -> Analysis:
    """Return the analysis with the labels that hold now in place of the stored ones."""
    found = recheck(analysis, ArtifactReader(store), cache(retractions(store, index)))
    claims = [
        replace(claim, label=now.label) for claim, now in zip(analysis.claims, found, strict=True)
    ]
    return replace(analysis, claims=tuple(claims))


def standing(cite: Cite, quote: str, read: Read) -> str:
    """Tell whether a quote stands at its place."""
    artifact = read(cite.artifact)
    if artifact is None:
        return GONE
    texts = texts_of(artifact)
    if not 1 <= cite.excerpt <= len(texts):
        return NOT_FOUND
    text = texts[cite.excerpt - 1].open_for_validation()
    there = text[cite.offset : cite.offset + cite.length]
    return FOUND if there == quote else NOT_FOUND


def _label_now(
    text: str,
    cites: Sequence[Cite],
    quotes: Sequence[str],
    standings: Sequence[str],
    retracted: Retracted,
) -> str:
    quoted = [Quoted(cite, quote) for cite, quote in zip(cites, quotes, strict=True)]
    label = labelled(text, quoted, retracted).label
    if label != SOURCE_RETRACTED and any(one != FOUND for one in standings):
        return UNCHECKED  # one quote that nobody found leaves the claim without its ground
    return label
