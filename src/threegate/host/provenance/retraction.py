"""Whether a work was retracted, over all packets of it in this workspace.

A retraction is often known to one packet only: the registry's record says so, the full text
fetched before does not.  So every look goes over all packets that share an identifier, and it
is repeated whenever an answer is shown: a packet fetched later marks the answers made before.

SECURITY
    Reads identifiers that sources state.  If this module is wrong, a claim that rests on a
    retracted work looks well founded.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

from threegate.artifacts.analysis import CLAIM_LABELS, Analysis
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.handoff.store import Store
from threegate.host.provenance.headlines import Headline, Lookup, Read, cautions, headline_of
from threegate.host.provenance.texts import origin_of
from threegate.host.workspace.index import Index
from threegate.host.workspace.packets import Origins, names_of
from threegate.host.workspace.places import read_anywhere

SOURCE_RETRACTED = CLAIM_LABELS[3]
RESTS_ON_RETRACTED = SOURCE_RETRACTED.upper()  # the mark of an answer in a list

Retracted = Callable[[str, int], bool]  # artifact and number of its text


def retractions(store: Store, index: Index) -> Retracted:
    """Return how to tell whether a text goes back to a packet whose work was retracted."""

    @cache
    def packet(packet_id: str) -> bool:
        artifact = read_anywhere(store, packet_id)
        return isinstance(artifact, ResearchPacket) and is_retracted(index, artifact)

    return _goes_back(store, packet, SOURCE_RETRACTED)


def brought(store: Store, origins: Origins) -> Retracted:
    """Return how to tell whether a text goes back to a packet that was brought."""
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
    """Return how to tell whether a text goes back to a packet of some kind.

    A claim of an earlier analysis with this `label` does so in any case.
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
            # Not all that it could read, unless it does not say what it rests on.
            behind = [cite.artifact for cite in claim.cites] or behind
        found = {*behind, *origin_of(store, behind).derived_from}
        return any(packet(one) for one in found if prefix_of(one) == "rp")

    return goes_back


def is_retracted(index: Index, packet: ResearchPacket) -> bool:
    """Tell whether this packet, or another one of the same work, says that it was retracted."""
    return packet.retraction == "retracted" or any(index.same_work(names_of(packet)).values())


def warnings(index: Index, packet_id: str, packet: ResearchPacket) -> tuple[str, ...]:
    """Return what a reader must know of a packet first, other packets of its work included."""
    own = cautions(packet, index.origin(packet_id))
    if packet.retraction == "retracted":
        return own
    saying = [one for one, said in index.same_work(names_of(packet)).items() if said]
    if not saying:
        return own
    return (f"RETRACTED: according to {short(saying[0])}, another packet of this work", *own)


def lookup(read: Read, index: Index) -> Lookup:
    """Return how a view learns of artifacts, with what other packets of a work say of it."""
    return Lookup(read, index.origin, partial(warnings, index))


def marked(headline: Headline, artifact: Artifact | None, retracted: Retracted) -> Headline:
    """Return the headline of an answer with the mark that it rests on a retracted work."""
    if isinstance(artifact, Analysis) and _rests_on(artifact, retracted):
        return replace(headline, marks=(RESTS_ON_RETRACTED, *headline.marks))
    return headline


def repeats_noted(index: Index, page: dict[str, Headline]) -> dict[str, Headline]:
    """Return a page of headlines; a packet of a work that is listed above it says so."""
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
    """Return those answers by their questions."""
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
