"""Remaking of packets from their records and raw bytes, to compare stored and admitted packets.

A packet is a pure function of its retrieval record and raw bytes, and both are stored.  So it can
be checked later that nothing was added, omitted or changed: a sandbox of the same kind reads the
same bytes, and the result is compared byte for byte.  `remake` stores only the verdict, in the
audit log.  A packet that is admitted and names a record of this workspace is remade in the same
way: a difference is refused, and an equal packet has the origin of the record.

SECURITY
    Reads packets from any origin and hands hostile bytes to sandboxes again, in the same way as
    when they were new; only packets whose record is here start one.  The results are only compared.
    If this module is wrong, an edited packet is accepted, or a forged record makes a packet look
    retrieved.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from queue import SimpleQueue
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import ArtifactRejected, ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import parse_record
from threegate.handoff import states
from threegate.handoff.admission import (
    ADMIT_CONSISTENT,
    ADMIT_RETRIEVED,
    IMPORT,
    NOT_ITS_RECORD,
    Packets,
    Vouched,
)
from threegate.handoff.store import Store
from threegate.host.fetch.normalize_pool import (
    MAKERS,
    Answered,
    Makers,
    NormalizeJob,
    Stopped,
    Told,
    job_for,
)
from threegate.host.fetch.scans import missing_engine
from threegate.host.workspace.index import Index
from threegate.host.workspace.packets import IMPORTED, UNKNOWN, PacketOrigin
from threegate.host.workspace.places import read_anywhere
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import find_machine

SAME: Final = "same"
DIFFERENT: Final = "different"
CANNOT: Final = "cannot"  # its record or raw bytes, or the engine that read it, are not here
KIND: Final = "packet.remake"


Raw = Callable[[str], bytes | None]  # the raw bytes with this digest, None if they are not here


@dataclass(frozen=True, slots=True)
class Remade:
    """Verdict on one packet; `why` names differing fields or missing parts."""

    packet_id: str
    verdict: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class RemakeCandidate:
    """A packet to remake, and a reader of its raw bytes."""

    packet_id: str
    data: bytes
    packet: ResearchPacket
    raw: Raw


def kept_raw(store: Store) -> Raw:
    """Return a reader of the raw bytes in a workspace."""

    def raw(digest: str) -> bytes | None:
        return store.read_file(states.BLOBS, digest) if store.has_blob(digest) else None

    return raw


def remake(ws: Workspace, packet_ids: Sequence[str]) -> Iterator[Remade]:
    """Remake stored packets, each in its own sandbox, and record the verdicts."""
    kept = (_stored(ws.store, packet_id) for packet_id in packet_ids)
    for found in compare(ws.bundle, kept, count=len(packet_ids)):
        entries = [(KIND, {"packet": one.packet_id, "verdict": one.verdict}) for one in found]
        with ws.store.locked() as journal:
            journal.log.append(entries)
        yield from found


def compare(
    bundle: Bundle, candidates: Iterator[RemakeCandidate], *, count: int
) -> Iterator[list[Remade]]:
    """Remake and compare packets, a few at a time; no sandbox starts if none can be remade."""
    told: SimpleQueue[Told] = SimpleQueue()
    makers = Makers(find_machine(), bundle, tell=told.put)
    left = count
    try:
        while few := list(islice(candidates, MAKERS)):
            yield _remade(few, makers, told, left=left)
            left -= len(few)
    finally:
        makers.close()


def _stored(store: Store, packet_id: str) -> RemakeCandidate:
    packet = store.read(packet_id)
    assert isinstance(packet, ResearchPacket)
    return RemakeCandidate(packet_id, store.read_bytes(packet_id), packet, kept_raw(store))


def _remade(
    candidates: Sequence[RemakeCandidate], makers: Makers, told: "SimpleQueue[Told]", *, left: int
) -> list[Remade]:
    """Remake a few packets in parallel."""
    found: dict[int, Remade] = {}
    for number, candidate in enumerate(candidates):
        job = _job(number, candidate)
        if isinstance(job, NormalizeJob):
            makers.expect(left)
            makers.submit(job)
        else:
            found[number] = job
    while len(found) < len(candidates):
        answer = told.get()
        if isinstance(answer, Stopped):
            raise answer.error
        assert isinstance(answer, Answered)
        found[answer.item] = _compared(candidates[answer.item], answer)
    return [found[number] for number in range(len(candidates))]


def _job(number: int, candidate: RemakeCandidate) -> NormalizeJob | Remade:
    """Return the job for a packet, or the verdict if there is none."""
    packet_id, digest = candidate.packet_id, candidate.packet.record_sha256
    if digest is None:
        return Remade(packet_id, CANNOT, "it was not fetched here, so it has no record")
    data = candidate.raw(digest)
    if data is None:
        return Remade(packet_id, CANNOT, "its retrieval record is forgotten")
    try:
        record = parse_record(Untrusted(data))
    except ProtocolBroken:
        # The digest was checked, so the packet's author named other bytes as its record.
        return Remade(packet_id, DIFFERENT, "its record is not a retrieval record")
    raws = [candidate.raw(answer.sha256) for answer in record.answers]
    here = tuple(raw for raw in raws if raw is not None)
    if len(here) < len(raws):
        why = f"{len(raws) - len(here)} of its {len(raws)} answers forgotten"
        return Remade(packet_id, CANNOT, why)
    missing = missing_engine(record)
    return Remade(packet_id, CANNOT, missing) if missing else job_for(number, record, here)


def _compared(candidate: RemakeCandidate, told: Answered) -> Remade:
    packet_id = candidate.packet_id
    if told.packet is None:
        why = "no packet" if told.error is None else told.error.message
        return Remade(packet_id, DIFFERENT, f"normalization now refuses it: {why}")
    if told.packet.open_for_validation() == candidate.data:
        return Remade(packet_id, SAME)
    return Remade(packet_id, DIFFERENT, _differing(candidate.packet, told.packet))


def _differing(kept: ResearchPacket, again: Untrusted[bytes]) -> str:
    """Return the names of the fields that differ; never their content."""
    try:
        made = registry.parse(again)
    except ArtifactRejected:
        return "the result is not a packet"
    if not isinstance(made, ResearchPacket):
        return "the result is not a packet"
    names = [one.name for one in fields(ResearchPacket)]
    return ", ".join(name for name in names if getattr(made, name) != getattr(kept, name))


_HINT: Final = "the packet was edited, or another version of this program made it"


def compare_with_records(ws: Workspace, packets: Packets) -> dict[str, Vouched | ArtifactRejected]:
    """Return for each packet how it is stored, or a refusal if it differs from its record.

    Packets without all their raw bytes here are left out.
    """
    raw = kept_raw(ws.store)
    candidates = (RemakeCandidate(key, data, one, raw) for key, (data, one) in packets.items())
    found: dict[str, Vouched | ArtifactRejected] = {}
    for few in compare(ws.bundle, candidates, count=len(packets)):
        for one in few:
            if one.verdict == DIFFERENT:
                found[one.packet_id] = record_refusal(one)
            elif one.verdict == SAME:
                record = packets[one.packet_id][1].record_sha256
                assert record is not None, "otherwise it could not be remade"
                found[one.packet_id] = vouched(_origin_of_record(ws, record))
    return found


def record_refusal(one: Remade) -> ArtifactRejected:
    """Return the refusal of a packet that differs from its record."""
    detail = f"it differs from the packet that its retrieval record and raw bytes give: {one.why}"
    return ArtifactRejected(detail, code=NOT_ITS_RECORD, hint=_HINT)


def vouched(origin: PacketOrigin) -> Vouched:
    """Return how an equal packet with this origin is stored."""
    if origin.is_brought:
        return Vouched(ADMIT_CONSISTENT, {})
    if origin.name == IMPORTED or origin.from_file:
        return Vouched(IMPORT, {})
    return Vouched(ADMIT_RETRIEVED, {"by": origin.by} if origin.by else {})


def _origin_of_record(ws: Workspace, record: str) -> PacketOrigin:
    """Return the origin of the packets that were stored with a record.

    The presence of its bytes proves nothing: they may be an input of a request, or a fetched
    page that imitates a record.
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
