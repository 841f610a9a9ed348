"""A packet against what the host knows itself: what a box says about the retrieval must be it.

A packet is made in a box that has just read hostile bytes.  What it says about the work is
what the sources say, and external; what it says about where and when its bytes came from must
be what the host wrote into the record, field by field.

SECURITY
    If this module is wrong, a packet may claim another source, another URL, another time,
    other raw bytes or a weaker label than it has.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.research_packet import Also, Hop, ResearchPacket
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import Answer, RetrievalRecord

NOT_A_PACKET: Final = "TG-FET-070"
NOT_THE_RECORD: Final = "TG-FET-071"
GAP_CHARS: Final = 500  # of a reference in a gap


def parse_packet(data: Untrusted[bytes], record: RetrievalRecord) -> ResearchPacket:
    """Return the packet in `data` if it is one of this record, or raise `ArtifactRejected`."""
    packet = registry.parse(data)
    if not isinstance(packet, ResearchPacket):
        raise ArtifactRejected("the box made something else than a packet", code=NOT_A_PACKET)
    for name, wrong in _differences(packet, record):
        if wrong:
            detail = f"the packet does not say what was retrieved: {name}"
            raise ArtifactRejected(detail, code=NOT_THE_RECORD)
    return packet


def _differences(packet: ResearchPacket, record: RetrievalRecord) -> Iterator[tuple[str, bool]]:
    yield "reference", packet.reference.open_for_validation() != record.reference
    yield "request", packet.request != record.request
    yield "confidentiality", packet.confidentiality != record.confidentiality
    yield "record_sha256", packet.record_sha256 != sha256_hex(record.to_bytes())
    main = next((item for item in record.answers if _is_main(packet, item)), None)
    yield "the answer it is about", main is None
    others = [item for item in record.answers if item is not main]
    yield "also", packet.also != tuple(_also(item) for item in others)
    yield "gaps", not _tells_gaps(packet, record)
    heard = {item.source for item in record.answers}
    yield "metadata_from", not {item.source for item in packet.metadata_from} <= heard
    yield "notices", not {item.source for item in packet.notices} <= heard


def _is_main(packet: ResearchPacket, answer: Answer) -> bool:
    said = (packet.source, packet.url, packet.hops, packet.retrieved, packet.media_type)
    said_bytes = (packet.raw_sha256, packet.raw_bytes, packet.trust_anchor)
    hops = tuple(Hop(url, status) for url, status in answer.hops)
    known = (answer.source, answer.url, hops, answer.retrieved, answer.read_as)
    return (said, said_bytes) == (known, (answer.sha256, answer.bytes, answer.trust_anchor))


def _also(answer: Answer) -> Also:
    return Also(
        answer.source,
        answer.url,
        answer.retrieved,
        answer.sha256,
        answer.bytes,
        answer.trust_anchor,
    )


def _tells_gaps(packet: ResearchPacket, record: RetrievalRecord) -> bool:
    """Tell whether nothing asked in vain is missing, and what is added is about an answer."""
    told = Counter(
        (item.source, item.reference.open_for_validation(), item.reason) for item in packet.gaps
    )
    known = {(item.source, item.reference[:GAP_CHARS], item.reason) for item in record.misses}
    added = {source for source, _, _ in told.keys() - known}
    return known <= told.keys() and added <= {item.source for item in record.answers}
