"""Verification: what it reports, and against which checkpoint."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.auditlab import (
    WORKSPACE,
    clock,
    copy_log,
    new_log,
    numbered,
    segment_files,
    write_files,
)
from threegate.audit import AuditLog, Checkpoint, Entry, LogFault, LogReport, verify_log
from threegate.audit.checkpoint import EMPTY_ROOT
from threegate.audit.entry import SEGMENT_EVENTS

FIRST, SECOND, THIRD = (f"segment-{number:08d}.jsonl" for number in range(3))
SIZE = 2 * SEGMENT_EVENTS + 50


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("base") / "audit"
    new_log(directory, size=SIZE).close()
    return directory


@pytest.fixture
def work(base: Path) -> Path:
    return copy_log(base, base.with_name("work"))


def found(report: LogReport) -> tuple[LogFault, int, int, int]:
    assert report.problem is not None
    problem = report.problem
    return problem.reason, problem.segment, problem.line, problem.seq


def checkpoint_at(base: Path, size: int) -> Checkpoint:
    """Return the checkpoint the log would have given at `size`."""
    lines = b"".join(segment_files(base).values()).splitlines(keepends=True)[:size]
    directory = base.with_name("earlier")
    copy_log(base, directory)
    write_files(
        directory,
        {
            f"segment-{number:08d}.jsonl": b"".join(lines[start : start + SEGMENT_EVENTS])
            for number, start in enumerate(range(0, size, SEGMENT_EVENTS))
        },
    )
    return AuditLog.open(directory, clock=clock).checkpoint()


class TestReport:
    def test_describes_a_log_that_verifies(self, base: Path) -> None:
        log = AuditLog.open(base, clock=clock)
        assert verify_log(base) == LogReport(
            events=SIZE,
            segments=3,
            workspace=WORKSPACE,
            head=log.head,
            root=log.root(),
            problem=None,
        )

    def test_describes_what_verified_before_the_problem(self, work: Path) -> None:
        files = segment_files(work)
        edited = files[SECOND].replace(b'"id":1100}', b'"id":7777}')
        write_files(work, {**files, SECOND: edited})
        report = verify_log(work)
        assert found(report) == (LogFault.CHAIN, 1, 1101 - SEGMENT_EVENTS + 1, 1101)
        assert str(report.problem) == (
            "entry 1101 (segment 1, line 78) does not follow the entry before it"
        )
        assert (report.events, report.segments) == (1101, 1)
        assert report.head is not None
        line = edited.splitlines()[1100 - SEGMENT_EVENTS]
        assert report.head.digest == sha256(line).hexdigest()

    def test_shows_every_entry_once(self, base: Path) -> None:
        entries: list[Entry] = []
        steps: list[int] = []
        report = verify_log(base, visit=entries.append, progress=steps.append)
        assert report.problem is None
        assert entries == list(AuditLog.open(base, clock=clock).entries())
        assert steps == sorted(set(steps))
        assert steps[-1] == SIZE

    def test_what_the_visitor_raises_goes_through(self, base: Path) -> None:
        class Stop(Exception):
            pass

        def visit(entry: Entry) -> None:
            raise Stop(entry.seq)

        with pytest.raises(Stop):
            verify_log(base, visit=visit)

    def test_names_strays_and_does_not_call_them_tampering(self, work: Path) -> None:
        (work / "notes.txt").write_text("mine")
        (work / "segment-00000003.jsonl.new").write_bytes(b"left by a crash")
        report = verify_log(work)
        assert report.problem is None
        assert report.strays == ("notes.txt", "segment-00000003.jsonl.new")

    def test_changes_nothing(self, work: Path) -> None:
        with (work / THIRD).open("ab") as file:
            file.write(b"{")
        before = segment_files(work)
        assert found(verify_log(work)) == (LogFault.TORN, 2, 51, SIZE)
        assert segment_files(work) == before

    def test_leaves_alone_what_was_appended_after_the_head(self, work: Path) -> None:
        log = AuditLog.open(work, clock=clock)
        head = log.head
        log.append(numbered(0, 3000))
        with (work / "segment-00000004.jsonl").open("ab") as file:
            file.write(b"{ somebody is writing")
        assert found(verify_log(work))[0] is LogFault.TORN, "control"
        report = verify_log(work, upto=head)
        assert (report.problem, report.events, report.head) == (None, SIZE, head)

    def test_holds_the_log_against_the_head(self, work: Path) -> None:
        head = AuditLog.open(work, clock=clock).head
        files = segment_files(work)
        edited = files[THIRD].replace(b'"id":%d}' % (SIZE - 1), b'"id":7777}')
        write_files(work, {**files, THIRD: edited})
        assert verify_log(work).problem is None, "control: nothing follows the last line"
        assert found(verify_log(work, upto=head))[::3] == (LogFault.CHAIN, SIZE - 1)
        write_files(work, {**files, THIRD: b"".join(files[THIRD].splitlines(keepends=True)[:-1])})
        assert found(verify_log(work, upto=head))[::3] == (LogFault.SHRUNK, SIZE - 1)

    @pytest.mark.parametrize("size", [1, SEGMENT_EVENTS, SEGMENT_EVENTS + 1])
    def test_logs_of_special_sizes(self, tmp_path: Path, size: int) -> None:
        new_log(tmp_path / "audit", size=size)
        report = verify_log(tmp_path / "audit")
        assert (report.problem, report.events) == (None, size)


class TestCheckpoints:
    SIZES = (1, 2, 700, SEGMENT_EVENTS - 1, SEGMENT_EVENTS, SEGMENT_EVENTS + 1, SIZE - 1, SIZE)

    def test_of_this_log_at_any_size_agree(self, base: Path) -> None:
        checkpoints = [checkpoint_at(base, size) for size in self.SIZES]
        checkpoints.append(Checkpoint(WORKSPACE, 0, EMPTY_ROOT))
        report = verify_log(base, checkpoints=checkpoints[::-1] + checkpoints)
        assert (report.problem, report.events) == (None, SIZE)

    @pytest.mark.parametrize("size", [0, *SIZES])
    def test_of_another_history_do_not(self, base: Path, size: int) -> None:
        fork = Checkpoint(WORKSPACE, size, b"\1" * 32)
        report = verify_log(base, checkpoints=[checkpoint_at(base, SIZE), fork])
        assert found(report)[::3] == (LogFault.FORK, max(0, size - 1))

    def test_of_a_longer_log_show_the_cut(self, base: Path) -> None:
        longer = Checkpoint(WORKSPACE, SIZE + 1, b"\1" * 32)
        assert found(verify_log(base, checkpoints=[longer]))[::3] == (LogFault.TRUNCATED, SIZE)

    def test_of_another_workspace_do_not_count(self, base: Path) -> None:
        good = checkpoint_at(base, 700)
        assert verify_log(base, checkpoints=[good]).problem is None, "control"
        other = Checkpoint("f" * 32, good.size, good.root)
        assert found(verify_log(base, checkpoints=[other]))[0] is LogFault.ORIGIN


class TestFiles:
    def test_missing_directory(self, tmp_path: Path) -> None:
        assert found(verify_log(tmp_path / "no"))[0] is LogFault.UNREADABLE

    def test_link_instead_of_the_directory(self, work: Path) -> None:
        link = work.with_name("link")
        link.unlink(missing_ok=True)
        link.symlink_to(work)
        assert found(verify_log(link))[0] is LogFault.FILE

    def test_no_segments(self, work: Path) -> None:
        write_files(work, {})
        assert found(verify_log(work)) == (LogFault.MISSING, 0, 1, 0)

    @pytest.mark.parametrize("missing", [FIRST, SECOND])
    def test_missing_segment(self, work: Path, missing: str) -> None:
        (work / missing).unlink()
        segment = int(missing[8:16])
        assert found(verify_log(work)) == (LogFault.MISSING, segment, 1, segment * SEGMENT_EVENTS)

    def test_segments_changed_places(self, work: Path) -> None:
        files = segment_files(work)
        write_files(work, {**files, FIRST: files[SECOND], SECOND: files[FIRST]})
        assert found(verify_log(work))[::3] == (LogFault.ORDER, 0)

    @pytest.mark.parametrize("name", [FIRST, SECOND, THIRD])
    def test_links_and_pipes(self, work: Path, name: str) -> None:
        away = work.with_name("away")
        away.unlink(missing_ok=True)
        away.hardlink_to(work / name)
        assert found(verify_log(work))[:2] == (LogFault.FILE, int(name[8:16]))
        (work / name).unlink()
        (work / name).symlink_to(away)
        assert found(verify_log(work))[:2] == (LogFault.FILE, int(name[8:16]))
        (work / name).unlink()
        os.mkfifo(work / name)
        assert found(verify_log(work))[:2] == (LogFault.FILE, int(name[8:16]))

    def test_sealed_segment_cut_short(self, work: Path) -> None:
        files = segment_files(work)
        lines = files[FIRST].splitlines(keepends=True)
        for cut in (b"".join(lines[:-1]), b"".join(lines[:500]), files[FIRST][:-1], b""):
            write_files(work, {**files, FIRST: cut})
            problem = found(verify_log(work))
            assert problem[::3] == (LogFault.UNSEALED, cut.count(b"\n"))

    @pytest.mark.parametrize("extra", [b"{", b"\0"])
    def test_bytes_after_a_seal(self, work: Path, extra: bytes) -> None:
        files = segment_files(work)
        write_files(work, {**files, FIRST: files[FIRST] + extra})
        assert found(verify_log(work))[::3] == (LogFault.EXTRA, SEGMENT_EVENTS)

    def test_two_segments_in_one_file(self, work: Path) -> None:
        files = segment_files(work)
        write_files(work, {FIRST: files[FIRST] + files[SECOND], SECOND: files[THIRD]})
        assert found(verify_log(work))[::3] == (LogFault.EXTRA, SEGMENT_EVENTS)

    def test_newest_segment_emptied(self, work: Path) -> None:
        write_files(work, {**segment_files(work), THIRD: b""})
        assert found(verify_log(work))[::3] == (LogFault.TORN, 2 * SEGMENT_EVENTS)

    def test_newer_format(self, work: Path) -> None:
        files = segment_files(work)
        write_files(work, {**files, FIRST: files[FIRST].replace(b"log/1", b"log/2", 1)})
        assert found(verify_log(work))[::3] == (LogFault.VERSION, 0)

    def test_endless_line(self, work: Path) -> None:
        os.truncate(work / THIRD, 200 * 1024 * 1024)
        assert found(verify_log(work))[0] is LogFault.TOO_LONG
