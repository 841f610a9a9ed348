"""Making a packet again from what it was made from, to see whether it is the same.

A packet is a pure function of its retrieval record and raw bytes, and both are kept.  So
anybody can check later that nothing was added, left out or changed: the same box reads the
same bytes, and what it makes is compared byte for byte.  Nothing is stored but the verdict,
in the audit log.

SECURITY
    Hands hostile bytes to boxes once more, by the same way as when they were new, and only
    compares what comes back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from queue import SimpleQueue
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.research_packet import ResearchPacket
from threegate.errors import ArtifactRejected, HandoffTampered, ProtocolBroken
from threegate.handoff import states
from threegate.handoff.store import Store
from threegate.host.fetching.making import MAKERS, Answered, Job, Makers, Stopped, Told, job_for
from threegate.host.workspace import Workspace
from threegate.protocol.normalize import parse_record
from threegate.sandbox.machine import find_machine
from threegate.untrusted import Untrusted

SAME: Final = "same"
DIFFERENT: Final = "different"
CANNOT: Final = "cannot"  # what it was made from is not here
KIND: Final = "packet.remake"


@dataclass(frozen=True, slots=True)
class Remade:
    """How a packet compares with what is made now; `why` names fields or what is missing."""

    packet_id: str
    verdict: str
    why: str = ""


def remake(ws: Workspace, packet_ids: Sequence[str]) -> Iterator[Remade]:
    """Make packets again, each in a box of its own, and record how they compare."""
    told: SimpleQueue[Told] = SimpleQueue()
    makers = Makers(find_machine(), ws.bundle, tell=told.put)
    try:
        for start in range(0, len(packet_ids), MAKERS):
            makers.expect(len(packet_ids) - start)
            found = _remade(ws.store, packet_ids[start : start + MAKERS], makers, told)
            entries = [(KIND, {"packet": one.packet_id, "verdict": one.verdict}) for one in found]
            with ws.store.locked() as journal:
                journal.log.append(entries)
            yield from found
    finally:
        makers.close()


def _remade(
    store: Store, packet_ids: Sequence[str], makers: Makers, told: "SimpleQueue[Told]"
) -> list[Remade]:
    """Make a few packets again, as many at a time as there are makers."""
    found: dict[int, Remade] = {}
    for number, packet_id in enumerate(packet_ids):
        job = _job(store, number, packet_id)
        if isinstance(job, Job):
            makers.submit(job)
        else:
            found[number] = job
    while len(found) < len(packet_ids):
        answer = told.get()
        if isinstance(answer, Stopped):
            raise answer.error
        assert isinstance(answer, Answered)
        found[answer.item] = _compared(store, packet_ids[answer.item], answer)
    return [found[number] for number in range(len(packet_ids))]


def _job(store: Store, number: int, packet_id: str) -> Job | Remade:
    """Return the job of making a packet, or why there is none."""
    packet = store.read(packet_id)
    assert isinstance(packet, ResearchPacket)
    if packet.record_sha256 is None:
        return Remade(packet_id, CANNOT, "it was not fetched here, so it has no record")
    if not store.has_blob(packet.record_sha256):
        return Remade(packet_id, CANNOT, "its retrieval record is forgotten")
    try:
        record = parse_record(Untrusted(store.read_file(states.BLOBS, packet.record_sha256)))
    except ProtocolBroken as exc:
        raise HandoffTampered(f"the record of {packet_id} does not parse") from exc
    gone = sum(not store.has_blob(answer.sha256) for answer in record.answers)
    if gone:
        return Remade(packet_id, CANNOT, f"{gone} of its {len(record.answers)} answers forgotten")
    raws = tuple(store.read_file(states.BLOBS, answer.sha256) for answer in record.answers)
    return job_for(number, record, raws)


def _compared(store: Store, packet_id: str, told: Answered) -> Remade:
    if told.packet is None:
        why = "no packet" if told.error is None else told.error.message
        return Remade(packet_id, DIFFERENT, f"now it is refused: {why}")
    again = told.packet.open_for_validation()
    if again == store.read_bytes(packet_id):
        return Remade(packet_id, SAME)
    return Remade(packet_id, DIFFERENT, _differing(store, packet_id, told.packet))


def _differing(store: Store, packet_id: str, again: Untrusted[bytes]) -> str:
    """Return the names of the fields that differ; never what stands in them."""
    try:
        made = registry.parse(again)
    except ArtifactRejected:
        return "what is made now is no packet"
    kept = store.read(packet_id)
    if not isinstance(made, ResearchPacket):
        return "what is made now is no packet"
    names = [one.name for one in fields(ResearchPacket)]
    return ", ".join(name for name in names if getattr(made, name) != getattr(kept, name))
