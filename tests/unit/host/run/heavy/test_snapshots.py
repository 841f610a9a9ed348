"""Snapshots in the cache: found again, rebuilt when anything differs, bounded in number."""

import fcntl
import hashlib
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from threegate.base import canonical
from threegate.base.errors import StorageFailed
from threegate.host.run.heavy import snapshots as module
from threegate.host.run.heavy.snapshots import MAKING, MAX_KEPT, RECORD, STATE, Snapshots, Write

PARTS: dict[str, Any] = {"engine": "e", "image": "1", "memory_mib": 256}


def writes(data: bytes) -> Write:
    def write(fd: int) -> tuple[str, ...]:
        os.write(fd, data)
        return ("json",)

    return write


def never(_: int) -> tuple[str, ...]:
    raise AssertionError("made again")


def test_a_snapshot_is_made_once_and_read_only(tmp_path: Path) -> None:
    templates = Snapshots(tmp_path / "t")
    made = templates.make(PARTS, writes(b"state"), most_bytes=100)
    assert templates.make(PARTS, never, most_bytes=100) == made
    assert (made.place / STATE).read_bytes() == b"state"
    assert (made.place / STATE).stat().st_mode & 0o222 == 0
    assert made.imports == ("json",)
    assert templates.find({**PARTS, "image": "2"}) is None, "another image, another snapshot"


@pytest.mark.parametrize("name", [STATE, RECORD])
def test_a_damaged_one_is_not_found(tmp_path: Path, name: str) -> None:
    templates = Snapshots(tmp_path)
    made = templates.make(PARTS, writes(b"state"), most_bytes=100)
    (made.place / name).chmod(0o644)
    (made.place / name).write_bytes(b"other")
    assert templates.find(PARTS) is None
    again = templates.make(PARTS, writes(b"state"), most_bytes=100)
    assert again.sha256 == made.sha256


def test_one_that_is_larger_than_its_machine_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed):
        Snapshots(tmp_path).make(PARTS, writes(b"x" * 101), most_bytes=100)
    assert [path for path in tmp_path.rglob("*") if path.is_dir()] == []


def test_one_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fails(_: int) -> tuple[str, ...]:
        raise StorageFailed("no")

    with pytest.raises(StorageFailed):
        Snapshots(tmp_path).make(PARTS, fails, most_bytes=100)
    assert [path for path in tmp_path.rglob("*") if path.is_dir()] == []


# A file may not grow above 2 MiB here, as on a disk that is full; the reader is told EFBIG.
FULL = """
import os, resource, sys
from pathlib import Path
from threegate.base.errors import StorageFailed
from threegate.host.run.heavy.snapshots import Snapshots

MIB = 2**20
most = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MIB, 2 * MIB))

def write(fd):
    left = most
    try:
        while left:
            left -= os.write(fd, bytes(min(left, MIB)))
        print("wrote all")
    except BrokenPipeError:
        print("nobody reads")
    return ()

try:
    Snapshots(Path(sys.argv[1])).make({}, write, most_bytes=2 * most)
    print("kept")
except StorageFailed as exc:
    print(exc.message)
"""


def test_a_disk_that_is_full_ends_the_writer_and_leaves_nothing(tmp_path: Path) -> None:
    def told(size: int) -> list[str]:
        command = [sys.executable, "-c", FULL, str(tmp_path), str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == "", "no traceback of a thread"
        return done.stdout.splitlines()

    refusal = "cannot keep a snapshot: File too large"
    assert told(16 * 2**20) == ["nobody reads", refusal]
    # What was written last fits into the pipe: the writer never hears of it.
    assert told(2 * 2**20 + 1)[-1] == refusal
    assert [path for path in tmp_path.rglob("*") if path.is_dir()] == []
    assert told(2**20) == ["wrote all", "kept"], "control: there is room for a small one"


def key_of(parts: dict[str, Any]) -> str:
    return hashlib.sha256(canonical.encode(parts)).hexdigest()


def test_what_kill_9_left_is_removed_and_what_somebody_makes_is_not(tmp_path: Path) -> None:
    templates = Snapshots(tmp_path)
    names: list[str] = []

    def looks(fd: int) -> tuple[str, ...]:
        names.extend(path.name for path in tmp_path.glob(f"{MAKING}*"))
        return writes(b"s")(fd)

    templates.make(PARTS, looks, most_bytes=9)
    (name,) = names
    own, other, busy = (key_of(parts) for parts in (PARTS, {"n": 1}, {"n": 2}))
    assert name.startswith(f"{MAKING}{own}-"), "control: this is how one is named"
    left = {key: tmp_path / f"{MAKING}{key}-left" for key in (own, other, busy)}
    for path in left.values():
        path.mkdir()
        (path / STATE).write_bytes(b"half")
        (path / RECORD).write_bytes(b"{}")
    (tmp_path / own / STATE).chmod(0o644)
    (tmp_path / own / STATE).write_bytes(b"damaged, so it is made anew")
    with (tmp_path / f"{busy}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        templates.make(PARTS, writes(b"s"), most_bytes=9)
    assert [key for key, path in left.items() if path.exists()] == [busy]
    assert {path.name for path in tmp_path.glob("*.lock")} == {f"{busy}.lock"}
    templates.make({"n": 3}, writes(b"s"), most_bytes=9)
    assert not left[busy].exists(), "nobody holds its lock any more"


def test_a_lock_that_the_one_before_removed_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, locked, taken = tmp_path / f"{key_of(PARTS)}.lock", fcntl.flock, []

    def late(fd: Any, operation: int) -> None:
        locked(fd, operation)
        taken.append(operation)
        if len(taken) == 1:
            path.unlink()  # as whoever had it did, just before we got it

    def looks(fd: int) -> tuple[str, ...]:
        with path.open("rb") as other, pytest.raises(BlockingIOError):
            locked(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return writes(b"s")(fd)

    monkeypatch.setattr(fcntl, "flock", late)
    templates = Snapshots(tmp_path)
    templates.make(PARTS, looks, most_bytes=9)
    assert templates.find(PARTS) is not None
    assert len(taken) == 2


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    templates = Snapshots(tmp_path)
    for number in range(MAX_KEPT + 2):
        made = templates.make({"n": number}, writes(b"s"), most_bytes=9)
        os.utime(made.place, (number, number))
    templates.make({"n": "last"}, writes(b"s"), most_bytes=9)
    assert templates.find({"n": 0}) is None
    assert templates.find({"n": "last"}) is not None
    kept = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(kept) == MAX_KEPT


# claim TG-C-230
def test_a_probe_counts_as_long_as_the_accelerator_is_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "kvm"
    device.touch()
    device.chmod(0o660)
    monkeypatch.setattr(module, "_ACCELERATOR", device)
    made = Snapshots(tmp_path / "t").make(PARTS, writes(b"s"), most_bytes=9)
    made.note_probed()
    states = [made.is_probed]
    device.chmod(0o600)  # others may open it now
    states.append(made.is_probed)
    device.chmod(0o660)
    states.append(made.is_probed)
    device.unlink()  # it is gone, and what was proved with it
    states.append(made.is_probed)
    assert states == [True, False, True, False]


def test_a_snapshot_that_somebody_removed_is_a_clear_error(tmp_path: Path) -> None:
    made = Snapshots(tmp_path).make(PARTS, writes(b"s"), most_bytes=9)
    with ExitStack() as stack:
        made.open(stack)  # control
        (made.place / STATE).unlink()
        with pytest.raises(StorageFailed, match="cannot open a snapshot: No such file"):
            made.open(stack)


def test_a_probe_counts_for_this_boot(tmp_path: Path) -> None:
    made = Snapshots(tmp_path).make(PARTS, writes(b"s"), most_bytes=9)
    states = [made.is_probed]
    made.note_probed()
    states.append(made.is_probed)
    (note,) = made.place.glob("probed-*")
    note.rename(made.place / "probed-00000000-0000-0000-0000-000000000000")
    states.append(made.is_probed)
    assert states == [False, True, False], "of another boot it says nothing"
