"""Where models are kept: the user's cache, one file per digest, shared by all workspaces.

    models/<sha256>.gguf            a file of this digest, read-only, moved here whole
    models/pulling/<sha256>/        what is there so far of a model that is being pulled
    models/pulling/<sha256>.lock    held by whoever pulls or removes it

A name here is a promise that is checked again where it matters: whoever loads a model takes
the digest of the bytes it loads.
"""

import fcntl
import hashlib
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal

from threegate.base.errors import QuotaExceeded, disk_errors
from threegate.host.models.catalogue import File, Model

PIECE_BYTES: Final = 1024 * 1024
SPARE_BYTES: Final = 64 * 1024 * 1024  # a disk is not filled to its last byte
PULLING: Final = "pulling"

State = Literal["here", "damaged", "missing"]
Told = Callable[[int], None]  # bytes since the last time


@dataclass(frozen=True, slots=True)
class Cache:
    """The models of one user."""

    root: Path

    def path(self, file: File) -> Path:
        """Return where a file lies, or will."""
        return self.root / f"{file.sha256}{file.suffix}"

    def work(self, model: Model) -> Path:
        """Return where what is there so far of a model lies."""
        return self.root / PULLING / model.sha256

    def has(self, model: Model) -> bool:
        """Tell whether there are files of a model; nothing is read."""
        return all(_is_plain(self.path(file)) for file in model.files)

    def state(self, file: File, told: Told = lambda _: None) -> State:
        """Read a file and say whether it is what its name promises."""
        path = self.path(file)
        if not _is_plain(path):
            return "missing"
        with disk_errors("read a model"), path.open("rb") as found:
            return "here" if digest_of(found, told) == file.sha256 else "damaged"

    @contextmanager
    def held(self, model: Model, *, wait: Callable[[], None]) -> Iterator[None]:
        """Be the only one who changes a model; `wait` is called if somebody else does now."""
        with disk_errors("make the place for models"):
            (self.root / PULLING).mkdir(parents=True, exist_ok=True)
            lock = (self.root / PULLING / f"{model.sha256}.lock").open("w")
        with lock:  # closing it lets go of it, and so does the end of the process
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                wait()
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def remove(self, model: Model) -> int:
        """Remove a model and what was pulled of it so far; return the bytes of its files."""
        freed = 0
        with disk_errors("remove a model"):
            for file in model.files:
                path = self.path(file)
                with suppress(FileNotFoundError):
                    size = path.lstat().st_size
                    path.unlink()
                    freed += size
        self.drop_work(model)
        return freed

    def drop_work(self, model: Model) -> None:
        """Remove what was pulled of a model so far."""
        shutil.rmtree(self.work(model), ignore_errors=True)

    def refuse_no_room(self, wanted: int) -> None:
        """Raise `QuotaExceeded` unless the disk has room for that much more."""
        with disk_errors("look at the disk"):
            free = shutil.disk_usage(self.root).free
        if free < wanted + SPARE_BYTES:
            detail = f"{megabytes(wanted)} are needed and {megabytes(free)} are free"
            hint = "`threegate model list` shows what is kept, `threegate model remove` removes it"
            raise QuotaExceeded(f"no room for the model: {detail}", hint=hint)


def digest_of(file: BinaryIO, told: Told = lambda _: None) -> str:
    """Return the SHA-256 of what is left of a file."""
    found = hashlib.sha256()
    while piece := file.read(PIECE_BYTES):
        found.update(piece)
        told(len(piece))
    return found.hexdigest()


def megabytes(size: int) -> str:
    """Return a size for people."""
    return f"{size / 1_000_000:,.0f} MB"


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
