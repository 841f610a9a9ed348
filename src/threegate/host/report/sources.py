"""Cards of the sources that an answer cites, and the second check of every quote in it.

SECURITY
    Opens titles and names of hostile sources for display.  Addresses and names of works are shown
    and never linked.  If this module is wrong, a report shows a quote as found that is not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from threegate.artifacts.analysis import Analysis, Cite
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.sources import LOCAL_SOURCES
from threegate.artifacts.tool_result import ToolResult
from threegate.base.forms import KINDS
from threegate.base.untrusted import Untrusted
from threegate.handoff.store import Store
from threegate.host.ask.labels import (
    NUMBER_DIFFERS,
    QUOTE_FOUND,
    SOURCE_RETRACTED,
    UNCHECKED,
    Quoted,
    labelled,
)
from threegate.host.bibliography.works import work_of
from threegate.host.provenance.headlines import (
    Headline,
    Lookup,
    Retracted,
    headline_of,
    retractions,
)
from threegate.host.provenance.texts import texts_of
from threegate.host.report.facts import Card, Fact
from threegate.host.workspace.index import Index
from threegate.host.workspace.packets import PacketOrigin
from threegate.host.workspace.places import ArtifactReader, is_forgotten, place_of

MOST_AUTHORS: Final = 20
_SCHEMES: Final = {"doi": "DOI", "arxiv": "arXiv", "pmid": "PubMed", "pmcid": "PubMed Central"}
WITHDRAWN: Final = "WITHDRAWN: it lies in quarantine here, with the reason"
FORGOTTEN: Final = "FORGOTTEN: its bytes were removed here; a signed tombstone says when"
GOES_BACK_TO_BROUGHT: Final = "BROUGHT: it goes back to a packet that was not retrieved here"
NOT_HERE: Final = "NOT HERE: this workspace does not have it"


def card_of(
    store: Store, look: Lookup, artifact_id: str, retracted: Retracted, brought: Retracted
) -> Card:
    """Return the card of a source."""
    artifact, headline = look.read(artifact_id), headline_of(artifact_id, look)
    origin = look.origins(artifact_id)
    loud = [*_loud(store, artifact_id, artifact)]
    if isinstance(artifact, ResearchPacket):
        loud += look.warned(artifact_id, artifact)
    elif artifact is not None:
        if retracted(artifact_id, 0):
            loud.append("RETRACTED: it goes back to a packet that was retracted")
        if brought(artifact_id, 0):
            loud.append(GOES_BACK_TO_BROUGHT)
    facts = tuple(_facts(headline, artifact, origin))
    return Card(headline, tuple(loud), facts, tuple(_digests(artifact_id, artifact, origin)))


def _loud(store: Store, artifact_id: str, artifact: Artifact | None) -> Iterator[str]:
    if artifact is None:
        yield FORGOTTEN if is_forgotten(store, artifact_id) else NOT_HERE
    elif store.locate(artifact_id) is None and place_of(store, artifact_id) is not None:
        yield WITHDRAWN


def _facts(headline: Headline, artifact: Artifact | None, origin: PacketOrigin) -> Iterator[Fact]:
    """Yield the bibliographic facts of a work; its title is the heading."""
    if isinstance(artifact, ResearchPacket):
        yield from _work(headline, artifact, origin)
    elif isinstance(artifact, ToolResult):
        yield Fact("kind", f"tool result, ended {artifact.exit}, lane {artifact.backend}")
    elif isinstance(artifact, Analysis):
        yield Fact("kind", "an earlier analysis, read back as any other source")
    else:
        yield Fact("kind", KINDS[prefix_of(headline.id)])


def _digests(artifact_id: str, artifact: Artifact | None, origin: PacketOrigin) -> Iterator[Fact]:
    """Yield the digests and addresses with which a source is checked."""
    yield Fact("id", artifact_id)
    if isinstance(artifact, ResearchPacket):
        yield Fact("origin", origin.words)
        yield from _named(artifact) if origin.is_brought else _retrieved(artifact)
    elif isinstance(artifact, ToolResult):
        yield Fact("request", artifact.request)
        yield Fact("started", artifact.started)
        yield Fact("outcome", f"sha256 {artifact.outcome_sha256}")
    elif isinstance(artifact, Analysis):
        yield Fact("stored", artifact.created)


def _work(headline: Headline, packet: ResearchPacket, origin: PacketOrigin) -> Iterator[Fact]:
    work = work_of(headline.id, packet, origin)
    names = [_line(name) for name in packet.authors]
    if not headline.is_whole:
        yield Fact("title", headline.title, foreign=True)
    if names:
        more = f" and {len(names) - MOST_AUTHORS} more" if len(names) > MOST_AUTHORS else ""
        yield Fact("authors", "; ".join(names[:MOST_AUTHORS]) + more, foreign=True)
    if packet.container is not None:
        yield Fact("in", _line(packet.container), foreign=True)
    if packet.published is not None:
        yield Fact("published", packet.published)
    for scheme, reference in work.names.items():
        yield Fact(_SCHEMES.get(scheme, scheme), reference.value, foreign=True)
    yield Fact("standing", _standing(packet, origin))
    for notice in packet.notices:
        said = [_line(one) for one in (notice.label, notice.notice) if one is not None]
        by = "the packet itself" if origin.is_brought else notice.source
        yield Fact(f"{notice.status} by {by}", ", ".join(said) or "-", foreign=True)
    if packet.hazards:
        shown = ", ".join(f"{one.count} x {one.name}" for one in packet.hazards)
        yield Fact("found in it", shown)


def _retrieved(packet: ResearchPacket) -> Iterator[Fact]:
    if packet.source in LOCAL_SOURCES:
        yield Fact("file", _line(packet.reference), foreign=True)
        yield Fact("imported", packet.retrieved)
    else:
        yield Fact("asked for", _line(packet.reference), foreign=True)
        yield Fact("address", packet.url, foreign=True)
        yield Fact("retrieved", f"{packet.retrieved}, by {packet.source}")
    yield Fact("raw bytes", f"{packet.raw_bytes}, sha256 {packet.raw_sha256}")
    for also in packet.also:
        yield Fact("and", f"{also.source}, {also.retrieved}, sha256 {also.sha256}")


def _named(packet: ResearchPacket) -> Iterator[Fact]:
    """No source was asked, so none is named: what the packet says of that is its own claim."""
    yield Fact("address it names", packet.url, foreign=True)
    yield Fact("raw bytes it names", f"{packet.raw_bytes}, sha256 {packet.raw_sha256}")


def _standing(packet: ResearchPacket, origin: PacketOrigin) -> str:
    if origin.is_brought:
        return "not known: no source was asked here whether it was retracted"
    if packet.retraction == "unknown":
        return "not known: nobody could be asked whether it was retracted"
    return "no retraction known at retrieval" if packet.retraction == "none" else packet.retraction


def _line(text: Untrusted[str]) -> str:
    return " ".join(text.open_for_display().split())


# Every quote of an analysis is looked up again, so that a report shows no more than is found now.
#
# An analysis may come from elsewhere with any label in it, and a source may be withdrawn,
# forgotten or retracted after the answer. Labels are computed again, and the lesser of both is
# shown.
#
# SECURITY: compares foreign texts and trusts no label. If this is wrong, a report vouches for a
# quote that its source does not have.

FOUND: Final = "found again at its place"
NOT_FOUND: Final = "NOT FOUND at its place"
GONE: Final = "not looked up: its source is not here any more"

# From the most that can be said to the least.
ORDER: Final = (QUOTE_FOUND, NUMBER_DIFFERS, UNCHECKED, SOURCE_RETRACTED)

Read = Callable[[str], Artifact | None]


@dataclass(frozen=True, slots=True)
class Rechecked:
    """A claim, its label now, and the place of each of its quotes."""

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
    """Return whether a quote is found at its place."""
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
        return UNCHECKED  # a claim with one missing quote is unchecked
    return label
