"""The socket of a proxy, a model or the console: listening, and handed on as a descriptor.

It connects to nothing and reads nothing: the descriptor goes to the sandbox that serves.  A gate
sees the file because it is bound into its sandbox, and for no other reason.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.base.text import visible
from threegate.handoff.disk import storage_errors
from threegate.sandbox.runtime import listen, runtime_directory

SOCKET: Final = "served.sock"
SERVED_ALREADY: Final = "TG-INF-002"
# Inside, 3 is the channel; a descriptor keeps its number on the way in.
FIRST_FD: Final = 10
SHARED: Final = 0o660
PRIVATE: Final = 0o600  # for processes of the operator's own account
# Whoever else may write to the directory could have put a link there, to any file of ours.
_LOCK_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Listening:
    """A listening socket and where it lies."""

    path: Path
    fd: int


@contextmanager
def listening(runtime: Path | None, *, purpose: str = "fetch") -> Iterator[Listening]:
    """Listen in a new private directory, which is gone afterwards.

    The path is below the directory's descriptor: nobody can put another socket there.
    """
    with runtime_directory(runtime, purpose) as place, ExitStack() as stack:
        with storage_errors("make a socket"):
            fd = _listen(place.fd, SOCKET, mode=PRIVATE, gates=True)
        stack.callback(os.close, fd)
        yield Listening(place.by_descriptor / SOCKET, fd)


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
            place = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, place)
            fd = _listen(place, path.name, mode=mode, gates=mode != PRIVATE)
            stack.callback(os.close, fd)
            stack.callback(path.unlink, missing_ok=True)
        yield Listening(path, fd)


def _refuse_second(lock: int, path: Path, who: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        detail = f"another {who} serves at {visible(str(path))}"
        raise GateUnavailable(detail, code=SERVED_ALREADY, hint="end that one first") from exc


def _listen(directory: int, name: str, *, mode: int, gates: bool) -> int:
    if gates and os.geteuid() == 0:
        # The gates have uids of their own then.  Their only way to the socket is the bind: the
        # directory stays closed to them.
        mode = 0o666
    with listen(directory, name, mode=mode) as sock:
        return fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
