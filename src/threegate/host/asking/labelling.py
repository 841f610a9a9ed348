"""What is said of a claim: the most that was checked, and nothing more.

| label | what was checked |
|---|---|
| `source retracted` | a packet it rests on was retracted, whatever else holds |
| `unchecked` | it rests on no quote |
| `number differs` | a number of the claim stands in none of its quotes |
| `quote found` | its quotes stand in their sources, and its numbers in the quotes |

A claim that rests on a claim of an earlier analysis is no better founded than that one.

SECURITY
    Looks at claims a model wrote and at names of works that sources state.  If this module is
    wrong, a claim looks better founded than it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from threegate.artifacts.analysis import CLAIM_LABELS, Analysis
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.research_packet import ResearchPacket
from threegate.handoff.store import Store
from threegate.host.asking.deriving import origin_of
from threegate.host.asking.numbers import differing
from threegate.host.asking.quoting import Quoted
from threegate.host.index import Index
from threegate.host.places import read_anywhere

QUOTE_FOUND, NUMBER_DIFFERS, UNCHECKED, SOURCE_RETRACTED = CLAIM_LABELS
MAX_COPIES = 16  # packets of the same work that are looked at

Retracted = Callable[[str, int], bool]  # artifact and number of its text


@dataclass(frozen=True, slots=True)
class Checked:
    """A claim with its label and the quotes it rests on."""

    text: str  # foreign
    label: str
    quotes: tuple[Quoted, ...]


def labelled(text: str, quotes: Sequence[Quoted], retracted: Retracted) -> Checked:
    """Return a claim with its label."""
    kept = tuple(quotes)
    if any(retracted(one.cite.artifact, one.cite.excerpt) for one in kept):
        return Checked(text, SOURCE_RETRACTED, kept)
    if not kept:
        return Checked(text, UNCHECKED, ())
    behind = {one.label for one in kept}
    if UNCHECKED in behind:
        return Checked(text, UNCHECKED, kept)
    if NUMBER_DIFFERS in behind or differing(text, [one.text for one in kept]):
        return Checked(text, NUMBER_DIFFERS, kept)
    return Checked(text, QUOTE_FOUND, kept)


def is_sentence(text: str, quotes: Sequence[str]) -> bool:
    """Tell whether a claim is its only quote, word for word: whoever chose it, no words are new."""
    return list(quotes) == [text]


def counts(labels: Sequence[str]) -> dict[str, int]:
    """Return how many claims have each label, in the order of the table."""
    return {label: labels.count(label) for label in CLAIM_LABELS}


def retractions(store: Store, index: Index) -> Retracted:
    """Return how to tell whether a text goes back to a packet that was retracted."""
    known: dict[str, bool] = {}

    def packet(packet_id: str) -> bool:
        if packet_id not in known:
            artifact = read_anywhere(store, packet_id)
            known[packet_id] = isinstance(artifact, ResearchPacket) and _is_retracted(
                store, index, artifact
            )
        return known[packet_id]

    def retracted(artifact_id: str, number: int) -> bool:
        if prefix_of(artifact_id) == "rp":
            return packet(artifact_id)
        artifact = read_anywhere(store, artifact_id)
        behind = [artifact_id]
        if isinstance(artifact, Analysis) and 1 <= number <= len(artifact.claims):
            claim = artifact.claims[number - 1]
            if claim.label == SOURCE_RETRACTED:
                return True
            # Not all that it could read, unless it does not say what it rests on.
            behind = [cite.artifact for cite in claim.cites] or behind
        found = origin_of(store, behind).derived_from
        return any(packet(one) for one in found if prefix_of(one) == "rp")

    return retracted


def _is_retracted(store: Store, index: Index, packet: ResearchPacket) -> bool:
    """Tell whether this packet, or another one of the same work, says that it was retracted."""
    if packet.retraction == "retracted":
        return True
    names = [one.value.open_for_validation() for one in packet.identifiers if one.scheme == "doi"]
    for name in names:
        for row in index.search(f'"{name}"', ("rp",), limit=MAX_COPIES, skip=0):
            other = store.read(row.id)
            assert isinstance(other, ResearchPacket)
            same = {one.value.open_for_validation().lower() for one in other.identifiers}
            if name.lower() in same and other.retraction == "retracted":
                return True
    return False
