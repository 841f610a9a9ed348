"""Making a packet again from what it was made from, to see whether it is the same.

A packet is a pure function of its retrieval record and raw bytes, and both are kept.  So
anybody can check later that nothing was added, left out or changed: the same box reads the
same bytes, and what it makes is compared byte for byte.  Nothing is stored but the verdict,
in the audit log.

SECURITY
    Hands hostile bytes to boxes once more, by the same way as when they were new, and only
    compares what comes back.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from queue import SimpleQueue
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import ArtifactRejected, ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import parse_record
from threegate.handoff import states
from threegate.handoff.store import Store
from threegate.host.fetch.normalize_pool import (
    MAKERS,
    Answered,
    Job,
    Makers,
    Stopped,
    Told,
    job_for,
)
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import find_machine

SAME: Final = "same"
DIFFERENT: Final = "different"
CANNOT: Final = "cannot"  # what it was made from is not here
KIND: Final = "packet.remake"


Raw = Callable[[str], bytes | None]  # the raw bytes with this digest, None if they are not here


@dataclass(frozen=True, slots=True)
class Remade:
    """How a packet compares with what is made now; `why` names fields or what is missing."""

    packet_id: str
    verdict: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A packet that is to be made again, and where the bytes it was made from are found."""

    packet_id: str
    data: bytes
    packet: ResearchPacket
    raw: Raw


def kept_raw(store: Store) -> Raw:
    """Return how the raw bytes that a workspace keeps are read."""

    def raw(digest: str) -> bytes | None:
        return store.read_file(states.BLOBS, digest) if store.has_blob(digest) else None

    return raw


def remake(ws: Workspace, packet_ids: Sequence[str]) -> Iterator[Remade]:
    """Make stored packets again, each in a box of its own, and record how they compare."""
    kept = (_stored(ws.store, packet_id) for packet_id in packet_ids)
    for found in compare(ws.bundle, kept, count=len(packet_ids)):
        entries = [(KIND, {"packet": one.packet_id, "verdict": one.verdict}) for one in found]
        with ws.store.locked() as journal:
            journal.log.append(entries)
        yield from found


def compare(
    bundle: Bundle, candidates: Iterator[Candidate], *, count: int
) -> Iterator[list[Remade]]:
    """Make packets again and compare, a few at a time; a box starts only if one can be made."""
    told: SimpleQueue[Told] = SimpleQueue()
    makers = Makers(find_machine(), bundle, tell=told.put)
    left = count
    try:
        while few := list(islice(candidates, MAKERS)):
            yield _remade(few, makers, told, left=left)
            left -= len(few)
    finally:
        makers.close()


def _stored(store: Store, packet_id: str) -> Candidate:
    packet = store.read(packet_id)
    assert isinstance(packet, ResearchPacket)
    return Candidate(packet_id, store.read_bytes(packet_id), packet, kept_raw(store))


def _remade(
    candidates: Sequence[Candidate], makers: Makers, told: "SimpleQueue[Told]", *, left: int
) -> list[Remade]:
    """Make a few packets again, as many at a time as there are makers."""
    found: dict[int, Remade] = {}
    for number, candidate in enumerate(candidates):
        job = _job(number, candidate)
        if isinstance(job, Job):
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


def _job(number: int, candidate: Candidate) -> Job | Remade:
    """Return the job of making a packet, or why there is none."""
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
        return Remade(packet_id, DIFFERENT, "what it names as its record is not one")
    raws = [candidate.raw(answer.sha256) for answer in record.answers]
    here = tuple(raw for raw in raws if raw is not None)
    if len(here) < len(raws):
        why = f"{len(raws) - len(here)} of its {len(raws)} answers forgotten"
        return Remade(packet_id, CANNOT, why)
    return job_for(number, record, here)


def _compared(candidate: Candidate, told: Answered) -> Remade:
    packet_id = candidate.packet_id
    if told.packet is None:
        why = "no packet" if told.error is None else told.error.message
        return Remade(packet_id, DIFFERENT, f"now it is refused: {why}")
    if told.packet.open_for_validation() == candidate.data:
        return Remade(packet_id, SAME)
    return Remade(packet_id, DIFFERENT, _differing(candidate.packet, told.packet))


def _differing(kept: ResearchPacket, again: Untrusted[bytes]) -> str:
    """Return the names of the fields that differ; never what stands in them."""
    try:
        made = registry.parse(again)
    except ArtifactRejected:
        return "what is made now is no packet"
    if not isinstance(made, ResearchPacket):
        return "what is made now is no packet"
    names = [one.name for one in fields(ResearchPacket)]
    return ", ".join(name for name in names if getattr(made, name) != getattr(kept, name))
