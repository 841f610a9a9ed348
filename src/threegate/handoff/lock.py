"""The one lock of a workspace, held for the milliseconds of a transition."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from threegate.audit.segment import is_read_only
from threegate.base.errors import HandoffTampered, StorageFailed, WorkspaceBusy

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
        # A full table of files or a read-only disk is nobody's attack.
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
