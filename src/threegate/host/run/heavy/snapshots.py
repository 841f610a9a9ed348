"""Snapshots of booted guests: made once, resumed for every run, kept in the user's cache.

    templates/<key>/state              the machine as the engine wrote it, read-only
    templates/<key>/template.json      what it was made from, its size and digest
    templates/<key>/probed-<boot>-...  a clone of it answered since this machine was booted, with
                                       the accelerator as it is now
    templates/making-<key>-XXXX/       one that is being made, or that `kill -9` left
    templates/<key>.lock               held while it is made

The key is a digest over image, layers, imports, engine and shape: if one of them changes, it is
another snapshot.  A run reads the state as a stream through a read-only descriptor; its memory is
its own from the first byte.

SECURITY
    Reads the user's cache.  The stream is written by an engine whose guest has run nothing
    but our own agent, and is compared with its digest once in each command.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from threegate.base import canonical
from threegate.base.errors import StorageFailed, disk_errors
from threegate.host.run.heavy import channels

STATE: Final = "state"
RECORD: Final = "template.json"
MAKING: Final = "making-"
PIECE_BYTES: Final = 1024 * 1024
MAX_KEPT: Final = 8
MAX_RECORD_BYTES: Final = 64 * 1024
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_ACCELERATOR: Final = Path("/dev/kvm")
Write = Callable[[int], tuple[str, ...]]  # given where to write to; returns what is loaded


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that is here."""

    place: Path
    sha256: str
    imports: tuple[str, ...]

    def open(self, stack: ExitStack) -> int:
        """Return a descriptor of the stream, which cannot be written through."""
        with disk_errors("open a snapshot"):  # another command may have removed it
            return channels.read_only(stack, self.place / STATE)

    @property
    def is_probed(self) -> bool:
        """Tell whether a clone of it has answered since this machine was booted."""
        return (self.place / _probed()).exists()

    def note_probed(self) -> None:
        """Note that a clone has answered."""
        with disk_errors("keep a snapshot"):
            (self.place / _probed()).touch()


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The snapshots of one user."""

    root: Path

    def find(self, made_from: dict[str, Any]) -> Snapshot | None:
        """Return the snapshot of these parts, if there is one and it is intact."""
        place = self.root / _key(made_from)
        try:
            record = canonical.decode((place / RECORD).read_bytes()[:MAX_RECORD_BYTES])
            assert record["made_from"] == made_from
            template = Snapshot(place, record["sha256"], tuple(record["imports"]))
            if _digest(place / STATE) == template.sha256:
                os.utime(place)  # which ones are used, for `_prune`
                return template
        except (OSError, ValueError, KeyError, TypeError, AssertionError):
            pass
        return None

    def make(self, made_from: dict[str, Any], write: Write, *, most_bytes: int) -> Snapshot:
        """Return the snapshot of these parts, made by `write` unless another process was faster."""
        with disk_errors("keep a snapshot"):
            self.root.mkdir(parents=True, exist_ok=True)
            with _held(self.root / f"{_key(made_from)}.lock"):
                found = self.find(made_from)
                return found or self._make(made_from, write, most_bytes)

    def drop(self, template: Snapshot) -> None:
        """Remove a snapshot that does not answer, unless it answered another process meanwhile."""
        with disk_errors("remove a snapshot"), _held(self.root / f"{template.place.name}.lock"):
            if not template.is_probed:
                shutil.rmtree(template.place, ignore_errors=True)

    def _make(self, made_from: dict[str, Any], write: Write, most_bytes: int) -> Snapshot:
        key = _key(made_from)
        place = self.root / key
        self._clear(key)
        made = Path(tempfile.mkdtemp(prefix=f"{MAKING}{key}-", dir=self.root))
        try:
            sha256, imports = _spooled(made / STATE, write, most_bytes)
            record = {"imports": list(imports), "made_from": made_from, "sha256": sha256}
            (made / RECORD).write_bytes(canonical.encode(record))
            for name in (STATE, RECORD):
                (made / name).chmod(0o444)
            shutil.rmtree(place, ignore_errors=True)  # a damaged one
            made.rename(place)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        self._prune()
        return Snapshot(place, sha256, imports)

    def _prune(self) -> None:
        """Keep the snapshots that were used last; a run that has one open keeps it anyhow."""
        begun = {path.name for path in self.root.glob(f"{MAKING}*")}
        for key in {name.removeprefix(MAKING).partition("-")[0] for name in begun}:
            with suppress(BlockingIOError), _held(self.root / f"{key}.lock", wait=False):
                self._clear(key)
        places = [
            path
            for path in self.root.iterdir()
            if path.name not in begun and (path / RECORD).exists()
        ]
        for path in sorted(places, key=lambda item: item.stat().st_mtime)[:-MAX_KEPT]:
            shutil.rmtree(path, ignore_errors=True)

    def _clear(self, key: str) -> None:
        """Remove what was begun and not finished; its lock is held, so nobody works on it."""
        for path in self.root.glob(f"{MAKING}{key}-*"):
            shutil.rmtree(path, ignore_errors=True)


def _key(made_from: dict[str, Any]) -> str:
    return hashlib.sha256(canonical.encode(made_from)).hexdigest()


def _probed() -> str:
    return f"probed-{_BOOT.read_text(encoding='ascii').strip()}-{_accelerator()}"


def _accelerator() -> str:
    """Return a word for the accelerator's device; another one when it goes, comes or changes."""
    try:
        found = _ACCELERATOR.stat()
    except OSError:
        return "none"
    device = (found.st_rdev, found.st_ino, found.st_mode, found.st_uid, found.st_gid)
    return hashlib.sha256(repr(device).encode("ascii")).hexdigest()[:16]


@contextmanager
def _held(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock; raise `BlockingIOError` if somebody else has it and we do not wait."""
    with ExitStack() as stack:
        while True:
            lock = stack.enter_context(path.open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(path, lock.fileno()):
                break
            stack.close()  # the previous holder removed it: a lock on it excludes nobody
        stack.callback(path.unlink, missing_ok=True)
        yield


def _is(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE_BYTES):
            found.update(piece)
    return found.hexdigest()


def _spooled(path: Path, write: Write, most_bytes: int) -> tuple[str, tuple[str, ...]]:
    """Take what an engine writes into a pipe: it never holds a file that can be written."""
    digest = hashlib.sha256()

    def take(reading: ExitStack, source: int, file: IO[bytes]) -> None:
        left = most_bytes
        with reading:  # closed at once if the disk is full: the writer must not block for ever
            while piece := os.read(source, PIECE_BYTES):
                file.write(piece)
                digest.update(piece)
                left -= len(piece)
                if left <= 0:
                    raise StorageFailed("a snapshot is larger than its machine")

    with ExitStack() as reading, ExitStack() as writing, path.open("xb") as file:
        threads = writing.enter_context(ThreadPoolExecutor(1, "snapshot"))
        read, to = os.pipe()
        source = channels.handed(reading, read)
        target = channels.handed(writing, to)
        taking = threads.submit(take, reading, source, file)
        try:
            imports = write(target)
        finally:
            writing.close()
            taking.result()  # raised first: the writer's own error is only a consequence
    return digest.hexdigest(), imports
