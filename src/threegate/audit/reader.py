"""Reading segments along the chain, to find the end of the log or to list entries.

At most one block of one segment is in memory.

SECURITY
    Reads files that may have been edited; raises Broken for a line that does not follow.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from threegate.audit.chain import Chain, Links
from threegate.audit.entry import (
    MAX_LINE_BYTES,
    RECOVERED,
    SEGMENT_EVENTS,
    Entry,
    LogBroken,
    LogFault,
    parse_seal,
)
from threegate.audit.segment import (
    SEALED_MODE,
    is_read_only,
    list_segments,
    open_directory,
    open_segment,
    publish,
    read_blocks,
    read_last_line,
    refuse_gap,
    unavailable,
    write_new,
)

Visit = Callable[[Entry], None]


@dataclass(slots=True)
class Followed:
    """How the last segment ends."""

    length: int = 0  # of its whole lines, in bytes
    tail: bytes | None = None  # what a crash left after them; None if there was none
    recovered: dict[str, int] = field(default_factory=dict)  # digest of torn bytes -> last event

    def note(self, links: Links) -> None:
        """Remember which torn bytes the log already mentions."""
        if RECOVERED.encode() in links.kinds:
            found = (entry for entry in links.entries() if entry.kind == RECOVERED)
            self.recovered.update((str(entry.data.get("sha256")), entry.seq) for entry in found)


def stand_before_newest(dir_fd: int) -> Chain:
    """Return a chain before the newest segment that has a whole line, linked to the one before."""
    segments, _ = list_segments(dir_fd)
    refuse_gap(segments)
    newest = segments[-1]
    if newest and not _has_line(dir_fd, newest):
        newest -= 1
    if newest == 0:
        return Chain()
    fd = open_segment(dir_fd, newest - 1)
    try:
        seal = parse_seal(read_last_line(fd, segment=newest - 1), segment=newest - 1)
    finally:
        os.close(fd)
    return Chain(segment=newest, prev=seal.digest, time=seal.time)


def follow(dir_fd: int, chain: Chain, *, start: int, visit: Visit | None) -> Followed:
    """Take `chain` from byte `start` of its segment to the end of the log."""
    followed = Followed(start)
    while (fd := _open_next(dir_fd, chain)) is not None:
        segment = chain.segment
        try:
            tail = _follow_file(fd, chain, followed, visit)
            if chain.segment == segment:
                followed.tail = tail if tail or chain.position == 0 else None
                return followed
            if tail:
                raise LogBroken(LogFault.EXTRA, segment=segment, seq=chain.size)
            _seal_mode(fd)
        finally:
            os.close(fd)
        followed.length = 0
    return followed


def read_entries(directory: Path, *, start: int, end: Chain) -> Iterator[Entry]:
    """Yield the entries from `start` up to `end`."""
    chain = Chain(segment=min(start, end.size) // SEGMENT_EVENTS)
    dir_fd = open_directory(directory)  # our own: the log may be closed before we are done
    try:
        while chain.size < end.size:
            for entry in _read_segment(dir_fd, chain, upto=end.size):
                if entry.seq >= start:
                    yield entry
    finally:
        os.close(dir_fd)
    if start < end.size and chain.digest != end.digest:
        raise LogBroken(LogFault.CHAIN, segment=(end.size - 1) // SEGMENT_EVENTS, seq=end.size - 1)


def _read_segment(dir_fd: int, chain: Chain, *, upto: int) -> Iterator[Entry]:
    segment = chain.segment
    fd = open_segment(dir_fd, segment)
    try:
        for block in read_blocks(fd, segment=segment):
            yield from chain.feed(block.lines[: upto - chain.size], segment=segment).entries()
            if chain.size == upto:
                return
    finally:
        os.close(fd)
    if chain.segment == segment:
        raise LogBroken(LogFault.SHRUNK, segment=segment, seq=chain.size)


def _follow_file(fd: int, chain: Chain, followed: Followed, visit: Visit | None) -> bytes:
    segment, tail = chain.segment, b""
    for block in read_blocks(fd, segment=segment, start=followed.length):
        links = chain.feed(block.lines, segment=segment)
        followed.note(links)
        if visit is not None:
            for entry in links.entries():
                visit(entry)
        followed.length, tail = block.end, block.tail
    if chain.size == 0:  # a log is born with its first line
        raise LogBroken(LogFault.HEADER, segment=0, seq=0)
    if len(tail.rstrip(b"\0")) >= MAX_LINE_BYTES:
        raise LogBroken(LogFault.TOO_LONG, segment=segment, seq=chain.size)
    return tail


def _open_next(dir_fd: int, chain: Chain) -> int | None:
    """Return the segment that continues the chain, or None after the last seal."""
    try:
        return open_segment(dir_fd, chain.segment)
    except LogBroken as exc:
        if exc.reason is LogFault.MISSING and chain.position == 0 and chain.size > 0:
            return None
        raise


def _has_line(dir_fd: int, segment: int) -> bool:
    fd = open_segment(dir_fd, segment)
    try:
        return b"\n" in os.pread(fd, MAX_LINE_BYTES, 0)
    except OSError as exc:
        raise unavailable(exc, "read") from exc
    finally:
        os.close(fd)


def _seal_mode(fd: int) -> None:
    """Make a sealed file read-only, in case a crash came first."""
    try:
        if os.fstat(fd).st_mode & 0o777 != SEALED_MODE and not is_read_only(fd):
            os.fchmod(fd, SEALED_MODE)
    except OSError as exc:
        raise unavailable(exc, "seal") from exc


# Bytes after the last whole line, left by a crash: kept and recorded before they are cut off.
#
# They go to `torn/<seq>-<sha256>.pending`; the suffix is removed once the log holds the event that
# names them. A second crash at any point of the recovery is therefore recovered too, and hides
# nothing.
#
# SECURITY: anybody may have written these bytes. They are copied and hashed, never interpreted.

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
