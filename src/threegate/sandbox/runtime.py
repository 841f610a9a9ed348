"""Private directories and Unix sockets of the host, made and used by descriptor.

The only module that makes a runtime directory or binds a Unix socket on the host;
`scripts/check_shape.py` refuses both elsewhere.

SECURITY
    Other accounts can write to /tmp, and `XDG_RUNTIME_DIR` may belong to another account: root
    has it after plain `su`.  An account that can rename our directory must gain nothing.  A
    directory therefore has a random name, is checked through its descriptor, and is never
    opened by name again by the host.  A sandbox gets its socket by name, which is how mounts
    work, and proves before it runs anything that it sees the inode behind our descriptor.
    If this module is wrong, another account receives what a gate sends to the proxy or to the
    model.
"""

import os
import re
import secrets
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.handoff.claims import Lease, current_lease, is_alive
from threegate.handoff.disk import storage_errors

NOT_OURS: Final = "TG-BOX-023"
BACKLOG: Final = 64
_TEMPORARY: Final = Path("/tmp")  # noqa: S108 -- sticky; the name in it is random
_RUNTIME: Final = "threegate-"
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CLOSED: Final = 0o077  # what group and others must not have
# The name tells which process made it, so that a later one can remove what a killed one left.
_NAME: Final = re.compile(
    r"\.?threegate-[a-z-]{1,32}-([0-9]{1,10})-([0-9]{1,20})-([0-9a-f-]{36})-[0-9a-f]{16}\Z"
)


@dataclass(frozen=True, slots=True)
class PrivateDirectory:
    """A directory that only this account can enter."""

    fd: int
    path: Path  # its name when it was made; another account may have renamed it since

    @property
    def by_descriptor(self) -> Path:
        """The directory itself, in this process, under any name."""
        return Path(f"/proc/self/fd/{self.fd}")


@contextmanager
def runtime_directory(runtime: Path | None, purpose: str) -> Iterator[PrivateDirectory]:
    """Make a private directory in `runtime` if that is ours alone, else in /tmp."""
    with ExitStack() as stack:
        with storage_errors("open a place for runtime files"):
            base = _own_runtime(runtime)
            found = runtime if base is not None and runtime is not None else _TEMPORARY
            base = os.open(found, _OPEN) if base is None else base
            stack.callback(os.close, base)
        yield stack.enter_context(_made(base, found, f"{_RUNTIME}{purpose}", _RUNTIME))


@contextmanager
def private_directory(within: Path, prefix: str) -> Iterator[PrivateDirectory]:
    """Make a private directory in a place the operator chose; it is removed afterwards.

    Directories with this prefix that killed processes of our account left are removed first.
    """
    with ExitStack() as stack:
        with storage_errors("open the place for a new directory"):
            base = os.open(within, _OPEN)
            stack.callback(os.close, base)
        yield stack.enter_context(_made(base, within, prefix, f"{prefix}-"))


def abandoned(base: int, start: str) -> list[str]:
    """Return private directories of our account with this prefix whose process is dead."""
    with os.scandir(base) as entries:
        names = [entry.name for entry in entries]
    return [name for name in names if name.startswith(start) and _is_abandoned(base, name)]


def listen(directory: int, name: str, *, mode: int, backlog: int = BACKLOG) -> socket.socket:
    """Return a Unix socket that listens in a directory, with exactly this mode."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # By descriptor: nobody can exchange the directory, and its path may be of any length.
        sock.bind(f"/proc/self/fd/{directory}/{name}")
        _set_mode(directory, name, mode)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def _own_runtime(runtime: Path | None) -> int | None:
    """Return a descriptor of the runtime directory; nothing unless it is ours alone."""
    if runtime is None:
        return None
    try:
        fd = os.open(runtime, _OPEN | os.O_NOFOLLOW)
    except OSError:
        return None  # the variable may name a place that is gone
    # Not os.access: it lets root use the directory of any account.
    if _is_private(fd) and os.access(f"/proc/self/fd/{fd}", os.W_OK | os.X_OK):
        return fd
    os.close(fd)
    return None


def _is_private(fd: int) -> bool:
    found = os.fstat(fd)
    return found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & _CLOSED


@contextmanager
def _made(base: int, where: Path, prefix: str, swept: str) -> Iterator[PrivateDirectory]:
    mine = current_lease()
    lease = f"{mine.pid}-{mine.started}-{mine.boot}"
    name = f"{prefix}-{lease}-{secrets.token_hex(8)}"
    assert _NAME.match(name), "a later process must recognise it"
    with ExitStack() as stack:
        with storage_errors("make a private directory"):
            for dead in abandoned(base, swept):
                shutil.rmtree(dead, ignore_errors=True, dir_fd=base)
            os.mkdir(name, 0o700, dir_fd=base)
            stack.callback(shutil.rmtree, name, ignore_errors=True, dir_fd=base)
            fd = os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=base)
            stack.callback(os.close, fd)
        # Between the two calls above, the owner of `base` can put another directory there.
        if not _is_private(fd) or os.listdir(fd):
            raise GateUnavailable("another account exchanged a new directory", code=NOT_OURS)
        yield PrivateDirectory(fd, where / name)


def _is_abandoned(base: int, name: str) -> bool:
    match = _NAME.match(name)
    if match is None:
        return False
    with suppress(OSError):  # another process may be faster
        info = os.stat(name, dir_fd=base, follow_symlinks=False)
        ours = info.st_uid == os.geteuid() and stat.S_ISDIR(info.st_mode)
        return ours and not is_alive(Lease(match[3], int(match[1]), int(match[2])))
    return False


def _set_mode(directory: int, name: str, mode: int) -> None:
    # Not by name: in a directory that others may write to, it could be a link to any file by now.
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise GateUnavailable("another account exchanged a new socket", code=NOT_OURS)
        os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)
