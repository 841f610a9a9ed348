"""What a crash left after the last whole line is kept, and recorded, before it is cut off.

The bytes go to `torn/<seq>-<sha256>.pending`; once the log holds the event that names
them, the suffix goes.  So a second crash, at any point of the recovery, is recovered
too and hides nothing.

SECURITY
    The bytes are anybody's: they are copied and hashed, never read for meaning.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from threegate.audit.segment import publish, write_new

DIRECTORY: Final = "torn"

_SUFFIX: Final = ".pending"
_PENDING: Final = re.compile(r"([0-9]{12,16})-([0-9a-f]{64})\.pending")


@dataclass(frozen=True, slots=True)
class Torn:
    """Kept bytes the log does not mention yet; `seq` is where they were cut off."""

    name: str
    seq: int
    sha256: str
    length: int


def keep(dir_fd: int, data: bytes, *, seq: int) -> None:
    """Keep `data`, durably, as pending; raise OSError."""
    with suppress(FileExistsError):
        os.mkdir(DIRECTORY, 0o700, dir_fd=dir_fd)
        os.fsync(dir_fd)
    name = f"{seq:012d}-{sha256(data).hexdigest()}{_SUFFIX}"
    with _directory(dir_fd) as torn_fd:
        fd = write_new(torn_fd, name, data)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        publish(torn_fd, name)
        os.fsync(torn_fd)


def pending(dir_fd: int) -> list[Torn]:
    """Return what is kept and not yet recorded, oldest first; raise OSError."""
    try:
        with _directory(dir_fd) as torn_fd:
            matches = [_PENDING.fullmatch(name) for name in sorted(os.listdir(torn_fd))]
            return [
                Torn(match[0], int(match[1]), match[2], _length(torn_fd, match[0]))
                for match in matches
                if match
            ]
    except FileNotFoundError:
        return []


def settle(dir_fd: int, torn: Torn) -> None:
    """Note that the log holds the event for `torn`; raise OSError."""
    with _directory(dir_fd) as torn_fd:
        name = torn.name.removesuffix(_SUFFIX)
        os.rename(torn.name, name, src_dir_fd=torn_fd, dst_dir_fd=torn_fd)
        os.fsync(torn_fd)


def _length(torn_fd: int, name: str) -> int:
    return os.stat(name, dir_fd=torn_fd, follow_symlinks=False).st_size


@contextmanager
def _directory(dir_fd: int) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(DIRECTORY, flags, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)
