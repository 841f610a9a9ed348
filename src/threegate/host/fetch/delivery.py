"""Complete exports: packets with their records and raw bytes, signed here and admitted elsewhere.

A complete export is one tar file.  Its members, in this order: the statement, its signature, then
for each packet of the statement the packet, its retrieval record and the raw bytes that the record
names, each once.  The statement names the packets by id; an id is the digest of the packet, the
packet names the digest of its record, and the record those of its raw bytes.  So the signature
covers every byte.

SECURITY
    Reads files from any origin.  Names and sizes follow from digests that were checked before, or
    the file is refused.  At most one packet with its raw bytes is in memory.
    Record and raw bytes in a file prove that the packet fits them, not that a source ever sent
    them: the forger of a packet can forge them too.  So a delivered packet is `retrieved` only
    under the signature of a key that this workspace lists for that; any other is `brought`.  If
    this module is wrong, a stranger's statement counts as a retrieval.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from threegate.artifacts import registry
from threegate.artifacts.ids import digest_of, is_id, prefix_of, sha256_hex
from threegate.artifacts.limits import MAX_PACKET_BYTES
from threegate.artifacts.registry import MAX_ARTIFACT_BYTES
from threegate.artifacts.research_packet import ResearchPacket
from threegate.audit.entry import unix_of
from threegate.base import canonical
from threegate.base.errors import ArtifactRejected, ProtocolBroken, SignatureRefused, UsageError
from threegate.base.limits import MAX_SIGNATURE_BYTES
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import MAX_RECORD_BYTES, RetrievalRecord, parse_record
from threegate.handoff.admission import (
    WITHDRAWN,
    Admission,
    is_forgotten,
    quarantine_pieces,
)
from threegate.handoff.packet_admission import admit_packet
from threegate.handoff.refusals import FORGOTTEN
from threegate.host.atomic_file import new_file
from threegate.host.fetch.remake import (
    SAME,
    Remade,
    RemakeCandidate,
    compare,
    kept_raw,
    record_refusal,
    vouched,
)
from threegate.host.keys.signatures import Signer
from threegate.host.workspace.archive import ArchiveReader, ArchiveWriter
from threegate.host.workspace.index import Index
from threegate.host.workspace.offered_files import STATEMENT
from threegate.host.workspace.packets import (
    IMPORTED,
    RETRIEVED,
    UNKNOWN,
    Origins,
    PacketOrigin,
    signed_by,
)
from threegate.host.workspace.workspace import Workspace
from threegate.keys import sshsig

PACKET_NAMESPACE: Final = "threegate-packet"
EXPORT_FORMAT: Final = "complete/1"
SIGNATURE: Final = "statement.json.sig"
MAX_PACKETS: Final = 1000
MAX_STATEMENT_BYTES: Final = 128 * 1024
MALFORMED: Final = "TG-HND-018"
_KEYS: Final = ("created", "format", "packets", "workspace")
_WORKSPACE: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class ExportStatement:
    """The signed statement: this workspace retrieved these packets."""

    workspace: str
    created: str
    packets: tuple[str, ...]  # ids, sorted, each once

    def to_bytes(self) -> bytes:
        """Return the canonical bytes of the statement."""
        value = {
            "created": self.created,
            "format": EXPORT_FORMAT,
            "packets": list(self.packets),
            "workspace": self.workspace,
        }
        return canonical.encode(value)


@dataclass(frozen=True, slots=True)
class DeliveredPacket:
    """One packet of a file with its record and raw bytes."""

    packet_id: str
    data: bytes
    packet: ResearchPacket
    record: bytes
    raws: dict[str, bytes]  # by digest

    def raw(self, digest: str) -> bytes | None:
        """Return the record or the raw bytes with this digest."""
        return self.record if digest == self.packet.record_sha256 else self.raws.get(digest)


def rejected_export(reason: str) -> ArtifactRejected:
    """Return the refusal of a file."""
    hint = "is it a whole file from `threegate packet export --complete`? nothing was admitted"
    return ArtifactRejected(f"the file is not usable: {reason}", code=MALFORMED, hint=hint)


def write_start(out: BinaryIO, statement: ExportStatement, signature: bytes) -> ArchiveWriter:
    """Write statement and signature; the packets follow, then `end`."""
    archive = ArchiveWriter(out)
    archive.add(STATEMENT, statement.to_bytes())
    archive.add(SIGNATURE, signature)
    return archive


def write_packet(archive: ArchiveWriter, one: DeliveredPacket) -> None:
    """Add a packet, its record and its raw bytes."""
    archive.add(f"{one.packet_id}.md", one.data)
    archive.add(sha256_hex(one.record), one.record)
    for digest in _digests(parse_record(Untrusted(one.record))):
        archive.add(digest, one.raws[digest])


class CompleteReader:
    """Reads a file from its beginning; raises `ArtifactRejected` for any bytes that are not one."""

    def __init__(self, file: BinaryIO) -> None:
        self._archive = ArchiveReader(file, rejected_export)
        self.data = self._archive.next(STATEMENT, max_bytes=MAX_STATEMENT_BYTES)
        self.statement = parse_statement(Untrusted(self.data))
        self.signature = self._archive.next(SIGNATURE, max_bytes=MAX_SIGNATURE_BYTES)

    def deliveries(self) -> Iterator[DeliveredPacket]:
        """Yield every packet with its record and raw bytes; the file must end after the last."""
        for packet_id in self.statement.packets:
            yield self._delivered(packet_id)
        self._archive.end()

    def _delivered(self, packet_id: str) -> DeliveredPacket:
        _, _, digest = packet_id.partition("-")
        data = self._next(f"{packet_id}.md", digest, MAX_PACKET_BYTES)
        packet = registry.parse(Untrusted(data))
        if not isinstance(packet, ResearchPacket) or packet.record_sha256 is None:
            raise rejected_export(f"{packet_id} is not a packet with a record")
        data_of_record = self._next(packet.record_sha256, packet.record_sha256, MAX_RECORD_BYTES)
        try:
            record = parse_record(Untrusted(data_of_record))
        except ProtocolBroken as exc:
            raise rejected_export(f"the record of {packet_id} is not readable") from exc
        sizes = _digests(record)
        raws = {sha256: self._next(sha256, sha256, size) for sha256, size in sizes.items()}
        return DeliveredPacket(packet_id, data, packet, data_of_record, raws)

    def _next(self, name: str, digest: str, max_bytes: int) -> bytes:
        data = self._archive.next(name, max_bytes=max(1, max_bytes))
        if sha256_hex(data) != digest:
            raise rejected_export(f"{name} has other bytes")
        return data


def parse_statement(data: Untrusted[bytes]) -> ExportStatement:
    """Return the statement in `data`, or raise `ArtifactRejected`."""
    untrusted = data.open_for_validation()
    try:
        value: Any = canonical.decode(untrusted)
        if tuple(value) != _KEYS or value["format"] != EXPORT_FORMAT:
            raise ValueError("unexpected fields")
        packets = tuple(value["packets"])
        statement = ExportStatement(value["workspace"], value["created"], packets)
        unix_of(statement.created)
        ids = all(type(one) is str and is_id(one) and prefix_of(one) == "rp" for one in packets)
        fits = 0 < len(packets) <= MAX_PACKETS and _WORKSPACE.fullmatch(statement.workspace)
        if not ids or not fits or sorted(set(packets)) != list(packets):
            raise ValueError("not a list of packets")
        if statement.to_bytes() != untrusted:
            raise ValueError("not canonical")
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise rejected_export("its statement is not readable") from exc
    return statement


def _digests(record: RetrievalRecord) -> dict[str, int]:
    """Return digest and size of the raw bytes of a record, in its order, each once."""
    return {answer.sha256: answer.bytes for answer in record.answers}


EXPORT: Final = "packet.export"  # the entry in the log
# Codes of signatures that are wrong for any signer.
_BROKEN: Final = frozenset({"TG-KEY-001", "TG-KEY-002"})


def export_complete(
    ws: Workspace, origins: Origins, packet_ids: Sequence[str], signer: Signer, path: Path
) -> int:
    """Write packets with records and raw bytes to a new signed file; return their number.

    Raises `UsageError` for a packet that this workspace did not retrieve itself, or whose raw
    bytes are not all here.
    """
    ws.refuse_wrong_clock()
    ids = tuple(sorted(set(packet_ids)))
    if len(ids) > MAX_PACKETS:
        raise UsageError(f"{len(ids)} packets, one file holds {MAX_PACKETS}")
    for packet_id in ids:
        _refuse_foreign(packet_id, origins(packet_id))
        _collected(ws, packet_id)
    statement = ExportStatement(ws.marker.id, ws.now(), ids)
    data, at = statement.to_bytes(), ws.clock()
    armored = signer.sign(data, PACKET_NAMESPACE)
    signed = sshsig.verify(
        data, Untrusted(armored), namespace=PACKET_NAMESPACE, signers=ws.bundle.signers, at=at
    )
    with ws.store.locked() as journal:
        said = {"packets": len(ids), "signer": signed.fingerprint, "statement": sha256_hex(data)}
        journal.log.append([(EXPORT, said)])
    _write(ws, statement, armored, path)
    return len(ids)


def _write(ws: Workspace, statement: ExportStatement, armored: bytes, path: Path) -> None:
    with new_file(path) as out:
        archive = write_start(out, statement, armored)
        for packet_id in statement.packets:
            write_packet(archive, _collected(ws, packet_id))
        archive.end()


def _refuse_foreign(packet_id: str, origin: PacketOrigin) -> None:
    if origin.is_brought or origin.by or origin.name == IMPORTED or origin.from_file:
        hint = "only a packet that this workspace retrieved itself can be vouched for"
        raise UsageError(f"{packet_id} was not retrieved here: {origin.words}", hint=hint)


def _collected(ws: Workspace, packet_id: str) -> DeliveredPacket:
    packet, raw = ws.store.read(packet_id), kept_raw(ws.store)
    assert isinstance(packet, ResearchPacket)
    record = None if packet.record_sha256 is None else raw(packet.record_sha256)
    if record is None:
        raise UsageError(f"the retrieval record of {packet_id} is no longer here")
    raws: dict[str, bytes] = {}
    for answer in parse_record(Untrusted(record)).answers:
        found = raw(answer.sha256)
        if found is None:
            raise UsageError(f"raw bytes of {packet_id} are no longer here")
        raws[answer.sha256] = found
    return DeliveredPacket(packet_id, ws.store.read_bytes(packet_id), packet, record, raws)


def admit_complete(ws: Workspace, index: Index, file: BinaryIO) -> Iterator[Admission]:
    """Compare and store the packets of a file; the whole file is checked before the first."""
    try:
        reader = CompleteReader(file)
        for _ in reader.deliveries():
            pass
        origin, note = _vouching(ws, reader)
    except ArtifactRejected as exc:
        yield _refused_file(ws, file, exc)
        return
    file.seek(0)
    again = CompleteReader(file)
    if again.data != reader.data:  # the signature covered other packets
        raise ArtifactRejected("the file was changed while it was read", code=MALFORMED)
    told: list[Admission] = []
    count = len(reader.statement.packets)
    waiting: dict[str, DeliveredPacket] = {}
    wanted = _candidates(ws, index, again.deliveries(), (origin, told, waiting))
    for few in compare(ws.bundle, wanted, count=count):
        told += [_admitted(ws, waiting.pop(one.packet_id), one, (origin, note)) for one in few]
        yield from told
        told.clear()
    yield from told


def _vouching(ws: Workspace, reader: CompleteReader) -> tuple[PacketOrigin, str]:
    """Return the origin of equal packets, and the reason if it is `brought`."""
    try:
        signed = sshsig.verify(
            reader.data,
            Untrusted(reader.signature),
            namespace=PACKET_NAMESPACE,
            signers=ws.bundle.signers,
            at=ws.clock(),
        )
    except SignatureRefused as exc:
        if exc.code in _BROKEN:
            raise ArtifactRejected(
                f"the file is not usable: {exc.message}", code=MALFORMED
            ) from exc
        return UNKNOWN, exc.message
    by = signed_by(signed.principal, signed.fingerprint, reader.statement.workspace)
    return PacketOrigin(RETRIEVED, by), ""


def _candidates(
    ws: Workspace,
    index: Index,
    deliveries: Iterator[DeliveredPacket],
    state: tuple[PacketOrigin, list[Admission], dict[str, DeliveredPacket]],
) -> Iterator[RemakeCandidate]:
    """Yield the packets to compare; append an answer for those that are already here."""
    origin, told, waiting = state
    for one in deliveries:
        here = ws.store.locate(one.packet_id) is not None
        gains = index.origin(one.packet_id).name != RETRIEVED and not origin.is_brought
        if here and not gains:
            told.append(Admission("already", digest_of(one.packet_id), one.packet_id))
            continue
        waiting[one.packet_id] = one
        yield RemakeCandidate(one.packet_id, one.data, one.packet, one.raw)


def _admitted(
    ws: Workspace, one: DeliveredPacket, remade: Remade, known: tuple[PacketOrigin, str]
) -> Admission:
    origin, note = known
    pieces = [one.record, *one.raws.values()]
    try:
        if remade.verdict != SAME:
            raise record_refusal(remade)
        how = vouched(origin)
        packet = Untrusted(one.data)
        admit_packet(ws.store, packet, blobs=pieces, op=how.op, detail=how.detail, again=True)
    except ArtifactRejected as exc:
        gone = exc.code in (FORGOTTEN, WITHDRAWN)
        if not gone:
            quarantine_pieces(ws.store, [one.data, *pieces], exc, ws.now())
        status, digest = "refused" if gone else "quarantined", digest_of(one.packet_id)
        return Admission(status, digest, one.packet_id, exc.code, exc.message, exc.hint)
    words = vouched_words(origin, note)
    return Admission("accepted", digest_of(one.packet_id), one.packet_id, reason=words)


def vouched_words(origin: PacketOrigin, note: str) -> str:
    """Return the sentence about a delivered packet that equals its record."""
    return origin.words if not note else f"brought, consistent, not retrieved here ({note})"


def _refused_file(ws: Workspace, file: BinaryIO, error: ArtifactRejected) -> Admission:
    """Quarantine an unusable file, unless it is larger than an artifact may be."""
    file.seek(0)
    data = file.read(MAX_ARTIFACT_BYTES + 1)
    if len(data) > MAX_ARTIFACT_BYTES or is_forgotten(ws.store, sha256_hex(data)):
        return Admission("refused", "", None, error.code, error.message, error.hint)
    quarantine_pieces(ws.store, [data], error, ws.now())
    digest = sha256_hex(data)
    return Admission("quarantined", digest, None, error.code, error.message, error.hint)
