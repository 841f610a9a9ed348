"""Packets exchanged between workspaces: written and signed here, compared and admitted there.

SECURITY
    Admits files that anybody may have made.  Record and raw bytes that came with a packet prove
    that the packet fits them, not that a source ever sent them: who invents a packet invents
    them as well.  So a delivered packet is `retrieved` only under the signature of a key that
    this workspace lists for it; any other is `brought`.  If this module is wrong, a stranger's
    word counts as a retrieval.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from threegate.artifacts.ids import digest_of, sha256_hex
from threegate.artifacts.registry import MAX_ARTIFACT_BYTES
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import ArtifactRejected, SignatureRefused, UsageError
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import parse_record
from threegate.handoff.admission import (
    WITHDRAWN,
    Admission,
    admit_packet,
    is_forgotten,
    quarantine_pieces,
)
from threegate.handoff.refusals import FORGOTTEN
from threegate.host.fetch.comparison import refusal, vouched
from threegate.host.fetch.remake import SAME, Candidate, Remade, compare, kept_raw
from threegate.host.keys.signatures import Signer
from threegate.host.workspace.archive import new_file
from threegate.host.workspace.complete_export import (
    MALFORMED,
    MAX_PACKETS,
    NAMESPACE,
    CompleteReader,
    Delivered,
    Statement,
    write_packet,
    write_start,
)
from threegate.host.workspace.index import Index
from threegate.host.workspace.origin import RETRIEVED, UNKNOWN, Origins, PacketOrigin, signed_by
from threegate.host.workspace.workspace import Workspace
from threegate.keys import sshsig

EXPORT: Final = "packet.export"  # the entry in the log
# The signature is wrong in itself, by any signer.
_BROKEN: Final = frozenset({"TG-KEY-001", "TG-KEY-002"})


def export_complete(
    ws: Workspace, origins: Origins, packet_ids: Sequence[str], signer: Signer, path: Path
) -> int:
    """Write packets with all they were made from to a new file, signed; return how many.

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
    statement = Statement(ws.marker.id, ws.now(), ids)
    data, at = statement.to_bytes(), ws.clock()
    armored = signer.sign(data, NAMESPACE)
    signed = sshsig.verify(
        data, Untrusted(armored), namespace=NAMESPACE, signers=ws.bundle.signers, at=at
    )
    with ws.store.locked() as journal:
        said = {"packets": len(ids), "signer": signed.fingerprint, "statement": sha256_hex(data)}
        journal.log.append([(EXPORT, said)])
    _write(ws, statement, armored, path)
    return len(ids)


def _write(ws: Workspace, statement: Statement, armored: bytes, path: Path) -> None:
    with new_file(path, "write the packets") as out:
        archive = write_start(out, statement, armored)
        for packet_id in statement.packets:
            write_packet(archive, _collected(ws, packet_id))
        archive.end()


def _refuse_foreign(packet_id: str, origin: PacketOrigin) -> None:
    if origin.is_brought or origin.by:
        hint = "only a packet that this workspace retrieved itself can be vouched for"
        raise UsageError(f"{packet_id} was not retrieved here: {origin.words}", hint=hint)


def _collected(ws: Workspace, packet_id: str) -> Delivered:
    packet, raw = ws.store.read(packet_id), kept_raw(ws.store)
    assert isinstance(packet, ResearchPacket)
    record = None if packet.record_sha256 is None else raw(packet.record_sha256)
    if record is None:
        raise UsageError(f"the retrieval record of {packet_id} is not here any more")
    raws: dict[str, bytes] = {}
    for answer in parse_record(Untrusted(record)).answers:
        found = raw(answer.sha256)
        if found is None:
            raise UsageError(f"raw bytes of {packet_id} are not here any more")
        raws[answer.sha256] = found
    return Delivered(packet_id, ws.store.read_bytes(packet_id), packet, record, raws)


def admit_complete(ws: Workspace, index: Index, file: BinaryIO) -> Iterator[Admission]:
    """Compare and store the packets of a file; all of it is read and checked before the first."""
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
    if again.data != reader.data:  # the signature was of other packets
        raise ArtifactRejected("the file was changed while it was read", code=MALFORMED)
    told: list[Admission] = []
    count = len(reader.statement.packets)
    waiting: dict[str, Delivered] = {}
    wanted = _candidates(ws, index, again.deliveries(), (origin, told, waiting))
    for few in compare(ws.bundle, wanted, count=count):
        told += [_admitted(ws, waiting.pop(one.packet_id), one, (origin, note)) for one in few]
        yield from told
        told.clear()
    yield from told


def _vouching(ws: Workspace, reader: CompleteReader) -> tuple[PacketOrigin, str]:
    """Return the origin of equal packets, and why if it is `brought`."""
    try:
        signed = sshsig.verify(
            reader.data,
            Untrusted(reader.signature),
            namespace=NAMESPACE,
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
    deliveries: Iterator[Delivered],
    state: tuple[PacketOrigin, list[Admission], dict[str, Delivered]],
) -> Iterator[Candidate]:
    """Yield what is to be compared; tell of the packets that are here already."""
    origin, told, waiting = state
    for one in deliveries:
        here = ws.store.locate(one.packet_id) is not None
        gains = index.origin(one.packet_id).name != RETRIEVED and not origin.is_brought
        if here and not gains:
            told.append(Admission("already", digest_of(one.packet_id), one.packet_id))
            continue
        waiting[one.packet_id] = one
        yield Candidate(one.packet_id, one.data, one.packet, one.raw)


def _admitted(
    ws: Workspace, one: Delivered, remade: Remade, known: tuple[PacketOrigin, str]
) -> Admission:
    origin, note = known
    pieces = [one.record, *one.raws.values()]
    try:
        if remade.verdict != SAME:
            raise refusal(remade)
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
    """Return what is said of a delivered packet that equals what its record makes."""
    return origin.words if not note else f"brought, consistent, not retrieved here ({note})"


def _refused_file(ws: Workspace, file: BinaryIO, error: ArtifactRejected) -> Admission:
    """Keep a file that is not one, if it is no larger than other files that are kept."""
    file.seek(0)
    data = file.read(MAX_ARTIFACT_BYTES + 1)
    if len(data) > MAX_ARTIFACT_BYTES or is_forgotten(ws.store, sha256_hex(data)):
        return Admission("refused", "", None, error.code, error.message, error.hint)
    quarantine_pieces(ws.store, [data], error, ws.now())
    digest = sha256_hex(data)
    return Admission("quarantined", digest, None, error.code, error.message, error.hint)
