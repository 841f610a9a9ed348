"""The floor under the lite lane: pydantic-monty as it comes, and as many syncs as we make."""

import itertools
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pydantic_monty

from bench.lite_programs import Program
from threegate.handoff import sync

LIMITS: Final[pydantic_monty.ResourceLimits] = {
    "max_memory": 512 * 2**20,
    "max_feed_duration_secs": 30.0,
}


def open_pool(workers: int = 1) -> pydantic_monty.Monty:
    """Return a pool that starts a fresh worker for every program."""
    return pydantic_monty.Monty(
        min_processes=1, max_processes=workers, max_checkouts_per_worker=1, request_timeout=60.0
    )


def run_raw(pool: pydantic_monty.Monty, program: Program) -> bytes:
    """Run a program whose inputs are parsed inside; return its result as JSON."""
    texts = {f"{name}_json": data.decode() for name, data in program.documents.items()}
    loads = "".join(f"{name} = json.loads({name}_json)\n" for name in program.documents)
    with pool.checkout(limits=LIMITS) as session:
        session.feed_run(f"import json\n{loads}", inputs=texts)
        value: Any = session.feed_run(program.code)
    return json.dumps(value).encode()


@dataclass(frozen=True, slots=True)
class Sync:
    """One flush: of which kind, of how many bytes that were new."""

    kind: str  # file, directory, data or filesystem
    size: int


@contextmanager
def recorded_syncs() -> Iterator[list[Sync]]:
    """Yield the list of flushes this process makes meanwhile."""
    found: list[Sync] = []
    sizes: dict[int, int] = {}
    fsync, fdatasync, syncfs = os.fsync, os.fdatasync, sync.sync_filesystem

    def note_fsync(fd: int) -> None:
        about = os.fstat(fd)
        is_directory = stat.S_ISDIR(about.st_mode)
        found.append(Sync("directory", 0) if is_directory else Sync("file", about.st_size))
        fsync(fd)

    def note_fdatasync(fd: int) -> None:
        size = os.fstat(fd).st_size
        found.append(Sync("data", size - sizes.get(fd, size)))
        sizes[fd] = size
        fdatasync(fd)

    def note_syncfs(fd: int) -> None:
        found.append(Sync("filesystem", 0))
        syncfs(fd)

    with (
        patch.object(os, "fsync", note_fsync),
        patch.object(os, "fdatasync", note_fdatasync),
        patch.object(sync, "sync_filesystem", note_syncfs),
    ):
        yield found


class RawSyncs:
    """A directory in which the same flushes are made, each kind with something to flush.

    Directories that are flushed one after the other are changed before the first of them, as
    a batch changes them: the file system then writes its journal once, not once for each.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        self._base = directory
        self._log = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._directories = [_open_directory(directory)]
        self._numbers = itertools.count()

    def make(self, syncs: Sequence[Sync]) -> None:
        """Make these flushes, in this order."""
        for kind, items in itertools.groupby(syncs, key=lambda item: item.kind):
            if kind == "directory":
                self._flush_directories(len(list(items)))
                continue
            for item in items:
                if kind == "data":
                    os.write(self._log, bytes(item.size or 1))
                    os.fdatasync(self._log)
                else:
                    self._file(item)

    def _flush_directories(self, count: int) -> None:
        while len(self._directories) < count:
            path = self._base / f"directory{len(self._directories)}"
            path.mkdir(mode=0o700)
            self._directories.append(_open_directory(path))
        for fd in self._directories[:count]:
            os.mknod(str(next(self._numbers)), 0o600, dir_fd=fd)
        for fd in self._directories[:count]:
            os.fsync(fd)

    def _file(self, item: Sync) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        name = str(next(self._numbers))
        fd = os.open(name, flags, 0o600, dir_fd=self._directories[0])
        os.write(fd, bytes(item.size))
        if item.kind == "file":
            os.fsync(fd)
        else:
            sync.sync_filesystem(fd)
        os.close(fd)


def _open_directory(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
