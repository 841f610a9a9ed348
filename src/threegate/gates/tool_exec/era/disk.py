"""The disk of inputs, looked at by the gate itself before the guest may see it.

The host lays the inputs out as a read-only file system, a pure function of their names and
sizes.  The gate makes the same layout and compares: what the guest will mount holds these
files, with these bytes, and nothing else.

SECURITY
    If this module is wrong, a job reads other inputs than the approved ones.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from threegate.base.erofs import ErofsFile, lay_out
from threegate.gates.tool_exec.approved import Given
from threegate.gates.tool_exec.era.messages import GivenInput as Said
from threegate.keys.sshsig import sha256_of

PIECE_BYTES: Final = 256 * 1024  # a frame holds no more


class DiskBroken(Exception):
    """The disk is not the one that belongs to these inputs."""


def disk_inputs(fd: int, inputs: Sequence[Said]) -> Mapping[str, Given]:
    """Return what lies on the disk, by name, or raise `DiskBroken`."""
    if not inputs:
        return {}
    layout = lay_out({item.name: ErofsFile(item.bytes) for item in inputs})
    if _read(fd, 0, len(layout.metadata)) != layout.metadata:
        raise DiskBroken("the disk of inputs is not laid out as it should be")

    def given(item: Said) -> Given:
        at, size = layout.places.get(item.name, (0, 0))
        return Given(item.bytes, lambda: sha256_of(_pieces(fd, at, size)))

    return {item.name: given(item) for item in inputs}


def disk_contents(fd: int, inputs: Sequence[Said]) -> Iterator[tuple[Said, Iterator[bytes]]]:
    """Yield each input with its bytes, from a disk that `disk_inputs` has looked at."""
    layout = lay_out({item.name: ErofsFile(item.bytes) for item in inputs})
    for item in inputs:
        yield item, _pieces(fd, *layout.places.get(item.name, (0, 0)))


def _pieces(fd: int, at: int, size: int) -> Iterator[bytes]:
    for begin in range(at, at + size, PIECE_BYTES):
        yield _read(fd, begin, min(PIECE_BYTES, at + size - begin))


def _read(fd: int, at: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = os.pread(fd, size - len(data), at + len(data))
        if not piece:
            raise DiskBroken("the disk of inputs is too short")
        data += piece
    return bytes(data)
