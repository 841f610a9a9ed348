"""Segment files: checked when they are opened, read in blocks, created durably.

Every name is resolved below a descriptor of the log's directory, which is itself
opened without following a link.

SECURITY
    The files may have been replaced by somebody else's: links, FIFOs, hard links and
    foreign owners are refused before a byte is read, and no line or tail of any length
    is held in memory beyond the limits of the format.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from threegate.audit.entry import (
    MAX_LINE_BYTES,
    MAX_TORN_BYTES,
    SEGMENT_EVENTS,
    LogBroken,
    LogFault,
)
from threegate.base.errors import AuditTampered, AuditUnavailable

OPEN_MODE: Final = 0o600
SEALED_MODE: Final = 0o444
READ_BYTES: Final = 256 * 1024

_NAME: Final = re.compile(r"segment-([0-9]{8})\.jsonl")
_HELD_BY: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
# What open() answers when the name is not a plain file, before fstat can say so.
_NOT_PLAIN: Final = frozenset({errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR, errno.ENODEV})


def unavailable(exc: OSError, act: str) -> AuditUnavailable:
    """Return the error for an `act` that the operating system refused."""
    name = errno.errorcode.get(exc.errno or 0, "unknown error")
    hint = "free some space on the disk" if exc.errno in {errno.ENOSPC, errno.EDQUOT} else None
    return AuditUnavailable(f"cannot {act} the audit log ({name}); nothing was done", hint=hint)


def segment_name(segment: int) -> str:
    """Return the file name of `segment`."""
    return f"segment-{segment:08d}.jsonl"


def is_read_only(fd: int) -> bool:
    """Tell whether a file is on a read-only file system, where owner and mode protect nothing."""
    return bool(os.fstatvfs(fd).f_flag & os.ST_RDONLY)


def open_directory(directory: Path) -> int:
    """Return a descriptor of the log's directory; raise AuditUnavailable or AuditTampered."""
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as exc:
        if exc.errno in _NOT_PLAIN:
            raise AuditTampered("the audit log's directory is not a directory") from exc
        raise unavailable(exc, "open") from exc
    if os.fstat(fd).st_uid != os.geteuid() and not is_read_only(fd):
        os.close(fd)
        raise AuditTampered("the audit log's directory belongs to another user")
    return fd


def make_directory(directory: Path) -> None:
    """Make the log's directory and what belongs into it, durably; raise AuditUnavailable."""
    try:
        for path in (directory, directory / "checkpoints", directory / "torn"):
            path.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
    except OSError as exc:
        raise unavailable(exc, "create") from exc


def list_segments(dir_fd: int) -> tuple[list[int], list[str]]:
    """Return the numbers of the segments in order, and every other name."""
    try:
        names = os.listdir(dir_fd)
    except OSError as exc:
        raise unavailable(exc, "list") from exc
    numbers: list[int] = []
    others: list[str] = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match:
            numbers.append(int(match[1]))
        else:
            others.append(name)
    return sorted(numbers), sorted(others)


def refuse_gap(segments: list[int]) -> None:
    """Raise Broken if the segments do not count up from zero."""
    for expected, number in enumerate(segments):
        if number != expected:
            raise _broken(LogFault.MISSING, expected)
    if not segments:
        raise _broken(LogFault.MISSING, 0)


def open_segment(dir_fd: int, segment: int, *, writable: bool = False) -> int:
    """Return a descriptor of the segment's file, once it is known to be a plain one of ours."""
    flags = os.O_RDWR | os.O_APPEND if writable else os.O_RDONLY
    try:
        fd = os.open(segment_name(segment), flags | _HELD_BY, dir_fd=dir_fd)
    except FileNotFoundError as exc:
        raise _broken(LogFault.MISSING, segment) from exc
    except OSError as exc:
        if exc.errno in _NOT_PLAIN:
            raise _broken(LogFault.FILE, segment) from exc
        raise unavailable(exc, "open") from exc
    if not is_plain(os.fstat(fd), fd):
        os.close(fd)
        raise _broken(LogFault.FILE, segment)
    return fd


def is_plain(status: os.stat_result, fd: int) -> bool:
    """Return whether this is a regular file of ours that has no other name.

    `fd` is the file or its directory: on a read-only file system a file may be anybody's.
    """
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_nlink == 1  # a second name is a second writer
        and (status.st_uid == os.geteuid() or is_read_only(fd))
    )


class LineBlock(NamedTuple):
    """Whole lines, the bytes after the last of them, and where in the file those begin."""

    lines: list[bytes]
    tail: bytes
    end: int


def read_blocks(fd: int, *, segment: int, start: int = 0) -> Iterator[LineBlock]:
    """Yield the file from `start` on; the tail of the last block is how the file ends."""
    tail = b""
    while True:
        try:
            block = os.pread(fd, READ_BYTES, start)
        except OSError as exc:
            raise unavailable(exc, "read") from exc
        if not block:
            return
        start += len(block)
        *lines, tail = (tail + block).split(b"\n")
        if len(tail) > MAX_TORN_BYTES:
            raise _broken(LogFault.TOO_LONG, segment)
        yield LineBlock(lines, tail, start - len(tail))


def read_last_line(fd: int, *, segment: int) -> bytes:
    """Return the last line of a sealed segment without reading the rest."""
    try:
        size = os.fstat(fd).st_size
        end = os.pread(fd, MAX_LINE_BYTES, max(0, size - MAX_LINE_BYTES))
    except OSError as exc:
        raise unavailable(exc, "read") from exc
    if not end.endswith(b"\n"):
        raise LogBroken(LogFault.UNSEALED, segment=segment, seq=(segment + 1) * SEGMENT_EVENTS - 1)
    return end[end.rfind(b"\n", 0, -1) + 1 : -1]


def write_once(fd: int, data: bytes) -> None:
    """Write `data` with one call, or raise OSError."""
    if os.write(fd, data) != len(data):
        raise OSError(errno.ENOSPC, "short write")  # what a full disk and a file size limit do


def write_new(dir_fd: int, name: str, data: bytes) -> int:
    """Write a file under a temporary name and return its descriptor; raise OSError.

    Nobody reads it until `publish` gives it its name.
    """
    with suppress(FileNotFoundError):  # left behind by a crash
        os.unlink(name + ".new", dir_fd=dir_fd)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
    fd = os.open(name + ".new", flags | _HELD_BY, OPEN_MODE, dir_fd=dir_fd)
    try:
        write_once(fd, data)
    except OSError:
        os.close(fd)
        discard(dir_fd, name)
        raise
    return fd


def discard(dir_fd: int, name: str) -> None:
    """Remove what `write_new` wrote, if that is possible; a leftover is never read."""
    with suppress(OSError):
        os.unlink(name + ".new", dir_fd=dir_fd)


def publish(dir_fd: int, name: str) -> None:
    """Give a file its name; raise OSError.  Lasting only once the directory is synced."""
    os.rename(name + ".new", name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


def _broken(reason: LogFault, segment: int) -> LogBroken:
    return LogBroken(reason, segment=segment, seq=segment * SEGMENT_EVENTS)
