"""Logs to damage, and an operating system that fails or dies at a chosen call."""

import errno
import multiprocessing
import os
import random
import shutil
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from threegate.audit import AuditLog, Entry
from threegate.audit.checkpoint import MerkleTree
from threegate.audit.entry import SEGMENT_EVENTS

WORKSPACE = "0123456789abcdef0123456789abcdef"
NOW = 1_794_780_000  # 2026-11-15

# Every call by which a log changes the disk; an open that creates is counted as "create".
CALLS = ("open", "write", "fdatasync", "fsync", "ftruncate", "fchmod", "rename", "unlink", "mkdir")

FORK = multiprocessing.get_context("fork")


def clock() -> int:
    return NOW


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of one entry (RFC 6962, section 2.1)."""
    return sha256(b"\0" + data).digest()


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the root over `leaves` (leaf hashes)."""
    tree = MerkleTree()
    tree.extend(leaves)
    return tree.root()


def new_log(directory: Path, *, size: int = 1) -> AuditLog:
    """Return a log of exactly `size` lines; each event is numbered by its place as `id`."""
    log = AuditLog.create(directory, workspace=WORKSPACE, clock=clock)
    while log.size < size:
        first = log.size + (log.size % SEGMENT_EVENTS == 0)  # after a header, if one is due
        seal = first - first % SEGMENT_EVENTS + SEGMENT_EVENTS - 1
        log.append(numbered(first, max(1, min(seal, size) - first)), durable=False)
    if log.size > size:  # without its seal, or with nothing but a header: only a crash does that
        newest = max(directory.glob("segment-*.jsonl"))
        lines = newest.read_bytes().splitlines(keepends=True)
        newest.chmod(0o600)
        os.truncate(newest, len(b"".join(lines[: len(lines) - (log.size - size)])))
        log = AuditLog.open(directory, clock=clock)
    assert log.size == size
    return log


def numbered(first: int, count: int) -> list[tuple[str, dict[str, Any]]]:
    return [("test.event", {"id": number}) for number in range(first, first + count)]


def ids(entries: Iterator[Entry] | Sequence[Entry]) -> list[int]:
    return [entry.data["id"] for entry in entries if entry.kind == "test.event"]


def segment_files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("segment-*.jsonl"))}


def write_files(directory: Path, files: dict[str, bytes]) -> None:
    """Make the segments of `directory` exactly `files`."""
    for path in directory.glob("segment-*.jsonl"):
        if path.name not in files or path.read_bytes() != files[path.name]:
            path.unlink()
    for name, data in files.items():
        if not (directory / name).exists():
            (directory / name).write_bytes(data)


def copy_log(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target


@dataclass(frozen=True)
class Point:
    """One moment in a run: the n-th call, before it, after it, or half-way through a write."""

    call: int
    when: str


@dataclass
class Machine:
    """Wraps the calls of `os`, counts them, and lets `happen` strike at one point.

    It also knows what a power cut may take away: bytes that were not synced and names
    whose directory was not.
    """

    point: Point | None = None
    happen: Callable[["Machine"], object] = id
    names: list[str] = field(default_factory=list)
    real: dict[str, Callable[..., Any]] = field(default_factory=dict)
    unsynced: dict[int, int] = field(default_factory=dict)  # descriptor -> length on disk
    renamed: list[tuple[str, str, int]] = field(default_factory=list)

    @contextmanager
    def installed(self) -> Iterator["Machine"]:
        self.real = {name: getattr(os, name) for name in CALLS}
        try:
            for name in CALLS:
                setattr(os, name, self._wrap(name))
            yield self
        finally:
            for name, call in self.real.items():
                setattr(os, name, call)

    def _wrap(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            index = len(self.names)
            creates = name == "open" and args[1] & os.O_CREAT
            self.names.append("create" if creates else name)
            if self.point == Point(index, "before"):
                self.happen(self)
            if self.point == Point(index, "half"):
                self._note(name, args, kwargs)
                self.real["write"](args[0], args[1][: len(args[1]) // 2])
                self.happen(self)
            self._note(name, args, kwargs)
            result = self.real[name](*args, **kwargs)
            self._forget(name, args)
            if self.point == Point(index, "after"):
                self.happen(self)
            return result

        return call

    def _note(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if name == "write":
            self.unsynced.setdefault(args[0], os.fstat(args[0]).st_size)
        if name == "rename":
            self.renamed.append((args[0], args[1], kwargs["src_dir_fd"]))

    def _forget(self, name: str, args: tuple[Any, ...]) -> None:
        if name in {"fsync", "fdatasync"}:
            self.unsynced.pop(args[0], None)
            self.renamed = [row for row in self.renamed if row[2] != args[0]]
        if name == "ftruncate" and args[0] in self.unsynced:
            self.unsynced[args[0]] = min(args[1], self.unsynced[args[0]])

    def failures(self) -> list[Point]:
        """Return every point at which a call of the counted run can fail."""
        calls = list(enumerate(self.names))
        halves = [Point(index, "half") for index, name in calls if name == "write"]
        return halves + [Point(index, "before") for index, name in calls if name != "unlink"]

    def crashes(self) -> list[Point]:
        """Return every point of the counted run at which the disk looks different.

        After a call is before the next one, as far as the disk knows.
        """
        calls = list(enumerate(self.names))
        halves = [Point(index, "half") for index, name in calls if name == "write"]
        points = [Point(index, "before") for index, name in calls if name != "open"]
        return [*halves, *points, Point(len(self.names) - 1, "after")]


def die(machine: Machine) -> None:
    """Kill -9: what was written stays, whatever was synced."""
    del machine
    os.kill(os.getpid(), signal.SIGKILL)


def lose_power(machine: Machine) -> None:
    """Lose what was not synced: some of it, all of it, or leave zeros in its place."""
    chance = random.Random(str(machine.point))
    for fd, length in machine.unsynced.items():
        there = os.fstat(fd).st_size
        kept = chance.randint(min(length, there), there)
        machine.real["ftruncate"](fd, kept)
        if chance.random() < 0.3:
            machine.real["ftruncate"](fd, there)  # grown again: zeros
    for source, target, dir_fd in reversed(machine.renamed):
        if chance.random() < 0.5:
            machine.real["rename"](target, source, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    os.kill(os.getpid(), signal.SIGKILL)


def fail_with(number: int) -> Callable[[Machine], None]:
    """Return what makes the call fail as the operating system would."""

    def fail(machine: Machine) -> None:
        del machine
        raise OSError(number, errno.errorcode[number])

    return fail


def run_child(work: Callable[[Connection], None]) -> tuple[int | None, list[Any]]:
    """Run `work` in a forked process; return how it ended and all it managed to send."""
    here, there = FORK.Pipe(duplex=False)

    def main() -> None:
        here.close()
        try:
            work(there)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)

    process = FORK.Process(target=main)
    process.start()
    there.close()
    sent: list[Any] = []
    try:
        while True:
            sent.append(here.recv())
    except EOFError:
        pass
    process.join()
    here.close()
    return process.exitcode, sent
