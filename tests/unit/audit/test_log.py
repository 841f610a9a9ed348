"""The log as its callers use it: append, rotate, refresh, list, recover."""

import itertools
import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.auditlab import (
    NOW,
    WORKSPACE,
    clock,
    copy_log,
    ids,
    leaf_hash,
    new_log,
    numbered,
    root_of,
    segment_files,
    write_files,
)
from threegate.audit import AuditLog, LogBroken, LogFault, verify_log
from threegate.audit.chain import LAST
from threegate.audit.entry import MAX_TORN_BYTES, SEGMENT_EVENTS
from threegate.base.errors import AuditTampered, AuditUnavailable, VersionUnsupported

FIRST, SECOND, THIRD = (f"segment-{number:08d}.jsonl" for number in range(3))


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return tmp_path / "audit"


def reopen(directory: Path) -> AuditLog:
    return AuditLog.open(directory, clock=clock)


def all_lines(directory: Path) -> list[bytes]:
    return b"".join(segment_files(directory).values()).splitlines()


def why(directory: Path) -> LogFault:
    with pytest.raises(LogBroken) as caught:
        reopen(directory)
    assert (caught.value.code, caught.value.exit_code) == ("TG-AUD-002", 76)
    return caught.value.reason


class TestAppend:
    def test_writes_the_lines_of_the_format(self, audit: Path) -> None:
        log = new_log(audit)
        (entry,) = log.append([("packet.accepted", {"id": "rp-1", "bytes": 5})])
        line = (
            b'{"data":{"bytes":5,"id":"rp-1"},"kind":"packet.accepted","prev":"%b","seq":1,'
            b'"time":"2026-11-15T22:00:00Z"}' % entry.prev.encode()
        )
        assert all_lines(audit)[1] == line
        assert entry.digest == log.head.digest == sha256(line).hexdigest()
        assert (log.size, log.head.seq, log.workspace) == (2, 1, WORKSPACE)

    def test_is_one_write_and_one_sync(self, audit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = new_log(audit)
        calls: list[str] = []
        for name in ("write", "fdatasync", "fsync", "open", "rename"):
            monkeypatch.setattr(os, name, counted(name, calls))
        log.append(numbered(0, 256))
        assert calls == ["write", "fdatasync"]
        calls.clear()
        log.append(numbered(256, 256), durable=False)
        assert calls == ["write"]
        calls.clear()
        assert log.append([]) == []
        assert calls == ["fdatasync"], "an empty durable batch makes the earlier ones durable"

    def test_crosses_segments(self, audit: Path) -> None:
        log = new_log(audit)
        entries = log.append(numbered(0, 2500))
        assert ids(entries) == list(range(2500)) == ids(log.entries())
        assert list(segment_files(audit)) == [FIRST, SECOND, THIRD]
        counts = [data.count(b"\n") for data in segment_files(audit).values()]
        assert counts == [SEGMENT_EVENTS, SEGMENT_EVENTS, log.size - 2 * SEGMENT_EVENTS]
        assert verify_log(audit).problem is None

    @pytest.mark.parametrize("step", [1, 7, 256])
    def test_segments_do_not_depend_on_batches(self, tmp_path: Path, step: int) -> None:
        whole = new_log(tmp_path / "whole")
        whole.append(numbered(0, 1100))
        parts = new_log(tmp_path / "parts")
        for first in range(0, 1100, step):
            parts.append(numbered(first, min(step, 1100 - first)), durable=False)
        assert segment_files(tmp_path / "whole") == segment_files(tmp_path / "parts")
        assert whole.root() == parts.root()

    def test_sealed_segments_are_read_only(self, audit: Path) -> None:
        new_log(audit, size=2 * SEGMENT_EVENTS + 5)
        modes = [(audit / name).stat().st_mode & 0o777 for name in (FIRST, SECOND, THIRD)]
        assert modes == [0o444, 0o444, 0o600]

    def test_root_and_checkpoint_cover_every_line(self, audit: Path) -> None:
        log = new_log(audit, size=1500)
        root = root_of(leaf_hash(line) for line in all_lines(audit))
        checkpoint = log.checkpoint()
        assert log.root() == root
        assert (checkpoint.origin, checkpoint.size, checkpoint.root) == (WORKSPACE, 1500, root)

    def test_refuses_to_write_behind_another_process(self, audit: Path) -> None:
        one, two = new_log(audit), reopen(audit)
        one.append(numbered(0, 1))
        with pytest.raises(AuditUnavailable, match="refresh"):
            two.append(numbered(1, 1))
        two.refresh()
        two.append(numbered(1, 1))
        assert ids(two.entries()) == [0, 1]

    def test_refuses_to_write_where_another_process_has_begun_a_segment(self, audit: Path) -> None:
        one = new_log(audit, size=SEGMENT_EVENTS)
        two = reopen(audit)
        one.append(numbered(0, 1))
        with pytest.raises(AuditUnavailable, match="refresh"):
            two.append(numbered(1, 1))

    @pytest.mark.parametrize("how", ["deleted", "moved away", "replaced", "linked", "directory"])
    def test_refuses_to_write_into_a_file_that_is_not_the_log(self, audit: Path, how: str) -> None:
        log = new_log(audit)
        log.append(numbered(0, 1))
        path, away = audit / FIRST, audit / "away"
        data = path.read_bytes()
        match how:
            case "deleted":
                path.unlink()
            case "moved away":
                path.rename(away)
            case "replaced":
                path.rename(away)
                path.write_bytes(data)
            case "linked":
                away.hardlink_to(path)
            case _:
                audit.rename(audit.with_name("away"))
        with pytest.raises(LogBroken) as caught:
            log.append(numbered(1, 1))
        assert caught.value.reason is LogFault.FILE

    def test_refuses_to_go_on_after_a_cut(self, audit: Path) -> None:
        log = new_log(audit, size=10)
        lines = (audit / FIRST).read_bytes().splitlines(keepends=True)
        os.truncate(audit / FIRST, len(b"".join(lines[:-1])))
        for act in (log.refresh, lambda: log.append(numbered(0, 1))):
            with pytest.raises(LogBroken) as caught:
                act()
            assert caught.value.reason is LogFault.SHRUNK

    def test_closed_log_refuses(self, audit: Path) -> None:
        with new_log(audit) as log:
            log.append(numbered(0, 1))
        for act in (log.refresh, log.root, log.entries, lambda: log.append(numbered(1, 1))):
            with pytest.raises(AuditUnavailable, match="closed"):
                act()
        log.close()


def counted(name: str, calls: list[str]) -> Callable[..., Any]:
    real = getattr(os, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return real(*args, **kwargs)

    return call


class TestTime:
    def test_never_goes_back(self, audit: Path) -> None:
        times = iter([NOW, NOW + 10, NOW - 500, NOW + 11])
        log = AuditLog.create(audit, workspace=WORKSPACE, clock=lambda: next(times))
        entries = [log.append(numbered(number, 1))[0].time[-9:] for number in range(3)]
        assert entries == ["22:00:10Z", "22:00:10Z", "22:00:11Z"]
        assert verify_log(audit).problem is None

    @pytest.mark.parametrize(("moved", "behind"), [(0, 0), (5, 0), (-301, 301)])
    def test_says_how_far_the_clock_is_behind(self, audit: Path, moved: int, behind: int) -> None:
        new_log(audit, size=2)
        assert AuditLog.open(audit, clock=lambda: NOW + moved).clock_behind() == behind

    def test_a_clock_without_a_time_stops_everything(self, audit: Path) -> None:
        new_log(audit, size=2)
        log = AuditLog.open(audit, clock=lambda: 10**15)
        with pytest.raises(AuditUnavailable, match="clock"):
            log.append(numbered(0, 1))
        assert reopen(audit).size == 2


class TestCreate:
    def test_makes_the_directories(self, audit: Path) -> None:
        new_log(audit)
        assert {path.name for path in audit.iterdir()} == {FIRST, "checkpoints", "torn"}
        assert audit.stat().st_mode & 0o777 == 0o700

    def test_refuses_where_a_log_is(self, audit: Path) -> None:
        new_log(audit, size=3)
        before = segment_files(audit)
        with pytest.raises(AuditUnavailable, match="already"):
            new_log(audit)
        assert segment_files(audit) == before

    @pytest.mark.parametrize("workspace", ["", "A", "a/b", "a\n", "a" * 65])
    def test_refuses_a_workspace_without_an_id(self, audit: Path, workspace: str) -> None:
        with pytest.raises(AuditUnavailable):
            AuditLog.create(audit, workspace=workspace, clock=clock)
        assert not audit.exists()

    def test_refuses_where_no_directory_can_be(self, tmp_path: Path) -> None:
        with pytest.raises(AuditUnavailable) as caught:
            new_log(tmp_path / "missing" / "audit")
        assert (caught.value.code, caught.value.exit_code) == ("TG-AUD-001", 74)


class TestOpen:
    @pytest.mark.parametrize("size", [1, 2, 700, LAST, SEGMENT_EVENTS, SEGMENT_EVENTS + 1, 2500])
    def test_stands_where_the_log_ended(self, audit: Path, size: int) -> None:
        log = new_log(audit, size=size)
        again = reopen(audit)
        assert (again.head, again.size, again.root()) == (log.head, log.size, log.root())
        again.append(numbered(9000, 3))
        assert verify_log(audit).problem is None
        assert ids(reopen(audit).entries())[-3:] == [9000, 9001, 9002]

    def test_reads_the_newest_segment_and_one_line_before_it(
        self, audit: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = new_log(audit, size=4 * SEGMENT_EVENTS + 5)
        sizes = [len(data) for data in segment_files(audit).values()]
        read: list[int] = []
        real = os.pread

        def pread(fd: int, count: int, offset: int) -> bytes:
            data = real(fd, count, offset)
            read.append(len(data))
            return data

        monkeypatch.setattr(os, "pread", pread)
        assert reopen(audit).root() == log.root()
        assert sum(read) <= 2 * sizes[-1] + 64 * 1024 < sum(sizes[:-1])

    def test_missing_log_is_unavailable(self, tmp_path: Path) -> None:
        with pytest.raises(AuditUnavailable) as caught:
            reopen(tmp_path / "audit")
        assert caught.value.exit_code == 74

    def test_emptied_directory_is_tampering(self, audit: Path) -> None:
        new_log(audit, size=3)
        (audit / FIRST).unlink()
        assert why(audit) is LogFault.MISSING

    def test_missing_segment_is_noticed(self, audit: Path) -> None:
        new_log(audit, size=3 * SEGMENT_EVENTS + 5)
        (audit / SECOND).unlink()
        with pytest.raises(LogBroken) as caught:
            reopen(audit)
        assert (caught.value.reason, caught.value.segment) == (LogFault.MISSING, 1)

    def test_emptied_first_segment_is_tampering_not_a_crash(self, audit: Path) -> None:
        new_log(audit, size=3)
        os.truncate(audit / FIRST, 0)
        assert why(audit) is LogFault.HEADER

    def test_newest_segment_of_another_log_does_not_link(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        for directory, first in ((one, 0), (two, 1)):
            new_log(directory).append(numbered(first, 1500))
        assert reopen(one).size == reopen(two).size, "control"
        write_files(one, {**segment_files(one), SECOND: segment_files(two)[SECOND]})
        assert why(one) is LogFault.CHAIN

    @pytest.mark.parametrize("cut", [1, 300])
    def test_sealed_segment_without_its_seal_does_not_link(self, audit: Path, cut: int) -> None:
        new_log(audit, size=1500)
        files = segment_files(audit)
        write_files(audit, {**files, FIRST: files[FIRST][:-cut]})
        assert why(audit) is LogFault.UNSEALED

    def test_bytes_after_a_seal_are_tampering_not_a_crash(self, audit: Path) -> None:
        new_log(audit, size=SEGMENT_EVENTS)
        files = segment_files(audit)
        write_files(audit, {FIRST: files[FIRST] + b'{"data":'})
        assert why(audit) is LogFault.EXTRA

    def test_newer_format_is_refused_without_touching_it(self, audit: Path) -> None:
        new_log(audit)
        newer = segment_files(audit)[FIRST].replace(b"log/1", b"log/2")
        write_files(audit, {FIRST: newer})
        with pytest.raises(VersionUnsupported):
            reopen(audit)
        assert segment_files(audit) == {FIRST: newer}

    @pytest.mark.parametrize("size", [50, SEGMENT_EVENTS, 1500])
    def test_edit_in_the_newest_segment_is_noticed(self, audit: Path, size: int) -> None:
        new_log(audit, size=size)
        files = segment_files(audit)
        name = max(files)
        assert b'"id":10' in files[name], "control"
        write_files(audit, {**files, name: files[name].replace(b'"id":10', b'"id":99', 1)})
        assert why(audit) in {LogFault.CHAIN, LogFault.SEAL}

    @pytest.mark.parametrize("how", ["symlink", "hard link", "fifo", "directory", "device"])
    def test_only_a_plain_file_is_opened(self, audit: Path, how: str) -> None:
        new_log(audit, size=3)
        assert reopen(audit).size == 3, "control"
        path, away = audit / FIRST, audit.parent / "away"
        match how:
            case "symlink":
                path.rename(away)
                path.symlink_to(away)
            case "hard link":
                away.hardlink_to(path)
            case "fifo":
                path.unlink()
                os.mkfifo(path)
            case "directory":
                path.unlink()
                path.mkdir()
            case _:
                path.unlink()
                path.symlink_to("/dev/zero")
        assert why(audit) is LogFault.FILE

    def test_a_link_instead_of_the_directory_is_refused(self, audit: Path) -> None:
        new_log(audit, size=3)
        audit.rename(audit.with_name("away"))
        audit.symlink_to("away")
        with pytest.raises(AuditTampered, match="not a directory"):
            reopen(audit)

    def test_a_foreign_owner_is_refused(self, audit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        new_log(audit, size=3)
        stranger = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: stranger)
        with pytest.raises(AuditTampered, match="another user"):
            reopen(audit)

    def test_a_file_of_a_foreign_owner_is_refused(
        self, audit: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        new_log(audit, size=3)
        me = os.geteuid()
        answers = itertools.chain([me], itertools.repeat(me + 1))
        monkeypatch.setattr(os, "geteuid", lambda: next(answers))
        assert why(audit) is LogFault.FILE


TORN = {
    "part of a line": b'{"data":{"id":77},"kind":"test.ev',
    "one byte": b"{",
    "zeros": b"\0" * 5000,
    "part of a line and zeros": b'{"data":{"id"' + b"\0" * 4096,
    "a zero inside": b'{"data"\0\0\0:{"id"',
    "not even text": b"\xff\xfe\x00\x80",
}


class TestTorn:
    @pytest.mark.parametrize("size", [1, 40, LAST - 1, LAST, SEGMENT_EVENTS + 1, 1500])
    @pytest.mark.parametrize("name", TORN)
    def test_torn_end_is_kept_recorded_and_cut_off(self, audit: Path, size: int, name: str) -> None:
        new_log(audit, size=size)
        whole = segment_files(audit)
        with (audit / max(whole)).open("ab") as file:
            file.write(TORN[name])
        log = reopen(audit)
        recovered = [entry for entry in log.entries() if entry.kind == "log.recovered"]
        digest = sha256(TORN[name]).hexdigest()
        assert [entry.data for entry in recovered] == [{"bytes": len(TORN[name]), "sha256": digest}]
        (kept,) = (audit / "torn").iterdir()
        assert (kept.name, kept.read_bytes()) == (f"{size:012d}-{digest}", TORN[name])
        assert b"".join(segment_files(audit).values()).startswith(b"".join(whole.values()))
        assert verify_log(audit).problem is None
        assert reopen(audit).size == log.size, "recovered once, not at every opening"

    def test_same_bytes_torn_twice_are_recorded_twice(self, audit: Path) -> None:
        new_log(audit, size=5)
        for _ in range(2):
            with (audit / FIRST).open("ab") as file:
                file.write(b"{")
            log = reopen(audit)
        assert [entry.kind for entry in log.entries()].count("log.recovered") == 2
        assert len(list((audit / "torn").iterdir())) == 2

    def test_refresh_recovers_too(self, audit: Path) -> None:
        log = new_log(audit, size=5)
        with (audit / FIRST).open("ab") as file:
            file.write(b"{")
        log.refresh()
        assert [entry.kind for entry in log.entries()].count("log.recovered") == 1
        log.append(numbered(9, 1))
        assert verify_log(audit).problem is None

    @pytest.mark.parametrize("left", [b"", b"{", b'{"data":{"format":"log/1"', b"\0" * 4096])
    def test_next_segment_without_a_header_never_began(self, audit: Path, left: bytes) -> None:
        log = new_log(audit, size=SEGMENT_EVENTS)
        (audit / SECOND).write_bytes(left)
        again = reopen(audit)
        kinds = [entry.kind for entry in again.entries(log.size)]
        assert kinds == ["segment", "log.recovered"]
        assert again.head.seq == log.size + 1
        assert verify_log(audit, checkpoints=[log.checkpoint()]).problem is None

    def test_seal_without_a_next_segment_is_an_ordinary_end(self, audit: Path) -> None:
        new_log(audit, size=SEGMENT_EVENTS + 1)
        (audit / SECOND).unlink()
        log = reopen(audit)
        assert log.size == SEGMENT_EVENTS
        log.append(numbered(0, 1))
        assert verify_log(audit).problem is None

    def test_seal_is_made_read_only_if_a_crash_came_first(self, audit: Path) -> None:
        new_log(audit, size=SEGMENT_EVENTS)
        (audit / FIRST).chmod(0o600)
        reopen(audit)
        assert (audit / FIRST).stat().st_mode & 0o777 == 0o444

    @pytest.mark.parametrize(
        ("left", "reason"),
        [
            (b"{}\n", LogFault.FORM),
            (b"\0\n", LogFault.FORM),
            (b"\n", LogFault.FORM),
            (b"\0" * 600 + b'"seq":5}\n', LogFault.FORM),
            (b"{}\n{", LogFault.FORM),
            (b"x" * 70_000, LogFault.TOO_LONG),
            (b"x" * (MAX_TORN_BYTES + 1), LogFault.TOO_LONG),
            (b"\0" * (MAX_TORN_BYTES + 1), LogFault.TOO_LONG),
        ],
    )
    def test_what_no_crash_leaves_is_tampering(
        self, audit: Path, left: bytes, reason: LogFault
    ) -> None:
        new_log(audit, size=5)
        with (audit / FIRST).open("ab") as file:
            file.write(left)
        before = segment_files(audit)
        assert why(audit) is reason
        assert segment_files(audit) == before, "nothing was changed"
        assert not list((audit / "torn").iterdir())

    def test_a_whole_line_that_does_not_chain_is_never_recovered(self, audit: Path) -> None:
        new_log(audit, size=5)
        lines = segment_files(audit)[FIRST].splitlines(keepends=True)
        write_files(audit, {FIRST: b"".join(lines[:-2] + lines[-1:])})
        assert why(audit) is LogFault.ORDER
        assert not list((audit / "torn").iterdir())


class TestRefresh:
    def test_follows_what_others_wrote_over_several_segments(self, audit: Path) -> None:
        one, two = new_log(audit), reopen(audit)
        for count in (1, 5, 1500, 2, 3000, SEGMENT_EVENTS):
            one.append(numbered(one.size, count), durable=False)
            two.refresh()
            assert (two.head, two.root()) == (one.head, one.root())
            two.append(numbered(two.size, 1), durable=False)
            one.refresh()
        assert verify_log(audit, checkpoints=[one.checkpoint()]).problem is None

    def test_refuses_a_line_that_does_not_chain(self, audit: Path) -> None:
        log = new_log(audit, size=5)
        line = segment_files(audit)[FIRST].splitlines(keepends=True)[-1]
        with (audit / FIRST).open("ab") as file:
            file.write(line)
        with pytest.raises(LogBroken) as caught:
            log.refresh()
        assert caught.value.reason is LogFault.ORDER
        assert log.size == 5
        with pytest.raises(AuditUnavailable, match="refresh"):
            log.append(numbered(0, 1))


class TestEntries:
    @pytest.mark.parametrize("start", [0, 1, 500, LAST, SEGMENT_EVENTS, 1500, 2499, 2500, 9999])
    def test_start_anywhere(self, audit: Path, start: int) -> None:
        log = new_log(audit, size=2500)
        assert [entry.seq for entry in log.entries(start)] == list(range(min(start, 2500), 2500))
        first = next(log.entries(start), None)
        if first is not None:
            line = all_lines(audit)[start]
            assert (first.digest, first.data) == (
                sha256(line).hexdigest(),
                json.loads(line)["data"],
            )

    def test_lists_what_there_was_when_asked(self, audit: Path) -> None:
        log = new_log(audit, size=10)
        entries = log.entries()
        log.append(numbered(50, 5))
        assert len(list(entries)) == 10

    def test_listing_outlives_the_log(self, audit: Path) -> None:
        new_log(audit, size=2500)
        entries = reopen(audit).entries()
        first = next(entries)
        with reopen(audit) as log:
            late = log.entries()
        assert (first.seq, len(list(entries)), len(list(late))) == (0, 2499, 2500)

    def test_opens_only_the_segments_it_needs(self, audit: Path) -> None:
        log = new_log(audit, size=2500)
        (audit / FIRST).unlink()
        (audit / THIRD).unlink()
        assert next(log.entries(1500)).seq == 1500

    @pytest.mark.parametrize("start", [0, 700, 1100])
    def test_edit_behind_our_back_is_noticed(self, audit: Path, start: int) -> None:
        log = new_log(audit, size=1500)
        files = segment_files(audit)
        assert len(list(log.entries(start))) == 1500 - start, "control"
        # In place, so that the log still holds the file it opened; the last entry of all.
        with (audit / SECOND).open("r+b") as file:
            at = files[SECOND].rindex(b'"id":1499')
            file.seek(at)
            file.write(b'"id":9999')
        with pytest.raises(LogBroken) as caught:
            list(log.entries(start))
        assert (caught.value.reason, caught.value.seq) == (LogFault.CHAIN, 1499)

    def test_missing_and_shortened_segments_are_noticed(self, audit: Path) -> None:
        log = new_log(audit, size=1500)
        files = segment_files(audit)
        write_files(audit, {**files, FIRST: b"".join(files[FIRST].splitlines(keepends=True)[:9])})
        with pytest.raises(LogBroken) as caught:
            list(log.entries())
        assert (caught.value.reason, caught.value.seq) == (LogFault.SHRUNK, 9)
        (audit / FIRST).unlink()
        with pytest.raises(LogBroken) as caught:
            list(log.entries())
        assert (caught.value.reason, caught.value.segment) == (LogFault.MISSING, 0)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("base") / "audit"
    new_log(directory, size=SEGMENT_EVENTS + 8)
    return directory


def open_or_refuse(directory: Path) -> None:
    """Open returns a log that verifies, or raises one of two errors; verify never raises."""
    verify_log(directory)
    try:
        log = reopen(directory)
    except (AuditTampered, AuditUnavailable):
        return
    log.append(numbered(1, 1))


@given(data=st.binary(max_size=2000))
def test_any_bytes_as_a_segment(base: Path, data: bytes) -> None:
    directory = copy_log(base, base.with_name("any"))
    (directory / SECOND).unlink()
    write_files(directory, {FIRST: data})
    open_or_refuse(directory)


@given(data=st.binary(max_size=300), at=st.integers(0, 2000), removed=st.integers(0, 500))
def test_any_bytes_inside_the_newest_segment(
    base: Path, data: bytes, at: int, removed: int
) -> None:
    directory = copy_log(base, base.with_name("inside"))
    files = segment_files(directory)
    newest = files[SECOND]
    write_files(directory, {**files, SECOND: newest[:at] + data + newest[at + removed :]})
    open_or_refuse(directory)


@given(data=st.binary(max_size=100), cut=st.integers(0, 400))
def test_any_bytes_at_the_end_of_the_segment_before(base: Path, data: bytes, cut: int) -> None:
    directory = copy_log(base, base.with_name("before"))
    files = segment_files(directory)
    first = files[FIRST]
    write_files(directory, {**files, FIRST: first[: len(first) - cut] + data})
    open_or_refuse(directory)
