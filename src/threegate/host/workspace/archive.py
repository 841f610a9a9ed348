"""Tar files with a single accepted encoding: plain files only, in a fixed order.

Every tar program can list and unpack these files.  The reader accepts only what the writer
produces: it rebuilds the header of a member from its name and size and compares it byte for byte,
so links, devices, sparse maps, extensions and alternative paths cannot occur.  The last member is
the digest of everything before it; it detects a damaged disk, not a lying sender.

SECURITY
    Reads files from any origin.  Holds at most one member in memory, none larger than the caller
    allows, and writes only to files that the caller opened.  Raises `ArtifactRejected` and nothing
    else for any bytes.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import BinaryIO, Final

from threegate.base.errors import ArtifactRejected
from threegate.base.text import quote

CODE: Final = "TG-BAK-001"
BLOCK_BYTES: Final = 512
MAX_NAME_BYTES: Final = 100  # without its directory, where both together are longer
MAX_PREFIX_BYTES: Final = 155
CHECKSUM: Final = "sha256"
_END: Final = bytes(2 * BLOCK_BYTES)
_MTIME: Final = 946_684_800  # 2000-01-01: equal content gives equal archives
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*){0,3}")
_SIZE: Final = re.compile(rb"[0-7]{11}\0")

Refusal = Callable[[str], ArtifactRejected]


def header_of(name: str, size: int) -> bytes:
    """Return the ustar header of a plain file that only its owner can read."""
    prefix, encoded = b"", name.encode("ascii")
    assert _NAME.fullmatch(name), name
    if len(encoded) > MAX_NAME_BYTES:
        prefix, _, encoded = encoded.rpartition(b"/")
    assert len(encoded) <= MAX_NAME_BYTES, name
    assert len(prefix) <= MAX_PREFIX_BYTES, name
    assert 0 <= size < 8**11, size
    head = encoded.ljust(100, b"\0") + b"0000600\0" + b"0000000\0" * 2
    head += b"%011o\0%011o\0" % (size, _MTIME)
    tail = b"0" + bytes(100) + b"ustar\00000" + bytes(80) + prefix.ljust(155, b"\0") + bytes(12)
    checksum = sum(head) + 8 * ord(" ") + sum(tail)
    return head + b"%06o\0 " % checksum + tail


class ArchiveWriter:
    """Writes members in order."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._sum = file, sha256()

    def add(self, name: str, data: bytes) -> None:
        """Add a plain file."""
        self.add_pieces(name, len(data), (data,))

    def add_pieces(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        """Add a plain file that is too large for memory; its pieces have `size` bytes in all."""
        self._write(header_of(name, size))
        left = size
        for piece in pieces:
            self._write(piece)
            left -= len(piece)
        assert left == 0, name
        self._write(bytes(-size % BLOCK_BYTES))

    def _write(self, part: bytes) -> None:
        self._file.write(part)
        self._sum.update(part)

    def end(self) -> None:
        """Write the digest of all members and the end mark."""
        self.add(CHECKSUM, self._sum.hexdigest().encode("ascii"))
        self._file.write(_END)


class ArchiveReader:
    """Reads members in order."""

    def __init__(self, file: BinaryIO, refusal: Refusal | None = None) -> None:
        self._file, self._sum, self._refused = file, sha256(), refusal or rejected

    def next(self, wanted: str, *, max_bytes: int) -> bytes:
        """Return the content of the next member, which must have this name."""
        return b"".join(self.next_pieces(wanted, max_bytes=max_bytes, piece_bytes=max_bytes))

    def next_pieces(self, wanted: str, *, max_bytes: int, piece_bytes: int) -> Iterator[bytes]:
        """Yield the content of the next member, which must have this name, in pieces."""
        block = self._exactly(BLOCK_BYTES)
        size = block[124:136]
        if not _SIZE.fullmatch(size) or block != header_of(wanted, int(size[:11], 8)):
            raise self._refused(f"{_shown(block)} is in the place of {wanted}")
        count = int(size[:11], 8)
        if count > max_bytes:
            raise self._refused(f"{wanted} has {count} bytes, {max_bytes} are expected at most")
        for start in range(0, count, piece_bytes):
            yield self._exactly(min(piece_bytes, count - start))
        if any(self._exactly(-count % BLOCK_BYTES)):
            raise self._refused(f"there is data after {wanted}")

    def end(self) -> None:
        """Refuse anything but the digest of all members, the end mark and the end of the file."""
        expected = self._sum.hexdigest().encode("ascii")
        if self.next(CHECKSUM, max_bytes=len(expected)) != expected:
            raise self._refused("it was damaged since it was written")
        if self._exactly(len(_END)) != _END or self._read(1):
            raise self._refused("there is data after the last file")

    def _exactly(self, count: int) -> bytes:
        data = self._read(count)
        if len(data) != count:
            raise self._refused("it ends too early")
        self._sum.update(data)
        return data

    def _read(self, count: int) -> bytes:
        try:
            return self._file.read(count)
        except OSError as exc:
            raise self._refused("it cannot be read") from exc


def rejected(reason: str) -> ArtifactRejected:
    """Return the refusal of an archive."""
    hint = "is it a whole backup, and from `threegate backup`? nothing was restored"
    return ArtifactRejected(f"the backup is not usable: {reason}", code=CODE, hint=hint)


def _shown(block: bytes) -> str:
    name = block[:MAX_NAME_BYTES].rstrip(b"\0")
    return quote(name.decode("utf-8", "replace")) if name else "nothing"
