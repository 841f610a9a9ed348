"""An import: files become packets in normalize sandboxes and are stored in batches.

Each file is read once, compared by its digest with what was imported before, and read by a fresh
sandbox.  Packets are stored with their records and raw bytes a few at a time: after a kill a batch
is there completely or not at all, and the next import makes the rest.

SECURITY
    Hands bytes of unknown origin to sandboxes and compares each packet with the record that was
    made here.  Bytes that a sandbox refused are in quarantine with the reason.  If this module is
    wrong, a packet names another file than the one it quotes.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from threegate.artifacts.ids import make_id, sha256_hex
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import ArtifactRejected, QuotaExceeded
from threegate.base.forms import CONFIDENTIALITY, NO_ANCHOR
from threegate.base.limits import MIB
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import SCAN, KeptAnswer, RetrievalRecord
from threegate.handoff import states
from threegate.handoff.admission import IMPORT, WITHDRAWN, quarantine_pieces
from threegate.handoff.packet_admission import admit_packets
from threegate.handoff.refusals import FORGOTTEN
from threegate.host.fetch.normalize_pool import MAKERS, Answered
from threegate.host.fetch.scans import ENGLISH_SCANS, NOT_RECOGNISED, ScanReader
from threegate.host.fetch.storage import parse_packet
from threegate.host.importing.jobs import PacketJobs
from threegate.host.importing.selection import (
    LEFT_OUT,
    Importable,
    ImportSelection,
    Material,
    Piece,
    Root,
)
from threegate.host.importing.types import UNREAD_TYPE, detect
from threegate.host.workspace.fetched import FetchCache, ImportedFile
from threegate.host.workspace.workspace import Workspace

MOST_WAITING: Final = 2 * MAKERS  # files that were read and have no packet yet
MOST_IN_BATCH: Final = 32  # packets that are stored as one change
MAX_BATCH_BYTES: Final = 32 * MIB
BATCH_SECONDS: Final = 2.0  # a packet waits no longer than this for its batch
REFUSED_BEFORE: Final = "TG-IMP-005"

MADE: Final = "made"
ALREADY: Final = "already"
REFUSED: Final = "refused"
GONE: Final = "gone"
SKIPPED: Final = "skipped"
STATUSES: Final = (MADE, ALREADY, REFUSED, SKIPPED, GONE)
HOLDS_KEY: Final = "secret-like"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of one file."""

    reference: str  # the relative path
    status: str
    packet_id: str | None = None
    packet: ResearchPacket | None = field(default=None, repr=False)
    replaces: str | None = None
    sha256: str | None = None  # of bytes that were refused and are in quarantine
    error: ArtifactRejected | None = None


@dataclass(frozen=True, slots=True)
class _Reading:
    """A file whose bytes are in a sandbox."""

    file: Importable
    record: RetrievalRecord
    material: Material

    @property
    def raws(self) -> tuple[bytes, ...]:
        return tuple(piece.raw for piece in self.material.pieces)


@dataclass(frozen=True, slots=True)
class _Ready:
    reading: _Reading
    packet: ResearchPacket
    data: Untrusted[bytes]


class FileImport:
    """One import into an open workspace; used by one thread."""

    def __init__(
        self,
        ws: Workspace,
        *,
        level: str,
        again: bool = False,
        scans: ScanReader = ENGLISH_SCANS,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ws, self._level, self._again, self._stop = ws, level, again, stop
        self._scans = scans
        self._cache = FetchCache(ws.store, ws.seals)
        self._known: dict[str, dict[str, ImportedFile]] = {}
        self._jobs = PacketJobs(ws.bundle)
        self._reading: dict[int, _Reading] = {}
        self._ready: list[_Ready] = []
        self._ready_since = 0.0
        self._seen: set[str] = set()  # digests of the bytes of this import

    def close(self) -> None:
        """End the sandboxes."""
        self._jobs.close()
        self._cache.close()

    def run(self, selection: ImportSelection) -> Iterator[ImportReport]:
        """Import the files; yield a report for each as soon as it is stored or refused."""
        for reference, error in selection.unusable:
            yield ImportReport(reference, REFUSED, error=error)
        left = len(selection.files)
        for number, file in enumerate(selection.files):
            if self._stop():
                break
            report = self._begin(number, file, left - number)
            if report is not None:
                yield report
            while self._jobs.waiting >= MOST_WAITING:
                yield from self._take()
            yield from self._stored(force=False)
        self._jobs.flush()
        while self._reading:
            yield from self._take()
        yield from self._stored(force=True)
        if not self._stop():
            for root in selection.whole_roots:
                yield from self._gone(root, selection)

    def _begin(self, number: int, file: Importable, left: int) -> ImportReport | None:
        """Hand a file to a sandbox, or return what is known without one."""
        try:
            material = file.material()
        except ArtifactRejected as exc:
            status = SKIPPED if exc.code == LEFT_OUT else REFUSED
            return ImportReport(file.reference, status, error=exc)
        digest = material.digest
        self._seen.add(digest)
        before = self._files_of(file.root).get(file.location)
        here = self._packet_here(before, digest)
        if here is not None:
            return ImportReport(file.reference, ALREADY, here)
        try:
            self._refuse_known(material)
            record = self._record(file, before, material)
        except ArtifactRejected as exc:
            return self._refused(file, material, exc)
        self._reading[number] = reading = _Reading(file, record, material)
        self._jobs.submit(number, record, reading.raws, left=left)
        return None

    def _files_of(self, root: Root) -> dict[str, ImportedFile]:
        if root.key not in self._known:
            self._known[root.key] = self._cache.files_below(root.key, self._level)
        return self._known[root.key]

    def _packet_here(self, before: ImportedFile | None, digest: str) -> str | None:
        if before is not None and before.sha256 == digest:
            return self._still_here(before)
        if before is None:  # the same bytes elsewhere; a changed file is always imported
            return self._cache.packet_of_bytes(digest, self._level)
        return None

    def _refuse_known(self, material: Material) -> None:
        """Refuse bytes that are in quarantine, so that an unchanged folder is not read again."""
        digest = sha256_hex(material.pieces[0].raw)
        if len(material.pieces) > 1:  # without the document there are still the others
            return
        if self._again or not self._ws.store.holds(states.QUARANTINE, f"{digest}.why.json"):
            return
        hint = f"`threegate quarantine show {digest[:12]}` says why; --again tries it again"
        raise ArtifactRejected("refused at an earlier import", code=REFUSED_BEFORE, hint=hint)

    def _record(
        self, file: Importable, before: ImportedFile | None, material: Material
    ) -> RetrievalRecord:
        has_document = any(piece.role == "document" for piece in material.pieces)
        return RetrievalRecord(
            reference=file.reference,
            scheme="file",
            want="full-text" if has_document else "metadata",
            request=None,
            replaces=self._still_here(before),
            confidentiality=self._level,
            answers=tuple(self._answer(file, piece) for piece in material.pieces),
            misses=material.misses,
        )

    def _answer(self, file: Importable, piece: Piece) -> KeptAnswer:
        return KeptAnswer(
            source=piece.source,
            role=piece.role,
            reference=file.reference,
            url=piece.location,
            hops=(),
            status=200,
            media_type="",
            read_as=piece.read_as or detect(piece.name, piece.raw),
            retrieved=self._ws.now(),
            sha256=sha256_hex(piece.raw),
            bytes=len(piece.raw),
            trust_anchor=NO_ANCHOR,
        )

    def _still_here(self, before: ImportedFile | None) -> str | None:
        is_here = before is not None and self._ws.store.locate(before.packet) is not None
        return before.packet if before is not None and is_here else None

    def _take(self) -> Iterator[ImportReport]:
        """Wait for one sandbox."""
        for told in self._jobs.take():
            yield from self._taken(told)

    def _taken(self, told: Answered) -> Iterator[ImportReport]:
        reading = self._reading.pop(told.item)
        try:
            if told.packet is None:
                assert told.error is not None
                raise told.error
            packet = parse_packet(told.packet, reading.record)
        except ArtifactRejected as exc:
            refusal = exc if exc.code != SCAN else self._recognise(told.item, reading)
            if refusal is not None:
                yield self._refused(reading.file, reading.material, refusal)
            return
        if _needs_raise(packet):
            self._raise(told.item, reading)
            return
        if not self._ready:
            self._ready_since = time.monotonic()
        self._ready.append(_Ready(reading, packet, told.packet))
        yield from self._stored(force=False)

    def _raise(self, number: int, reading: _Reading) -> None:
        """Make the packet again at the highest level, because it seems to hold a secret."""
        record = replace(reading.record, confidentiality=CONFIDENTIALITY[-1])
        self._reading[number] = _Reading(reading.file, record, reading.material)
        self._jobs.submit(number, record, reading.raws, left=1)
        self._jobs.flush()

    def _recognise(self, number: int, reading: _Reading) -> ArtifactRejected | None:
        """Hand a scan to the sandbox that recognises text, or return why it is refused."""
        try:
            record = self._scans.record_for(reading.record)
        except ArtifactRejected as exc:
            return exc
        self._reading[number] = replace(reading, record=record)
        self._jobs.submit(number, record, reading.raws, left=1)
        return None

    def _stored(self, *, force: bool) -> Iterator[ImportReport]:
        """Store the packets that are ready, if they are enough for a batch."""
        size = sum(len(raw) for one in self._ready for raw in one.reading.raws)
        is_due = time.monotonic() - self._ready_since >= BATCH_SECONDS
        full = len(self._ready) >= MOST_IN_BATCH or size >= MAX_BATCH_BYTES
        if not self._ready or not (force or full or is_due):
            return
        batch, self._ready = self._ready, []
        # One root in one change: the log names it once.
        for key in dict.fromkeys(one.reading.file.root.key for one in batch):
            yield from self._store([one for one in batch if one.reading.file.root.key == key], key)

    def _store(self, batch: list[_Ready], root: str) -> Iterator[ImportReport]:
        named: dict[str, list[str]] = {}

        def detail(new: Sequence[str]) -> dict[str, object]:
            return {"root": root, "level": self._level, "files": [named[one] for one in new]}

        for one in batch:
            packet_id = make_id("rp", one.data.open_for_validation())
            reading = one.reading
            named[packet_id] = [reading.file.location, packet_id, reading.material.digest]
        offered = [(one.data, (one.reading.record.to_bytes(), *one.reading.raws)) for one in batch]
        answers = admit_packets(self._ws.store, offered, op=IMPORT, detail=detail)
        for one, answer in zip(batch, answers, strict=True):
            file = one.reading.file
            if isinstance(answer, ArtifactRejected):
                yield self._refused(file, one.reading.material, answer)
                continue
            self._files_of(file.root)[file.location] = ImportedFile(
                answer[0], one.reading.material.digest
            )
            yield ImportReport(
                file.reference, MADE, answer[0], one.packet, one.reading.record.replaces
            )

    def _refused(
        self, file: Importable, material: Material, error: ArtifactRejected
    ) -> ImportReport:
        """Keep what a sandbox refused in quarantine; report what was refused before it."""
        if error.code in (UNREAD_TYPE, NOT_RECOGNISED, REFUSED_BEFORE, FORGOTTEN, WITHDRAWN):
            return ImportReport(file.reference, REFUSED, error=error)
        raws = [piece.raw for piece in material.pieces]
        try:
            quarantine_pieces(self._ws.store, raws, error, self._ws.now())
        except QuotaExceeded:  # the file stays where it is; a hostile one must not end the import
            return ImportReport(file.reference, REFUSED, error=error)
        return ImportReport(file.reference, REFUSED, sha256=sha256_hex(raws[0]), error=error)

    def _gone(self, root: Root, selection: ImportSelection) -> Iterator[ImportReport]:
        """Yield the imported files that are not below the root any more; a moved one is here."""
        there = {file.location for file in selection.files if file.root.key == root.key}
        for location, known in sorted(self._files_of(root).items()):
            here = self._ws.store.locate(known.packet) is not None
            if here and location not in there and known.sha256 not in self._seen:
                yield ImportReport(location, GONE, known.packet)


def _needs_raise(packet: ResearchPacket) -> bool:
    """Tell whether a packet seems to hold a secret and is not at the highest level."""
    found = any(one.name == HOLDS_KEY for one in packet.hazards)
    return found and packet.confidentiality != CONFIDENTIALITY[-1]
