"""The seal of a derived file: a record of the file as ThreeGate last wrote it.

A seal holds the boot, the file's identity (device, inode, size, times) and the SHA-256 of its
content.  It is stored in the user's state directory, not in the workspace.  During the same boot
the identity is enough: no ordinary account can set a file's change time.  After a reboot the disk
may have been in another machine, where times can be set, so the content is compared once and the
seal rewritten.

SECURITY
    If this module is wrong, an edited index is believed.  An account that can write both the
    workspace and the state directory can forge a seal; it can also replace the program.
"""

import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import StorageFailed

_MAX_SEAL_BYTES: Final = 400
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")

Stat = list[int]


class Seal:
    """The open seal of one file; it is also the lock for all users of the file."""

    def __init__(self, seals: Path, path: Path, *, writable: bool = True) -> None:
        flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
        self.fd = os.open(seal_of(seals, path), flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._path = path

    def data(self) -> bytes:
        """Return the bytes of the seal; empty while the file is being changed."""
        return os.pread(self.fd, _MAX_SEAL_BYTES, 0)

    def fits(self) -> bool:
        """Tell whether the file is the sealed one."""
        sealed, found = _read(self.data()), stat_of(self._path)
        if sealed is None or found is None:
            return False
        if sealed["boot"] == boot_id():
            return bool(sealed["file"] == found)
        return sealed["sha256"] is not None and sealed["sha256"] == _digest(self._path)

    def is_of_this_boot(self) -> bool:
        """Tell whether the file's times were sealed since the machine started."""
        sealed = _read(self.data())
        return sealed is not None and sealed["boot"] == boot_id()

    def empty(self) -> None:
        """Mark the file as being changed."""
        os.ftruncate(self.fd, 0)

    def write(self, *, digest: bool = True) -> None:
        """Seal the file in its present state; without a digest, until the next boot."""
        content = _digest(self._path) if digest else None
        value = {"boot": boot_id(), "file": stat_of(self._path), "sha256": content}
        self.restore(json.dumps(value).encode("ascii"))

    def restore(self, data: bytes) -> None:
        """Restore a seal, of a file that was not changed after all."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, data, 0)

    @contextmanager
    def locked(self, how: int = fcntl.LOCK_EX) -> Iterator[None]:
        """Hold the lock of the file."""
        with locked(self.fd, how):
            yield

    def close(self) -> None:
        """Close the seal."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@cache
def boot_id() -> str:
    """Return the id of this boot."""
    return _BOOT.read_text("ascii").strip()


def stat_of(path: Path | str) -> Stat | None:
    """Return the identity of a plain file of this user, which every change alters; else None."""
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1 or info.st_uid != os.geteuid():
        return None
    return [info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]


def make_private(seals: Path) -> None:
    """Make the directory of seals, accessible only to this user."""
    seals.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = seals.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise StorageFailed(f"{seals} is not a directory of this user alone")


def seal_of(seals: Path, path: Path) -> Path:
    """Return the path of a file's seal."""
    # The directory is resolved, the file's own name is not: it may be a link by now.
    return seals / sha256_hex(os.fsencode(path.parent.resolve() / path.name))


@contextmanager
def locked(fd: int, how: int) -> Iterator[None]:
    """Hold a lock on a descriptor."""
    fcntl.flock(fd, how)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _digest(path: Path) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except ValueError:
        return None
    is_seal = isinstance(found, dict) and set(found) == {"boot", "file", "sha256"}
    return found if is_seal else None
