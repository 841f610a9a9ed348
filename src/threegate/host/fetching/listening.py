"""The socket of a proxy or a model: a name in a directory that nobody else passes through.

The one module of the host that makes a socket.  It listens on a file, connects to nothing and
reads nothing: the descriptor is handed to the box that serves, which takes what comes.  A gate
sees the file because it is bound into its box, and for no other reason.
"""

import errno
import fcntl
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.errors import GateUnavailable
from threegate.handoff.disk import storage_errors
from threegate.handoff.lease import Lease, current_lease, is_alive
from threegate.text import visible

SOCKET: Final = "served.sock"
BACKLOG: Final = 64
SERVED_ALREADY: Final = "TG-INF-002"
# Inside, 3 is the channel; a descriptor keeps its number on the way in.
FIRST_FD: Final = 10
SHARED: Final = 0o660
PRIVATE: Final = 0o600  # for processes of the operator's own account
# Whoever else may write to the directory could have put a link there, to any file of ours.
_LOCK_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NAME: Final = re.compile(
    r"threegate-(?:fetch|download|run-[0-9a-f]{8}|model-(?:proxy|[0-9a-f]{8}))-([0-9]{1,10})-([0-9]{1,20})-([0-9a-f-]{36})\Z"
)


@dataclass(frozen=True, slots=True)
class Listening:
    """A listening socket and where it lies."""

    path: Path
    fd: int


@contextmanager
def listening(runtime: Path | None, *, purpose: str = "fetch") -> Iterator[Listening]:
    """Listen in a new private directory, which is gone afterwards."""
    base = runtime if runtime is not None else Path(tempfile.gettempdir())
    with storage_errors("make a directory for a socket"):
        _drop_dead(base)
        mine = current_lease()
        name = f"threegate-{purpose}-{mine.pid}-{mine.started}-{mine.boot}"
        assert _NAME.match(name), "what a killed process leaves must be found again"
        directory = base / name
        directory.mkdir(mode=0o700)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        with storage_errors("make a socket"):
            fd = _listen(directory)
        stack.callback(os.close, fd)
        yield Listening(directory / SOCKET, fd)


@contextmanager
def listening_at(path: Path, *, who: str = "proxy", mode: int = SHARED) -> Iterator[Listening]:
    """Listen at a place the operator chose; its directory, group and mode decide who may connect.

    Raises `GateUnavailable` if somebody else serves there; what a dead one left is replaced.
    """
    with ExitStack() as stack:
        with storage_errors(f"make the socket of the {who}"):
            lock = os.open(path.with_name(f".{path.name}.lock"), _LOCK_FLAGS, 0o600)
            stack.callback(os.close, lock)
            _refuse_second(lock, path, who)
            with suppress(FileNotFoundError):
                if not stat.S_ISSOCK(path.lstat().st_mode):
                    raise FileExistsError(errno.EEXIST, "not a socket")
                path.unlink()
            fd = _listen(path.parent, path.name, mode=mode)
            stack.callback(os.close, fd)
            stack.callback(path.unlink, missing_ok=True)
        yield Listening(path, fd)


def _refuse_second(lock: int, path: Path, who: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        detail = f"another {who} serves at {visible(str(path))}"
        raise GateUnavailable(detail, code=SERVED_ALREADY, hint="end that one first") from exc


def _listen(directory: Path, name: str = SOCKET, *, mode: int | None = None) -> int:
    place = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            # By descriptor: the name of a socket has room for 107 bytes, a path may be longer.
            sock.bind(f"/proc/self/fd/{place}/{name}")
            if mode is not None:
                os.chmod(name, mode, dir_fd=place)
            if os.geteuid() == 0 and mode != PRIVATE:
                # The gates have uids of their own then.  Their way is the bind: the directory
                # stays closed to everybody.
                os.chmod(name, 0o666, dir_fd=place)  # noqa: S103
            sock.listen(BACKLOG)
            return fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
    finally:
        os.close(place)


def _drop_dead(base: Path) -> None:
    """Remove what killed processes of this user left here."""
    with os.scandir(base) as entries:
        found = [entry for entry in entries if _NAME.match(entry.name)]
    for entry in found:
        match = _NAME.match(entry.name)
        assert match is not None
        with suppress(OSError):  # another process may be faster
            info = entry.stat(follow_symlinks=False)
            ours = info.st_uid == os.geteuid() and stat.S_ISDIR(info.st_mode)
            if ours and not is_alive(Lease(match[3], int(match[1]), int(match[2]))):
                shutil.rmtree(entry.path)
