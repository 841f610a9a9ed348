"""Packets that somebody admits, compared with the retrieval record that is here.

A packet that names a record of this workspace is remade from that record and its raw bytes.  A
difference is refused.  An equal packet is as retrieved as the record is.

SECURITY
    Reads packets that anybody may have written, and starts the normalize sandboxes for those
    alone whose record is here.  If this module is wrong, an edited packet is accepted, or a
    record that nobody retrieved makes a packet look retrieved.
"""

from typing import Final

from threegate.artifacts.ids import prefix_of
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import ArtifactRejected
from threegate.handoff.admission import (
    ADMIT_CONSISTENT,
    ADMIT_RETRIEVED,
    NOT_ITS_RECORD,
    Packets,
    Vouched,
)
from threegate.host.fetch.remake import DIFFERENT, SAME, Candidate, Remade, compare, kept_raw
from threegate.host.workspace.index import Index
from threegate.host.workspace.origin import UNKNOWN, PacketOrigin
from threegate.host.workspace.places import read_anywhere
from threegate.host.workspace.workspace import Workspace

_HINT: Final = "the packet was edited, or another version of this program made it"


def compared(ws: Workspace, packets: Packets) -> dict[str, Vouched | ArtifactRejected]:
    """Return how packets are stored that are equal to what their record makes, or a refusal.

    A packet whose raw bytes are not all here is left out.
    """
    raw = kept_raw(ws.store)
    candidates = (Candidate(key, data, one, raw) for key, (data, one) in packets.items())
    found: dict[str, Vouched | ArtifactRejected] = {}
    for few in compare(ws.bundle, candidates, count=len(packets)):
        for one in few:
            if one.verdict == DIFFERENT:
                found[one.packet_id] = refusal(one)
            elif one.verdict == SAME:
                record = packets[one.packet_id][1].record_sha256
                assert record is not None, "else it could not be made"
                found[one.packet_id] = vouched(_origin_of_record(ws, record))
    return found


def refusal(one: Remade) -> ArtifactRejected:
    """Return the refusal of a packet that differs from what its record makes."""
    detail = f"it differs from what its retrieval record and raw bytes make: {one.why}"
    return ArtifactRejected(detail, code=NOT_ITS_RECORD, hint=_HINT)


def vouched(origin: PacketOrigin) -> Vouched:
    """Return how an equal packet of this origin is stored."""
    if origin.is_brought:
        return Vouched(ADMIT_CONSISTENT, {})
    return Vouched(ADMIT_RETRIEVED, {"by": origin.by} if origin.by else {})


def _origin_of_record(ws: Workspace, record: str) -> PacketOrigin:
    """Return the origin of the packets that were stored with a record.

    That its bytes are here proves nothing: an input of a request may have brought them, and a
    page that was fetched may be spelled like a record.
    """
    index = Index(ws.store)
    try:
        index.catch_up()
        for holder in index.holders_of(record):
            packet = read_anywhere(ws.store, holder) if prefix_of(holder) == "rp" else None
            is_its_record = isinstance(packet, ResearchPacket) and packet.record_sha256 == record
            origin = index.origin(holder)
            if is_its_record and not origin.is_brought:
                return origin
    finally:
        index.close()
    return UNKNOWN
