"""Files of a workspace, opened without following anything.

SECURITY
    Names and contents on disk may have been changed by anybody with the operator's
    uid or a broken tool.  Every file is opened by name below a directory descriptor,
    without following links, and refused unless it is a regular file of ours with one
    name.  If this module is wrong, the host reads a file that it did not write.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from threegate.audit.segment import is_read_only
from threegate.base.errors import HandoffTampered, StorageFailed, WorkspaceBusy, WorkspaceUnusable
from threegate.base.text import quote
from threegate.handoff.states import DIRECTORIES

FILE_MODE: Final = 0o444
OTHER_MODE: Final = "TG-HND-005"
PART_BYTES: Final = 1 << 20
DIRECTORY_MODE: Final = 0o700
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def storage_errors(act: str) -> Iterator[None]:
    """Turn an `OSError` into the error the operator can act on."""
    try:
        yield
    except OSError as exc:
        name = errno.errorcode.get(exc.errno or 0, "unknown")
        raise StorageFailed(f"cannot {act}: {name}", hint=_storage_hint(exc.errno)) from exc


def _storage_hint(number: int | None) -> str:
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "make room on the disk; nothing was changed"
    return "check the disk and the permissions of the workspace; nothing was changed"


class Directories:
    """Open descriptors of all state directories of one workspace."""

    def __init__(self, fds: Mapping[str, int]) -> None:
        self._fds = fds

    @classmethod
    def open(cls, root: Path) -> "Directories":
        """Open every directory below `root`, refusing links, strangers and open modes."""
        fds: dict[str, int] = {}
        try:
            for name in DIRECTORIES:
                fds[name] = _open_below(root, name)
        except BaseException:
            for fd in fds.values():
                os.close(fd)
            raise
        return cls(fds)

    def fd(self, directory: str) -> int:
        """Return the descriptor of a state directory."""
        return self._fds[directory]

    def close(self) -> None:
        """Close all descriptors, only once: the kernel reuses their numbers."""
        fds, self._fds = self._fds, {}
        for fd in fds.values():
            os.close(fd)


def make_directories(root: Path) -> None:
    """Create every state directory below `root`."""
    for name in DIRECTORIES:
        path = root
        for part in name.split("/"):
            path = path / part
            with storage_errors(f"create {name}"):
                path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)


def _open_below(root: Path, name: str) -> int:
    fd = _open_directory(str(root), None, name)
    for part in name.split("/"):
        try:
            below = _open_directory(part, fd, name)
        finally:
            os.close(fd)
        fd = below
    return fd


def _open_directory(part: str, parent: int | None, name: str) -> int:
    try:
        fd = os.open(part, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError as exc:
        raise HandoffTampered(f"directory {name} is missing") from exc
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENOTDIR):
            raise HandoffTampered(f"{name} is not a plain directory") from exc
        raise WorkspaceUnusable(f"cannot open {name}: {os.strerror(exc.errno or 0)}") from exc
    info = os.fstat(fd)
    if (info.st_uid != os.geteuid() or info.st_mode & 0o022) and not is_read_only(fd):
        os.close(fd)
        raise HandoffTampered(f"{name} belongs to, or can be written by, somebody else")
    return fd


def _refuse_strange(info: os.stat_result, name: str, mode: int | None, fd: int) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise HandoffTampered(f"{quote(name)} is not a regular file", code="TG-HND-002")
    if info.st_nlink != 1:
        detail = f"{quote(name)} has {info.st_nlink} names"
        raise HandoffTampered(detail, code="TG-HND-003")
    strange = info.st_uid != os.geteuid() or mode not in (None, stat.S_IMODE(info.st_mode))
    if not strange or is_read_only(fd):  # read-only: nobody can write it
        return
    if info.st_uid != os.geteuid():
        raise HandoffTampered(f"{quote(name)} belongs to somebody else", code="TG-HND-004")
    found = stat.S_IMODE(info.st_mode)
    hint = "`threegate audit verify` tells whether only modes differ, and how to mend that"
    raise HandoffTampered(f"{quote(name)} has mode {found:04o}", code=OTHER_MODE, hint=hint)


def read_file(directory: int, name: str, *, max_bytes: int, mode: int | None = FILE_MODE) -> bytes:
    """Return the content of a regular file of ours; raise `FileNotFoundError` if absent."""
    with _opened(directory, name, max_bytes=max_bytes, mode=mode) as (fd, info):
        data = _read_all(fd, info.st_size)
        _refuse_changed(fd, info, name, len(data))
    return data


@dataclass(frozen=True, slots=True)
class Digested:
    """Digest and size of a file's content."""

    sha256: str
    size: int
    mode: int


def digest_file(directory: int, name: str, *, max_bytes: int) -> Digested:
    """Return the digest of a regular file of ours of any mode, read in parts.

    Raises `FileNotFoundError`, `HandoffTampered` or `StorageFailed` as `read_file` does.
    """
    digest, size = sha256(), 0
    with _opened(directory, name, max_bytes=max_bytes, mode=None) as (fd, info):
        while part := os.read(fd, PART_BYTES):
            digest.update(part)
            size += len(part)
            if size > info.st_size:
                break  # it grows while it is read
        _refuse_changed(fd, info, name, size)
    return Digested(digest.hexdigest(), size, stat.S_IMODE(info.st_mode))


@contextmanager
def _opened(
    directory: int, name: str, *, max_bytes: int, mode: int | None
) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file of ours; raise `FileNotFoundError` if absent."""
    try:
        fd = os.open(name, _READ, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENXIO):  # a symlink; a socket or a FIFO
            detail = f"{quote(name)} is not a regular file"
            raise HandoffTampered(detail, code="TG-HND-002") from exc
        raise StorageFailed(f"cannot read {quote(name)}: {os.strerror(exc.errno or 0)}") from exc
    try:
        info = os.fstat(fd)
        _refuse_strange(info, name, mode, fd)
        if info.st_size > max_bytes:
            detail = f"{quote(name)} has {info.st_size} bytes, limit {max_bytes}"
            raise HandoffTampered(detail, code="TG-HND-006")
        with storage_errors(f"read {quote(name)}"):
            yield fd, info
    finally:
        os.close(fd)


def _refuse_changed(fd: int, before: os.stat_result, name: str, read: int) -> None:
    if _version(os.fstat(fd)) != _version(before) or read != before.st_size:
        raise HandoffTampered(f"{quote(name)} changed while it was read", code="TG-HND-007")


def read_start(directory: int, name: str, size: int) -> bytes:
    """Return the first bytes of a file, unchecked, for a first guess; raise `OSError`."""
    fd = os.open(name, _READ, dir_fd=directory)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def _version(info: os.stat_result) -> tuple[int, int, int, int]:
    return (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def _read_all(fd: int, size: int) -> bytes:
    data = os.read(fd, size + 1)
    while len(data) < size:
        more = os.read(fd, size + 1 - len(data))
        if not more:
            break
        data += more
    return data


def check_file(directory: int, name: str) -> int | None:
    """Return the size of a file of ours without reading it, or None if it is not there."""
    try:
        info = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _refuse_strange(info, name, FILE_MODE, directory)
    return info.st_size


def create_file(directory: int, name: str, data: bytes) -> int:
    """Write a new file and return its descriptor; the caller makes it durable."""
    fd = os.open(name, _CREATE, 0o600, dir_fd=directory)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, FILE_MODE)
    except BaseException:
        os.close(fd)
        raise
    return fd


# The one lock of a workspace, held for the milliseconds of a transition.

LOCK_NAME: Final = "lock"
WAIT_SECONDS: Final = 30.0
_FIRST_PAUSE_SECONDS: Final = 0.0005
_LONGEST_PAUSE_SECONDS: Final = 0.02


def open_lock(directory: int) -> int:
    """Return a descriptor of the lock file in `directory`, made if need be.

    On a read-only file system it may be missing, and is -1: nobody writes there.
    """
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    read_only = is_read_only(directory)
    flags |= os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
    try:
        fd = os.open(LOCK_NAME, flags, 0o600, dir_fd=directory)
    except OSError as exc:
        if read_only and exc.errno == errno.ENOENT:
            return -1
        if exc.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _not_plain() from exc
        # A full file table or a read-only disk is not tampering.
        why = errno.errorcode.get(exc.errno or 0, "unknown")
        raise StorageFailed(f"cannot open the workspace lock: {why}") from exc
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
        os.close(fd)
        raise _not_plain()
    return fd


def _not_plain() -> HandoffTampered:
    return HandoffTampered("the workspace lock is not a plain file")


@contextmanager
def held(fd: int, *, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold the lock; raise `WorkspaceBusy` if somebody else keeps it too long."""
    if fd < 0:
        yield
        return
    deadline = time.monotonic() + wait_seconds
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as exc:
            if time.monotonic() >= deadline:
                raise WorkspaceBusy("the workspace lock was not free in time") from exc
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)
