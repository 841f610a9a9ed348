"""What is said about a packet before anything the packet says: does it stand, and whose is it.

Only our own words and digests: no text of a source is in what this module returns.
"""

from typing import Final

from threegate.artifacts.research_packet import ResearchPacket
from threegate.host.workspace.packets import RAW_FORGOTTEN, PacketOrigin

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
    """Return what a reader must know first, the worst first; most packets have none."""
    return (*_standing(packet, origin), *_origin(origin), *_anchors(packet))


def words(warned: tuple[str, ...]) -> tuple[str, ...]:
    """Return cautions in a word or two each, none of them twice."""
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
    if origin.is_brought:  # no source was asked here
        return (f"{word}: according to the packet itself",)
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
