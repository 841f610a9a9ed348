"""What becomes of an item in the workspace: a packet with its raw bytes, or quarantine.

Either is one change: a crash leaves all of it or nothing, and then it is asked again.

SECURITY
    Writes foreign bytes under names the host computes.  A packet is parsed again from the
    very bytes that are stored.
"""

from collections.abc import Callable, Sequence

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.references import Question
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import ArtifactRejected
from threegate.gates.fetch.normalize.messages import Answer, RetrievalRecord
from threegate.gates.fetch.retrieve.messages import Got
from threegate.handoff import states
from threegate.handoff.admission import (
    WITHDRAWN,
    admit_packet,
    is_forgotten,
    quarantine_pieces,
)
from threegate.handoff.journal import Act, Put
from threegate.handoff.refusals import FORGOTTEN
from threegate.handoff.store import Store
from threegate.host.fetch.normalize_pool import Answered
from threegate.host.fetch.packet_check import parse_packet
from threegate.host.fetch.plan import Wish
from threegate.host.workspace.fetched import OP, Cache


class Shelf:
    """Stores what items come to; used by one thread."""

    def __init__(self, store: Store, cache: Cache, now: Callable[[], str]) -> None:
        self._store, self._cache, self._now = store, cache, now
        self._expected: dict[int, list[tuple[Question, Got, Answer]]] = {}

    def expect(self, number: int, question: Question, got: Got, answer: Answer) -> None:
        """Remember how an answer can be asked for again, once its bytes are stored."""
        assert not got.body, "what is held here is small"
        self._expected.setdefault(number, []).append((question, got, answer))

    def store(
        self,
        wish: Wish,
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
            "plan": wish.plan,
            "reference": wish.reference,
            "urls": [answer.url for answer in record.answers],
        }
        blobs = [record.to_bytes(), *raws]
        packet_id, new = admit_packet(self._store, told.packet, blobs=blobs, op=OP, detail=detail)
        self._cache.made(wish.plan, packet_id, checked)
        self._remember(number, record)
        return packet, packet_id, new

    def keep(self, number: int, record: RetrievalRecord, raws: Sequence[bytes]) -> None:
        """Keep answers of an item that was given up, if asking again is cheap with them."""
        useful = {
            answer.sha256
            for _, got, answer in self._expected.get(number, ())
            if got.etag is not None or got.last_modified is not None
        }
        found = {sha256_hex(data): data for data in raws}
        kept = {digest: data for digest, data in found.items() if digest in useful}
        if kept:  # with the record that says whence they came
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
        """Keep everything of a refused item with the reason; return the digest to look for.

        None for what was forgotten or withdrawn here: keeping it would undo that.
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
