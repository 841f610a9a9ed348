"""Room kept free for what claimed runs may leave: one file for each process that claims.

Not in the log: it holds nothing, and what a crash leaves is dropped with the dead claims.
"""

import errno
import os
import re
from typing import Final

from threegate.base.errors import QuotaExceeded, StorageFailed
from threegate.handoff import states
from threegate.handoff.disk import storage_errors
from threegate.handoff.lease import Lease, is_alive
from threegate.handoff.store import Store
from threegate.policy.units import sized

_NAME: Final = re.compile(r"\A([0-9]{1,10})-([0-9]{1,20})-([0-9a-f-]{36})\Z")
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def take_room(store: Store, lease: Lease, size: int) -> None:
    """Reserve `size` bytes more for a process; raise `QuotaExceeded` without room."""
    if size == 0:
        return
    fd = _open(store, lease)
    before = os.fstat(fd).st_size
    try:
        with storage_errors("reserve space"):
            os.posix_fallocate(fd, 0, before + size)
    except StorageFailed as exc:
        _resize(store, lease, fd, before)
        cause = exc.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            detail = f"no room for the {sized(size)} that runs may leave"
            hint = "make room on the disk; nothing was spent"
            raise QuotaExceeded(detail, hint=hint) from exc
        raise
    finally:
        os.close(fd)


def give_back(store: Store, lease: Lease, size: int) -> None:
    """Free `size` bytes of what a process reserved."""
    if size == 0:
        return
    fd = _open(store, lease)
    try:
        _resize(store, lease, fd, max(0, os.fstat(fd).st_size - size))
    finally:
        os.close(fd)


def drop_dead(store: Store) -> None:
    """Free what processes reserved that no longer run."""
    directory = store.directories.fd(states.RESERVE)
    for name in os.listdir(directory):
        match = _NAME.match(name)
        if match and not is_alive(Lease(match[3], int(match[1]), int(match[2]))):
            with storage_errors("free reserved space"):
                os.unlink(name, dir_fd=directory)


def _open(store: Store, lease: Lease) -> int:
    with storage_errors("reserve space"):
        return os.open(_name(lease), _FLAGS, 0o600, dir_fd=store.directories.fd(states.RESERVE))


def _resize(store: Store, lease: Lease, fd: int, size: int) -> None:
    with storage_errors("free reserved space"):
        if size:
            os.ftruncate(fd, size)
        else:
            os.unlink(_name(lease), dir_fd=store.directories.fd(states.RESERVE))


def _name(lease: Lease) -> str:
    return f"{lease.pid}-{lease.started}-{lease.boot}"
