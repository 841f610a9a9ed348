"""Headlines of artifacts and what must be said with them: cautions about packets, and retraction.

A headline is the words a reader knows an artifact by, for lists, answers and reports: a packet is
`Title (First Author et al., 2021)`, a request its purpose, a result the purpose of its request, an
analysis its question.  The id follows a headline; it does not replace it.

Cautions are shown before anything a packet says: retracted or corrected, brought by the operator,
from a test source.  They contain only our own words and digests, no text of a source.

A retraction is often known to one packet only: the registry's record says so, the full text fetched
before does not.  So every check covers all packets that share an identifier, and it is repeated
whenever an answer is shown: a packet fetched later marks the answers made before.

SECURITY
    Opens titles, names, purposes and questions that strangers wrote.  `title`, `by` and `text` are
    foreign and on one line; every view spells them out and sets them apart (last in the line,
    behind a gutter, or in their own element).  `marks` and `note` are our words.  Everything comes
    from the artifact's checked file, never from the index.
    Reads identifiers that sources state.  If this module is wrong, a claim that rests on a
    retracted work looks well founded.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final

from threegate.artifacts.analysis import CLAIM_LABELS, Analysis
from threegate.artifacts.approval import Approval
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_result import ToolResult
from threegate.handoff.store import Store
from threegate.host.provenance.texts import origin_of
from threegate.host.workspace.index import Index
from threegate.host.workspace.packets import RAW_FORGOTTEN, Origins, PacketOrigin, names_of
from threegate.host.workspace.places import read_anywhere

# Cautions about a packet, shown before its own words: is it retracted, and where is it from.
#
# Only our own words and digests; no text of a source.

RETRACTED: Final = "RETRACTED"
TEST_SOURCE: Final = "TEST SOURCE"
BROUGHT: Final = "BROUGHT"
BYTES_FORGOTTEN: Final = "RAW BYTES FORGOTTEN"
_STANDING: Final = {
    "retracted": RETRACTED,
    "concern": "EXPRESSION OF CONCERN",
    "corrected": "CORRECTED",
}


def cautions(packet: ResearchPacket, origin: PacketOrigin) -> tuple[str, ...]:
    """Return the cautions about a packet, the worst first; most packets have none."""
    return (*_standing(packet, origin), *_origin(origin), *_anchors(packet))


def caution_words(warned: tuple[str, ...]) -> tuple[str, ...]:
    """Return each caution in one or two words, without repetition."""
    return tuple(dict.fromkeys(text.partition(":")[0] for text in warned))


def _origin(origin: PacketOrigin) -> tuple[str, ...]:
    if origin.name == RAW_FORGOTTEN:
        return (f"{BYTES_FORGOTTEN}: {origin.words}",)
    if not origin.is_brought:
        return ()
    agrees = "; it agrees with the record and raw bytes that came with it"
    more = agrees if origin.consistent else ""
    return (f"{BROUGHT}: somebody admitted this file; it was not retrieved here{more}",)


def _standing(packet: ResearchPacket, origin: PacketOrigin) -> tuple[str, ...]:
    word = _STANDING.get(packet.retraction)
    if word is None:
        return ()
    if origin.is_brought:  # this workspace asked no source
        return (f"{word}: according to the packet itself",)
    sources = sorted({notice.source for notice in packet.notices})
    return (f"{word}: according to {', '.join(sources) or 'its source'}",)


def _anchors(packet: ResearchPacket) -> tuple[str, ...]:
    """Warn of other authorities: the owner of such a key can impersonate any host."""
    used = {packet.trust_anchor, *(also.trust_anchor for also in packet.also)} - {"none", "system"}
    return tuple(
        f"{TEST_SOURCE}: its certificate was checked against {anchor[:12]}, not against the "
        "authorities of this system"
        for anchor in sorted(used)
    )


TITLE_CHARS: Final = 160
NAME_CHARS: Final = 60
ABSENT: Final = "is no longer here"
# Publishers put the word into the title; next to our own mark it would be said twice.
_SAID_ALREADY: Final = re.compile(
    r"\A(?:[\[(]?\s*retracted(?: article| paper)?\s*(?:[\])]\s*:?|:)\s*)+", re.IGNORECASE
)

Read = Callable[[str], Artifact | None]
Warned = Callable[[str, ResearchPacket], tuple[str, ...]]  # cautions about a packet, worst first


@dataclass(frozen=True, slots=True)
class Lookup:
    """Access of a view to artifacts: their content, and the origin and cautions of packets."""

    read: Read
    origins: Origins
    warned: Warned


@dataclass(frozen=True, slots=True)
class Headline:
    """The headline of one artifact; `marks` must be shown wherever `text` is."""

    id: str
    title: str = ""  # foreign, whole
    by: str = ""  # foreign: first author and year
    marks: tuple[str, ...] = ()  # ours: cautions in short
    note: str = ""  # ours: how a run ended, that it is missing, or another packet of its work

    @property
    def text(self) -> str:
        """The headline itself: foreign text on one line, cut."""
        title = unmarked(self.title) if RETRACTED in self.marks else self.title
        return f"{_cut(title, TITLE_CHARS)} ({self.by})" if self.by else _cut(title, TITLE_CHARS)

    @property
    def is_whole(self) -> bool:
        """Tell whether `text` holds the whole title."""
        return len(self.title) <= TITLE_CHARS

    @property
    def ours(self) -> tuple[str, ...]:
        """Marks and note, in this order."""
        return (*self.marks, self.note) if self.note else self.marks


def headline_of(artifact_id: str, look: Lookup) -> Headline:
    """Return the headline of an artifact, or that it is missing."""
    return headline_for(artifact_id, look.read(artifact_id), look)


def headline_for(artifact_id: str, artifact: Artifact | None, look: Lookup) -> Headline:
    """Return the headline of an artifact that was read already."""
    if artifact is None:
        return Headline(artifact_id, note=ABSENT)
    if isinstance(artifact, ResearchPacket):
        return packet_headline(artifact_id, artifact, look.warned(artifact_id, artifact))
    if isinstance(artifact, Analysis):
        return Headline(artifact_id, _line(artifact.question.open_for_display()))
    if isinstance(artifact, ToolResult):
        request = headline_of(artifact.request, look)
        return Headline(artifact_id, request.title, note=f"ended {artifact.exit}")
    if isinstance(artifact, Approval):
        return Headline(artifact_id, headline_of(artifact.request, look).title)
    return Headline(artifact_id, _line(artifact.purpose.open_for_display()))


def packet_headline(packet_id: str, packet: ResearchPacket, warned: tuple[str, ...]) -> Headline:
    """Return the headline of a packet; without a title it is the reference."""
    title = _line(packet.title.open_for_display()) or _line(packet.reference.open_for_display())
    return Headline(packet_id, title, _by(packet), caution_words(warned))


def own_words(read: Read, origins: Origins) -> Lookup:
    """Return a lookup without an index: it knows of a packet only what the packet says."""
    return Lookup(read, origins, lambda one, packet: cautions(packet, origins(one)))


def unmarked(title: str) -> str:
    """Return a title without its own `RETRACTED`, unless it consists of nothing else."""
    return _SAID_ALREADY.sub("", title) or title


def page_of(artifact_id: str, number: int, read: Read) -> int | None:
    """Return the page of the numbered text of a packet, where the source has pages."""
    packet = read(artifact_id)
    if not isinstance(packet, ResearchPacket) or not 0 < number <= len(packet.excerpts):
        return None
    return packet.excerpts[number - 1].page


def _by(packet: ResearchPacket) -> str:
    year = (packet.published or "").partition("-")[0]
    names = [name for name in (_line(one.open_for_display()) for one in packet.authors[:1]) if name]
    if names:
        # `Family, Given` is cited by family; no other order is guessed.
        first = _cut(names[0].partition(",")[0].strip() or names[0], NAME_CHARS)
        names = [f"{first} et al." if len(packet.authors) > 1 else first]
    return ", ".join([*names, year] if year else names)


def _line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


SOURCE_RETRACTED = CLAIM_LABELS[3]
RESTS_ON_RETRACTED = SOURCE_RETRACTED.upper()  # the mark of an answer in a list

Retracted = Callable[[str, int], bool]  # artifact and number of its text


def retractions(store: Store, index: Index) -> Retracted:
    """Return a test whether a text goes back to a packet whose work was retracted."""

    @cache
    def packet(packet_id: str) -> bool:
        artifact = read_anywhere(store, packet_id)
        return isinstance(artifact, ResearchPacket) and is_retracted(index, artifact)

    return _goes_back(store, packet, SOURCE_RETRACTED)


def brought(store: Store, origins: Origins) -> Retracted:
    """Return a test whether a text goes back to a packet that was brought."""
    return _goes_back(store, lambda packet_id: origins(packet_id).is_brought)


def brought_cites(analysis: Analysis, is_brought: Retracted) -> tuple[tuple[str, ...], ...]:
    """Return for each claim the artifacts it cites that are, or go back to, brought packets."""
    return tuple(
        tuple(
            dict.fromkeys(
                cite.artifact for cite in claim.cites if is_brought(cite.artifact, cite.excerpt)
            )
        )
        for claim in analysis.claims
    )


def _goes_back(store: Store, packet: Callable[[str], bool], label: str | None = None) -> Retracted:
    """Return a test whether a text goes back to a packet of some kind.

    A claim of an earlier analysis with this `label` always does.
    """

    def goes_back(artifact_id: str, number: int) -> bool:
        if prefix_of(artifact_id) == "rp":
            return packet(artifact_id)
        artifact = read_anywhere(store, artifact_id)
        behind = [artifact_id]
        if isinstance(artifact, Analysis) and 1 <= number <= len(artifact.claims):
            claim = artifact.claims[number - 1]
            if claim.label == label:
                return True
            # Only its citations; everything that it could read if it has none.
            behind = [cite.artifact for cite in claim.cites] or behind
        found = {*behind, *origin_of(store, behind).derived_from}
        return any(packet(one) for one in found if prefix_of(one) == "rp")

    return goes_back


def is_retracted(index: Index, packet: ResearchPacket) -> bool:
    """Tell whether this packet, or another one of the same work, says that it was retracted."""
    return packet.retraction == "retracted" or any(index.same_work(names_of(packet)).values())


def warnings(index: Index, packet_id: str, packet: ResearchPacket) -> tuple[str, ...]:
    """Return the cautions about a packet, including what other packets of its work say."""
    own = cautions(packet, index.origin(packet_id))
    if packet.retraction == "retracted":
        return own
    saying = [one for one, said in index.same_work(names_of(packet)).items() if said]
    if not saying:
        return own
    return (f"RETRACTED: according to {short(saying[0])}, another packet of this work", *own)


def lookup(read: Read, index: Index) -> Lookup:
    """Return a lookup that includes what other packets of a work say."""
    return Lookup(read, index.origin, partial(warnings, index))


def marked(headline: Headline, artifact: Artifact | None, retracted: Retracted) -> Headline:
    """Return the headline of an answer with the mark that it rests on a retracted work."""
    if isinstance(artifact, Analysis) and _rests_on(artifact, retracted):
        return replace(headline, marks=(RESTS_ON_RETRACTED, *headline.marks))
    return headline


def repeats_noted(index: Index, page: dict[str, Headline]) -> dict[str, Headline]:
    """Return a page of headlines with a note on packets whose work is listed above."""
    place, noted = {one: number for number, one in enumerate(page)}, dict(page)
    for packet_id, same in index.works_among(page).items():
        first = min(same, key=place.__getitem__)
        if place[first] < place[packet_id] and not page[packet_id].note:
            note = f"same work as {short(first)}"
            noted[packet_id] = replace(page[packet_id], note=note)
    return noted


def copies(store: Store, index: Index, artifact_id: str) -> list[str]:
    """Return the other packets of the work that a packet is about."""
    packet = read_anywhere(store, artifact_id) if prefix_of(artifact_id) == "rp" else None
    if not isinstance(packet, ResearchPacket):
        return []
    return [one for one in index.same_work(names_of(packet)) if one != artifact_id]


def answers_on_retracted(store: Store, index: Index) -> list[str]:
    """Return the answers with a claim that rests on a retracted work, oldest first."""
    retracted = retractions(store, index)
    return [
        analysis_id
        for analysis_id in _behind_retracted(store, index)
        if _rests_on(store.read(analysis_id), retracted)
    ]


def headlines_on_retracted(store: Store, index: Index) -> list[Headline]:
    """Return the headlines of these answers."""
    look = lookup(partial(read_anywhere, store), index)
    return [headline_of(one, look) for one in answers_on_retracted(store, index)]


def _rests_on(artifact: object, retracted: Retracted) -> bool:
    assert isinstance(artifact, Analysis)
    cites = {(cite.artifact, cite.excerpt) for claim in artifact.claims for cite in claim.cites}
    return any(retracted(*cite) for cite in cites)


def _behind_retracted(store: Store, index: Index) -> Iterator[str]:
    """Yield every answer that was made from a packet of a retracted work, each once."""
    seen: set[str] = set()
    for packet_id in index.retracted():
        packet = read_anywhere(store, packet_id)
        assert isinstance(packet, ResearchPacket)
        for one in {packet_id, *index.same_work(names_of(packet))} - seen:
            seen.add(one)
            for made in index.derived_from(one):
                if prefix_of(made) == "an" and made not in seen and store.locate(made):
                    seen.add(made)
                    yield made
