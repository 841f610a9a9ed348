"""Storage of a run's results: packets with raw bytes, quarantine, and entries of the audit log.

A packet with its record and raw bytes is one change: after a crash it is stored completely or not
at all, and then asked for again.  No question leaves before its log entry is durable; if the log
cannot be written, none leaves.  Used by one thread, the one that owns the workspace.

SECURITY
    Writes foreign bytes under names that the host computes, and parses a packet again from the
    very bytes that are stored.
    A packet is made in a sandbox that has just read hostile bytes.  Its statements about the work
    come from the sources and are external.  Its statements about where and when its bytes came
    from must equal the host's retrieval record, field by field.  If that check is wrong, a packet
    may claim another source, another URL, another time, other raw bytes or a weaker label.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.references import Question, without_contact
from threegate.artifacts.research_packet import Also, Hop, ResearchPacket
from threegate.audit.writer import Events
from threegate.base.errors import ArtifactRejected, ThreeGateError
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer, RetrievalRecord
from threegate.gates.fetch.retrieve.messages import Got, NotGot
from threegate.handoff import states
from threegate.handoff.admission import (
    WITHDRAWN,
    is_forgotten,
    quarantine_pieces,
)
from threegate.handoff.journal import Act, Put
from threegate.handoff.packet_admission import admit_packet
from threegate.handoff.refusals import FORGOTTEN
from threegate.handoff.store import Store
from threegate.host.fetch.normalize_pool import Answered
from threegate.host.fetch.targets import FetchTarget
from threegate.host.proxy.supervisor import KIND as DECIDED
from threegate.host.workspace.fetched import OP, FetchCache
from threegate.policy.bundle import Bundle
from threegate.sandbox.launch import Evidence

NOT_A_PACKET: Final = "TG-FET-070"
NOT_THE_RECORD: Final = "TG-FET-071"
GAP_CHARS: Final = 500  # of a reference in a gap


def parse_packet(data: Untrusted[bytes], record: RetrievalRecord) -> ResearchPacket:
    """Return the packet in `data` if it is one of this record, or raise `ArtifactRejected`."""
    packet = registry.parse(data)
    if not isinstance(packet, ResearchPacket):
        raise ArtifactRejected("the sandbox did not return a packet", code=NOT_A_PACKET)
    for name, wrong in _differences(packet, record):
        if wrong:
            detail = f"the packet contradicts the retrieval record: {name}"
            raise ArtifactRejected(detail, code=NOT_THE_RECORD)
    return packet


def _differences(packet: ResearchPacket, record: RetrievalRecord) -> Iterator[tuple[str, bool]]:
    yield "reference", packet.reference.open_for_validation() != record.reference
    yield "request", packet.request != record.request
    yield "replaces", packet.replaces != record.replaces
    yield "confidentiality", packet.confidentiality != record.confidentiality
    yield "record_sha256", packet.record_sha256 != sha256_hex(record.to_bytes())
    main = next((item for item in record.answers if _is_main(packet, item)), None)
    yield "the answer it is about", main is None
    others = [item for item in record.answers if item is not main]
    yield "also", packet.also != tuple(_also(item) for item in others)
    yield "gaps", not _has_gaps(packet, record)
    heard = {item.source for item in record.answers}
    yield "metadata_from", not {item.source for item in packet.metadata_from} <= heard
    yield "notices", not {item.source for item in packet.notices} <= heard


def _is_main(packet: ResearchPacket, answer: KeptAnswer) -> bool:
    said = (packet.source, packet.url, packet.hops, packet.retrieved, packet.media_type)
    said_bytes = (packet.raw_sha256, packet.raw_bytes, packet.trust_anchor)
    hops = tuple(Hop(url, status) for url, status in answer.hops)
    known = (answer.source, answer.url, hops, answer.retrieved, answer.read_as)
    return (said, said_bytes) == (known, (answer.sha256, answer.bytes, answer.trust_anchor))


def _also(answer: KeptAnswer) -> Also:
    return Also(
        answer.source,
        answer.url,
        answer.retrieved,
        answer.sha256,
        answer.bytes,
        answer.trust_anchor,
    )


def _has_gaps(packet: ResearchPacket, record: RetrievalRecord) -> bool:
    """Tell whether every failed question is a gap, and every other gap refers to an answer."""
    told = Counter(
        (item.source, item.reference.open_for_validation(), item.reason) for item in packet.gaps
    )
    known = {(item.source, item.reference[:GAP_CHARS], item.reason) for item in record.misses}
    added = {source for source, _, _ in told.keys() - known}
    return known <= told.keys() and added <= {item.source for item in record.answers}


class PacketStore:
    """Stores the results of items."""

    def __init__(self, store: Store, cache: FetchCache, now: Callable[[], str]) -> None:
        self._store, self._cache, self._now = store, cache, now
        self._expected: dict[int, list[tuple[Question, Got, KeptAnswer]]] = {}

    def expect(self, number: int, question: Question, got: Got, answer: KeptAnswer) -> None:
        """Remember the validators of an answer until its bytes are stored."""
        assert not got.body, "bodies are not held here"
        self._expected.setdefault(number, []).append((question, got, answer))

    def store(
        self,
        target: FetchTarget,
        number: int,
        record: RetrievalRecord,
        raws: Sequence[bytes],
        told: Answered,
    ) -> tuple[ResearchPacket, str, bool]:
        """Check and store a packet; return it, its id, and whether it is new.

        Raises `ArtifactRejected`, and then nothing was stored.
        """
        if told.error is not None:
            raise told.error
        assert told.packet is not None
        packet = parse_packet(told.packet, record)
        checked = self._now()
        detail = {
            "checked": checked,
            "plan": target.plan,
            "reference": target.reference,
            "urls": [answer.url for answer in record.answers],
        }
        blobs = [record.to_bytes(), *raws]
        packet_id, new = admit_packet(self._store, told.packet, blobs=blobs, op=OP, detail=detail)
        self._cache.made(target.plan, packet_id, checked)
        self._remember(number, record)
        return packet, packet_id, new

    def keep(self, number: int, record: RetrievalRecord, raws: Sequence[bytes]) -> None:
        """Keep answers of an abandoned item that make asking again cheap."""
        useful = {
            answer.sha256
            for _, got, answer in self._expected.get(number, ())
            if got.etag is not None or got.last_modified is not None
        }
        found = {sha256_hex(data): data for data in raws}
        kept = {digest: data for digest, data in found.items() if digest in useful}
        if kept:  # with the record of their origin
            kept[sha256_hex(record.to_bytes())] = record.to_bytes()
        with self._store.locked() as journal:
            acts: list[Act] = [
                Put(states.BLOBS, digest, data)
                for digest, data in kept.items()
                if not self._store.has_blob(digest) and not is_forgotten(self._store, digest)
            ]
            if acts:
                journal.run("fetch-keep", acts)
        self._remember(number, record)

    def refuse(
        self,
        error: ArtifactRejected,
        record: RetrievalRecord,
        raws: Sequence[bytes],
        told: Answered,
    ) -> str | None:
        """Quarantine everything of a refused item with the reason; return its digest.

        None for bytes that were forgotten or withdrawn here: keeping them would undo that.
        """
        if error.code in (FORGOTTEN, WITHDRAWN):
            return None
        offered = [] if told.packet is None else [told.packet.open_for_validation()]
        pieces = [*offered, record.to_bytes(), *raws]
        quarantine_pieces(self._store, pieces, error, self._now())
        return sha256_hex(pieces[0])

    def _remember(self, number: int, record: RetrievalRecord) -> None:
        for question, got, answer in self._expected.pop(number, ()):
            if self._store.has_blob(answer.sha256):
                self._cache.keep(question, got, record, answer)


ASKED: Final = "fetch.asked"
ANSWERED: Final = "fetch.answered"
FAILED: Final = "fetch.failed"
BOX: Final = "fetch.box"
RULES: Final = "fetch.rules"
MOST_HELD: Final = 128  # entries per write


class FetchLog:
    """Collects log entries and writes them together."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: list[tuple[str, Mapping[str, Any]]] = []

    def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Add an entry to the next write."""
        self._held.append((kind, data))

    @property
    def is_full(self) -> bool:
        """Tell whether it is time to write."""
        return len(self._held) >= MOST_HELD

    def asked(self, target: FetchTarget, question: Question, *, keyed: bool) -> None:
        """Record a question before it leaves; its URL contains no key."""
        about = {"reference": target.reference, "request": target.request_id}
        asked = {"role": question.role, "source": question.source, "url": question.shown}
        self.note(ASKED, {**about, **asked, "credential": keyed})

    def answered(self, question: Question, answer: Got | NotGot, tries: int) -> None:
        """Record the answer to a question."""
        hops = [[without_contact(url), status] for url, status in answer.hops]
        data: dict[str, Any] = {
            "asked": question.shown,
            "hops": hops,
            "status": answer.status,
            "tries": tries,
        }
        if isinstance(answer, Got):
            data |= {"bytes": len(answer.body), "sha256": sha256_hex(answer.body)}
            data |= {"limits": dict(answer.limits), "trust_anchor": answer.trust_anchor}
            data["url"] = without_contact(answer.url)
        else:
            data |= {"code": answer.code, "reason": answer.reason, "why": visible(answer.message)}
            data["url"] = None if answer.url is None else without_contact(answer.url)
        self.note(ANSWERED, data)

    def failed(self, target: FetchTarget, error: ThreeGateError) -> None:
        """Record why a target failed."""
        about = {"reference": target.reference, "request": target.request_id}
        self.note(FAILED, {**about, "code": error.code, "why": visible(error.message)})

    def decided(self, line: Mapping[str, Any]) -> None:
        """Record a decision of the proxy."""
        self.note(DECIDED, line)

    def box(self, evidence: Evidence, host: str | None) -> None:
        """Record the confinement of a started sandbox, and the host it asks."""
        self.note(BOX, {**evidence.plain(), "host": host})

    def rules(self, bundle: Bundle) -> None:
        """Record the policy for questions from now on."""
        proxy = bundle.text("fetch", "proxy")
        self.note(RULES, {"generation": bundle.generation, "policy": bundle.digest, "proxy": proxy})

    def write(self, *, durable: bool = False) -> None:
        """Write the collected entries; `durable` before an act that they announce."""
        if not self._held:
            return
        events: Events = list(self._held)
        with self._store.locked() as journal:
            journal.log.append(events, durable=durable)
        self._held.clear()
