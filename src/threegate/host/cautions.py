"""What is said about a packet before anything the packet says: does it stand, and whose is it.

Only our own words and digests: no text of a source is in what this module returns.
"""

from typing import Final

from threegate.artifacts.research_packet import ResearchPacket

TEST_SOURCE: Final = "TEST SOURCE"
_STANDING: Final = {
    "retracted": "RETRACTED",
    "concern": "EXPRESSION OF CONCERN",
    "corrected": "CORRECTED",
}


def cautions(packet: ResearchPacket) -> tuple[str, ...]:
    """Return what a reader must know first, the worst first; most packets have none."""
    return (*_standing(packet), *_anchors(packet))


def words(packet: ResearchPacket) -> tuple[str, ...]:
    """Return the same in a word or two each, none of them twice."""
    return tuple(dict.fromkeys(text.partition(":")[0] for text in cautions(packet)))


def _standing(packet: ResearchPacket) -> tuple[str, ...]:
    word = _STANDING.get(packet.retraction)
    if word is None:
        return ()
    sources = sorted({notice.source for notice in packet.notices})
    return (f"{word}: according to {', '.join(sources) or 'its source'}",)


def _anchors(packet: ResearchPacket) -> tuple[str, ...]:
    """Whoever holds another authority's key can be any host: it is no source of the web."""
    used = {packet.trust_anchor, *(also.trust_anchor for also in packet.also)} - {"system"}
    return tuple(
        f"{TEST_SOURCE}: its certificate was checked against {anchor[:12]}, not against the "
        "authorities of this system"
        for anchor in sorted(used)
    )
