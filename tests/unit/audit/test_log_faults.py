"""An operating system that says no: nothing happened, and the log says so (exit 74)."""

import errno
import os
import resource
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.support.auditlab import (
    Machine,
    Point,
    clock,
    copy_log,
    fail_with,
    ids,
    new_log,
    numbered,
    run_child,
    segment_files,
)
from threegate.audit import AuditLog, verify_log
from threegate.audit.entry import SEGMENT_EVENTS
from threegate.base.errors import AuditUnavailable

ERRORS = [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EACCES]
SYNCS = {"fsync", "fdatasync"}

# Where the log stands, and how many events are appended: into a segment, up to its end,
# over its end, after its end, over three segments.
BATCHES = {
    "inside": (10, 3),
    "filling": (SEGMENT_EVENTS - 4, 3),
    "crossing": (SEGMENT_EVENTS - 4, 10),
    "beginning": (SEGMENT_EVENTS, 5),
    "spanning": (SEGMENT_EVENTS - 4, 2500),
}


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("bases")
    for name, (size, _) in BATCHES.items():
        new_log(root / name, size=size)
    return {name: root / name for name in BATCHES}


def reopen(directory: Path) -> AuditLog:
    return AuditLog.open(directory, clock=clock)


def appending_calls(directory: Path, count: int) -> Machine:
    """Return the calls of one append to a copy."""
    log = reopen(copy_log(directory, directory.with_name("counting")))
    with Machine().installed() as machine:
        log.append(numbered(90_000, count))
    return machine


def published(machine: Machine, point: Point) -> bool:
    """Return whether the batch was already on disk and only a name was missing."""
    return "rename" in machine.names[: point.call + 1]


@pytest.mark.parametrize(
    ("batch", "number"),
    [
        *((batch, errno.ENOSPC) for batch in BATCHES),
        *(("crossing", number) for number in ERRORS if number != errno.ENOSPC),
    ],
)
def test_any_call_that_fails_stops_the_append(
    bases: dict[str, Path], batch: str, number: int
) -> None:
    _, count = BATCHES[batch]
    machine = appending_calls(bases[batch], count)
    points = machine.failures()
    assert len(points) >= 3
    for point in points:
        directory = copy_log(bases[batch], bases[batch].with_name("work"))
        before, log = segment_files(directory), reopen(directory)
        with (
            Machine(point, fail_with(number)).installed(),
            pytest.raises(AuditUnavailable) as caught,
        ):
            log.append(numbered(90_000, count))
        assert (caught.value.code, caught.value.exit_code) == ("TG-AUD-001", 74)
        assert errno.errorcode[number] in caught.value.message
        if not published(machine, point):
            assert segment_files(directory) == before, f"{point}: something happened"
        assert not list(directory.glob("*.new")) or published(machine, point)
        _check_afterwards(directory, log, refused=_must_refuse(machine, point))


def _must_refuse(machine: Machine, point: Point) -> bool:
    return machine.names[point.call] in SYNCS or published(machine, point)


def _check_afterwards(directory: Path, log: AuditLog, *, refused: bool) -> None:
    if refused:  # a later sync that succeeds would prove nothing
        for act in (log.refresh, log.root, log.entries, lambda: log.append(numbered(91_000, 1))):
            with pytest.raises(AuditUnavailable, match="cannot be used"):
                act()
    else:
        log.append(numbered(91_000, 1))
        assert ids(log.entries())[-1] == 91_000
        assert 90_000 not in ids(log.entries())
    again = reopen(directory)
    again.append(numbered(92_000, 1))
    assert ids(again.entries())[-1] == 92_000
    assert verify_log(directory).problem is None


def test_a_failed_sync_is_remembered_although_the_next_would_succeed(
    bases: dict[str, Path],
) -> None:
    directory = copy_log(bases["inside"], bases["inside"].with_name("work"))
    log = reopen(directory)
    with Machine(Point(1, "before"), fail_with(errno.EIO)).installed() as machine:
        with pytest.raises(AuditUnavailable, match="EIO"):
            log.append(numbered(90_000, 1))
        assert machine.names[:2] == ["write", "fdatasync"]
        for _ in range(3):
            with pytest.raises(AuditUnavailable, match="sync failed"):
                log.append(numbered(90_001, 1))
        assert machine.names == ["write", "fdatasync", "ftruncate"], "nothing was written any more"
    assert ids(reopen(directory).entries())[-1] != 90_000


def test_half_a_line_that_cannot_be_taken_back_is_recovered_by_the_next(
    bases: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = copy_log(bases["inside"], bases["inside"].with_name("work"))
    log = reopen(directory)
    real = os.write

    def refuse(fd: int, length: int) -> None:
        raise OSError(errno.EIO, f"{fd} {length}")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[: len(data) // 2]))
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(AuditUnavailable):
            log.append(numbered(90_000, 1))
    with pytest.raises(AuditUnavailable, match="taken back"):
        log.append(numbered(90_001, 1))
    again = reopen(directory)
    assert [entry.kind for entry in again.entries()].count("log.recovered") == 1
    assert verify_log(directory).problem is None


@pytest.mark.parametrize("batch", BATCHES)
def test_a_short_write_is_taken_back(
    bases: dict[str, Path], batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = copy_log(bases[batch], bases[batch].with_name("work"))
    before, log = segment_files(directory), reopen(directory)
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:-1]))
        with pytest.raises(AuditUnavailable, match="ENOSPC"):
            log.append(numbered(90_000, BATCHES[batch][1]))
    assert segment_files(directory) == before
    log.append(numbered(91_000, 1))
    assert verify_log(directory).problem is None


def test_a_real_file_size_limit_stops_the_append(bases: dict[str, Path]) -> None:
    """No stand-in: the kernel writes a part and then refuses."""
    directory = copy_log(bases["inside"], bases["inside"].with_name("work"))
    before = segment_files(directory)
    limit = len(before["segment-00000000.jsonl"]) + 500

    def work(pipe: Connection) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        log = reopen(directory)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        log.append(numbered(90_000, 1))
        try:
            log.append(numbered(90_001, 50))
        except AuditUnavailable as exc:
            pipe.send((exc.code, log.size))
        log.append(numbered(90_002, 1))

    ended, sent = run_child(work)
    assert (ended, sent) == (0, [("TG-AUD-001", 11)])
    assert ids(reopen(directory).entries())[-2:] == [90_000, 90_002]
    assert verify_log(directory).problem is None


@pytest.mark.parametrize("number", ERRORS, ids=lambda number: errno.errorcode[number])
def test_a_log_that_cannot_be_opened_for_writing_is_unavailable(
    bases: dict[str, Path], number: int
) -> None:
    directory = bases["inside"]
    with Machine().installed() as machine:
        reopen(directory)
    opens = [index for index, name in enumerate(machine.names) if name == "open"]
    assert opens, "control"
    for index in opens:
        with (
            Machine(Point(index, "before"), fail_with(number)).installed(),
            pytest.raises(AuditUnavailable, match=errno.errorcode[number]),
        ):
            reopen(directory)


@pytest.mark.parametrize("number", ERRORS, ids=lambda number: errno.errorcode[number])
def test_a_log_that_cannot_be_read_is_unavailable(
    bases: dict[str, Path], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> bytes:
        raise OSError(number, "no")

    for batch in ("inside", "beginning"):
        log = reopen(bases[batch])
        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", refuse)
            with pytest.raises(AuditUnavailable, match=errno.errorcode[number]):
                reopen(bases[batch])
            with pytest.raises(AuditUnavailable, match=errno.errorcode[number]):
                list(log.entries())


def test_creation_that_fails_anywhere_can_be_tried_again(tmp_path: Path) -> None:
    with Machine().installed() as machine:
        new_log(tmp_path / "counting")
    points = machine.failures()
    assert len(points) > 10
    for number, point in enumerate(points):
        directory = tmp_path / str(number)
        with (
            Machine(point, fail_with(errno.ENOSPC)).installed(),
            pytest.raises(AuditUnavailable) as caught,
        ):
            new_log(directory)
        assert caught.value.exit_code == 74
        if not (directory / "segment-00000000.jsonl").exists():
            new_log(directory)
        assert reopen(directory).size == 1


def test_recovery_that_fails_anywhere_loses_nothing(tmp_path: Path) -> None:
    new_log(tmp_path / "torn", size=20)
    with (tmp_path / "torn" / "segment-00000000.jsonl").open("ab") as file:
        file.write(b'{"data":')
    work = copy_log(tmp_path / "torn", tmp_path / "work")
    with Machine().installed() as machine:
        reopen(work)
    points = machine.failures()
    assert {"open", "write", "fsync", "fdatasync", "ftruncate", "rename"} <= set(machine.names)
    for point in points:
        directory = copy_log(tmp_path / "torn", tmp_path / "work")
        with (
            Machine(point, fail_with(errno.ENOSPC)).installed(),
            pytest.raises(AuditUnavailable) as caught,
        ):
            reopen(directory)
        assert caught.value.exit_code == 74
        log = reopen(directory)
        assert [entry.kind for entry in log.entries()].count("log.recovered") == 1
        assert [path.suffix for path in (directory / "torn").iterdir()] == [""]
        assert verify_log(directory).problem is None
