"""A complete export: packets with the records and raw bytes they were made from, in one tar file.

Members, in this order: the statement, its signature, then for each packet of the statement the
packet, its retrieval record and the raw bytes that the record names, each once.  The statement
names the packets by id; an id is the digest of the packet, the packet names the digest of its
record, and the record those of its raw bytes.  So the signature covers every byte.

SECURITY
    Reads files that anybody may have made.  Names and sizes follow from digests that were
    checked before, or the file is refused.  At most one packet with its raw bytes is in memory.
    That a file is consistent says nothing about who made it: only the signature does.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from threegate.artifacts import registry
from threegate.artifacts.ids import is_id, prefix_of, sha256_hex
from threegate.artifacts.limits import MAX_PACKET_BYTES
from threegate.artifacts.research_packet import ResearchPacket
from threegate.audit.entry import unix_of
from threegate.base import canonical
from threegate.base.errors import ArtifactRejected, ProtocolBroken
from threegate.base.limits import MAX_SIGNATURE_BYTES
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import MAX_RECORD_BYTES, RetrievalRecord, parse_record
from threegate.host.workspace.archive import MAX_NAME_BYTES, ArchiveReader, ArchiveWriter

NAMESPACE: Final = "threegate-packet"
FORMAT: Final = "complete/1"
STATEMENT: Final = "statement.json"
SIGNATURE: Final = "statement.json.sig"
MAX_PACKETS: Final = 1000
MAX_STATEMENT_BYTES: Final = 128 * 1024
MALFORMED: Final = "TG-HND-018"
_KEYS: Final = ("created", "format", "packets", "workspace")
_WORKSPACE: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Statement:
    """What the signer says: this workspace retrieved these packets."""

    workspace: str
    created: str
    packets: tuple[str, ...]  # ids, sorted, each once

    def to_bytes(self) -> bytes:
        """Return the one spelling of the statement."""
        value = {
            "created": self.created,
            "format": FORMAT,
            "packets": list(self.packets),
            "workspace": self.workspace,
        }
        return canonical.encode(value)


@dataclass(frozen=True, slots=True)
class Delivered:
    """One packet of a file, and what it was made from."""

    packet_id: str
    data: bytes
    packet: ResearchPacket
    record: bytes
    raws: dict[str, bytes]  # by digest

    def raw(self, digest: str) -> bytes | None:
        """Return the record or the raw bytes with this digest."""
        return self.record if digest == self.packet.record_sha256 else self.raws.get(digest)


def rejected(reason: str) -> ArtifactRejected:
    """Return the refusal of a file."""
    hint = "is it a whole file from `threegate packet export --complete`? nothing was admitted"
    return ArtifactRejected(f"the file is not usable: {reason}", code=MALFORMED, hint=hint)


def looks_complete(start: bytes) -> bool:
    """Tell whether a file with these first bytes is meant as a complete export."""
    return start[:MAX_NAME_BYTES] == STATEMENT.encode("ascii").ljust(MAX_NAME_BYTES, b"\0")


def write_start(out: BinaryIO, statement: Statement, signature: bytes) -> ArchiveWriter:
    """Begin a file; the packets follow, then `end`."""
    archive = ArchiveWriter(out)
    archive.add(STATEMENT, statement.to_bytes())
    archive.add(SIGNATURE, signature)
    return archive


def write_packet(archive: ArchiveWriter, one: Delivered) -> None:
    """Add a packet, its record and its raw bytes."""
    archive.add(f"{one.packet_id}.md", one.data)
    archive.add(sha256_hex(one.record), one.record)
    for digest in _digests(parse_record(Untrusted(one.record))):
        archive.add(digest, one.raws[digest])


class CompleteReader:
    """Reads a file from its beginning; raises `ArtifactRejected` for any bytes that are not one."""

    def __init__(self, file: BinaryIO) -> None:
        self._archive = ArchiveReader(file, rejected)
        self.data = self._archive.next(STATEMENT, max_bytes=MAX_STATEMENT_BYTES)
        self.statement = parse_statement(Untrusted(self.data))
        self.signature = self._archive.next(SIGNATURE, max_bytes=MAX_SIGNATURE_BYTES)

    def deliveries(self) -> Iterator[Delivered]:
        """Yield every packet with what it was made from; the file ends after the last one."""
        for packet_id in self.statement.packets:
            yield self._delivered(packet_id)
        self._archive.end()

    def _delivered(self, packet_id: str) -> Delivered:
        _, _, digest = packet_id.partition("-")
        data = self._next(f"{packet_id}.md", digest, MAX_PACKET_BYTES)
        packet = registry.parse(Untrusted(data))
        if not isinstance(packet, ResearchPacket) or packet.record_sha256 is None:
            raise rejected(f"{packet_id} is not a packet with a record")
        data_of_record = self._next(packet.record_sha256, packet.record_sha256, MAX_RECORD_BYTES)
        try:
            record = parse_record(Untrusted(data_of_record))
        except ProtocolBroken as exc:
            raise rejected(f"the record of {packet_id} is not readable") from exc
        sizes = _digests(record)
        raws = {sha256: self._next(sha256, sha256, size) for sha256, size in sizes.items()}
        return Delivered(packet_id, data, packet, data_of_record, raws)

    def _next(self, name: str, digest: str, max_bytes: int) -> bytes:
        data = self._archive.next(name, max_bytes=max(1, max_bytes))
        if sha256_hex(data) != digest:
            raise rejected(f"{name} has other bytes")
        return data


def parse_statement(data: Untrusted[bytes]) -> Statement:
    """Return the statement in `data`, or raise `ArtifactRejected`."""
    untrusted = data.open_for_validation()
    try:
        value: Any = canonical.decode(untrusted)
        if tuple(value) != _KEYS or value["format"] != FORMAT:
            raise ValueError("unexpected fields")
        packets = tuple(value["packets"])
        statement = Statement(value["workspace"], value["created"], packets)
        unix_of(statement.created)
        ids = all(type(one) is str and is_id(one) and prefix_of(one) == "rp" for one in packets)
        fits = 0 < len(packets) <= MAX_PACKETS and _WORKSPACE.fullmatch(statement.workspace)
        if not ids or not fits or sorted(set(packets)) != list(packets):
            raise ValueError("not a list of packets")
        if statement.to_bytes() != untrusted:
            raise ValueError("another spelling")
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise rejected("its statement is not readable") from exc
    return statement


def _digests(record: RetrievalRecord) -> dict[str, int]:
    """Return digest and size of the raw bytes of a record, in its order, each once."""
    return {answer.sha256: answer.bytes for answer in record.answers}
