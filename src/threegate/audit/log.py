"""The audit log: every act is written here first, durably, or does not happen.

The directory holds `segment-00000000.jsonl` and so on, `checkpoints/` and `torn/`.
A batch is one write and one fdatasync.  Only a batch that fills a segment does more,
and it prepares the next segment before it touches this one, so that a full disk is
noticed while nothing has happened.

Callers hold the workspace lock around `create`, `open`, `append` and `refresh`.

SECURITY
    Anybody who can write the directory can rewrite the log; `verify_log` with a checkpoint
    kept elsewhere shows it.  Opening checks the newest segment and its link to the one
    before, so it takes a few milliseconds at any size.  A crash is distinguished from tampering:
    bytes after the last whole line are kept and recorded, a whole line that does not
    fit is refused.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from threegate.audit import reader
from threegate.audit.chain import Chain
from threegate.audit.checkpoint import WORKSPACE_ID, Checkpoint
from threegate.audit.entry import (
    CLOCK,
    RECOVERED,
    Entry,
    LogBroken,
    LogFault,
    LogHead,
    time_of,
    unix_of,
)
from threegate.audit.reader import Followed, Visit, follow, read_entries, stand_before_newest
from threegate.audit.segment import (
    is_plain,
    list_segments,
    make_directory,
    open_directory,
    open_segment,
    segment_name,
    unavailable,
)
from threegate.audit.writer import Events, WritePlan, Writer, plan_batch
from threegate.base.errors import AuditUnavailable, ClockRefused, WorkspaceReadOnly

Clock = Callable[[], int]

# One entry by a clock that is years ahead would keep every signature waiting for years: by the
# right clock it would be in the future.  After a month without use, `audit clock` is
# needed once.
MAX_AHEAD_SECONDS: Final = 31 * 86_400
CLOCK_AHEAD: Final = "TG-CLK-002"


class AuditLog:
    """One workspace's log, open for appending."""

    def __init__(self, directory: Path, *, clock: Clock, read_only: bool = False) -> None:
        """Prepare the fields; use `create` or `open`."""
        self._directory, self._read_only = directory, read_only
        self.is_torn = False  # the log ends in what a crash left, and it cannot be recorded here
        self._clock = clock
        self._dir_fd = open_directory(directory)
        self._chain = Chain()
        self._writer = Writer(self._dir_fd)

    @classmethod
    def create(cls, directory: Path, *, workspace: str, clock: Clock) -> Self:
        """Start the log of a new workspace; raise AuditUnavailable if there is one already."""
        if not WORKSPACE_ID.fullmatch(workspace):
            raise AuditUnavailable("a workspace without an id has no audit log")
        make_directory(directory)
        log = cls(directory, clock=clock)
        try:
            if list_segments(log._dir_fd)[0]:
                raise AuditUnavailable("there is an audit log already; nothing was done")
            start = Chain()
            start.workspace = workspace
            log._write(plan_batch(start, [], time=log.now()), durable=True)
        except BaseException:
            log.close()
            raise
        return log

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        clock: Clock,
        visit: Visit | None = None,
        read_only: bool = False,
    ) -> Self:
        """Open the log, recovering what a crash left; raise AuditTampered or AuditUnavailable.

        `visit` sees the entries of the newest segment on the way.  With `read_only` nothing is
        recovered: `is_torn` says that it would be.
        """
        log = cls(directory, clock=clock, read_only=read_only)
        try:
            log._chain = stand_before_newest(log._dir_fd)
            log._catch_up(visit)
        except BaseException:
            log.close()
            raise
        return log

    @property
    def head(self) -> LogHead:
        """Return the last entry."""
        return self._chain.head()

    @property
    def size(self) -> int:
        """Return the number of entries."""
        return self._chain.size

    @property
    def workspace(self) -> str:
        """Return the id of the workspace this is the log of."""
        assert self._chain.workspace is not None, "the header has been read"
        return self._chain.workspace

    def root(self) -> bytes:
        """Return the Merkle root over all entries."""
        self._writer.check_usable()
        return self._chain.tree.root()

    def checkpoint(self) -> Checkpoint:
        """Return what the log looks like now, to be signed and kept elsewhere."""
        return Checkpoint(self.workspace, self.size, self.root())

    def clock_behind(self) -> int:
        """Return by how many seconds the clock is behind the last entry, or 0."""
        return max(0, unix_of(self._chain.time) - self._clock())

    def refuse_clock_ahead(self) -> None:
        """Raise `ClockRefused` if the clock is too far ahead of the last entry."""
        self._refuse_ahead(self.now())

    def _refuse_ahead(self, time: str) -> None:
        ahead = unix_of(time) - unix_of(self._chain.time)
        if ahead > MAX_AHEAD_SECONDS:
            detail = f"the clock is {ahead // 86_400} days ahead of the last audit entry"
            hint = "set the clock; if it is right, `threegate audit clock` signs that"
            raise ClockRefused(detail, code=CLOCK_AHEAD, hint=hint)

    def now(self) -> str:
        """Return the time the next entry would have; it never goes back."""
        try:
            return max(self._chain.time, time_of(self._clock()))
        except ValueError as exc:
            raise AuditUnavailable("the clock shows no time; nothing was done") from exc

    def append(self, events: Events, *, durable: bool = True, ends: bool = False) -> list[Entry]:
        """Write `events` with one write and, if `durable`, make all of the log durable.

        Raises AuditUnavailable, and has then taken back what it wrote; after a failed
        sync it refuses everything from then on.  A crash leaves a prefix of the batch.
        Raises ClockRefused if the clock is too far ahead; events that end something
        (`ends`) are written all the same, with the time of the entry before them.
        """
        time = self.now()
        try:
            self._refuse_ahead(time)
        except ClockRefused:
            if not ends:
                raise
            time = self._chain.time
        return self._append(events, time=time, durable=durable)

    def set_clock(self, data: Mapping[str, Any], *, time: str) -> Entry:
        """Record that `time` is right, even if earlier entries are later; the caller signs it."""
        return self._append([(CLOCK, data)], time=time, durable=True)[0]

    def _append(self, events: Events, *, time: str, durable: bool) -> list[Entry]:
        if self._read_only:
            raise WorkspaceReadOnly("the workspace is read-only; nothing was done")
        self._writer.check_usable()
        if self._moved_on():
            raise AuditUnavailable("the audit log was written by another process; refresh first")
        plan = plan_batch(self._chain, events, time=time)
        self._write(plan, durable=durable)
        return list(plan.entries)

    def refresh(self, visit: Visit | None = None) -> None:
        """Catch up with what other processes appended, or began to append and left torn.

        `visit` sees what they appended; after a failure it may see the same entries again.
        """
        self._writer.check_usable()
        if self._moved_on():
            self._catch_up(visit)

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """Return an iterator over the entries from `start` to the present last one.

        Follows the chain on the way; raises AuditTampered, at the latest at the end, if
        that does not lead to the head this log has verified.
        """
        self._writer.check_usable()
        return read_entries(self._directory, start=max(0, start), end=self._chain.copy())

    def close(self) -> None:
        """Release the files; nothing can be done with the log afterwards."""
        self._writer.close()
        if self._dir_fd >= 0:
            os.close(self._dir_fd)
            self._dir_fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_writer"):
            self.close()

    def _moved_on(self) -> bool:
        """Return whether another process wrote; raise Broken if the file is not ours any more."""
        segment = self._chain.segment
        try:
            there = os.lstat(os.path.join(self._directory, segment_name(segment)))
        except FileNotFoundError:
            there = None
        except OSError as exc:
            raise unavailable(exc, "look at") from exc
        if self._writer.fd is None:
            return there is not None
        # Without this a log that was moved away would take our lines with it.
        if (
            there is None
            or not os.path.samestat(there, os.fstat(self._writer.fd))
            or not is_plain(there, self._dir_fd)
        ):
            raise LogBroken(LogFault.FILE, segment=segment, seq=self.size)
        if there.st_size < self._writer.length:
            raise LogBroken(LogFault.SHRUNK, segment=segment, seq=self.size - 1)
        return there.st_size > self._writer.length

    def _catch_up(self, visit: Visit | None) -> None:
        """Follow the files to their end, ready to write."""
        chain = self._chain.copy()
        followed = follow(self._dir_fd, chain, start=self._writer.length, visit=visit)
        if self._read_only:
            self.is_torn = followed.tail is not None
            self._stand_to_read(chain, followed)
            return
        try:
            fd = self._cut_off(chain, followed)
        except OSError as exc:
            raise unavailable(exc, "recover") from exc
        self._chain = chain
        self._writer.stand(fd, length=followed.length)
        try:
            self._record_torn(followed.recovered)
        except OSError as exc:
            raise unavailable(exc, "recover") from exc

    def _stand_to_read(self, chain: Chain, followed: Followed) -> None:
        self._chain = chain
        fd = open_segment(self._dir_fd, chain.segment) if chain.position else None
        self._writer.stand(fd, length=followed.length)

    def _cut_off(self, chain: Chain, followed: Followed) -> int | None:
        """Keep and remove a torn tail; return the segment to go on in; raise OSError."""
        if followed.tail is not None:
            reader.keep(self._dir_fd, followed.tail, seq=chain.size)
        if chain.position == 0:
            if followed.tail is not None:  # not even a header: the segment never began
                os.unlink(segment_name(chain.segment), dir_fd=self._dir_fd)
                os.fsync(self._dir_fd)
            return None
        fd = open_segment(self._dir_fd, chain.segment, writable=True)
        if followed.tail is not None:
            os.ftruncate(fd, followed.length)
        return fd

    def _record_torn(self, recorded: dict[str, int]) -> None:
        """Record every kept tail the log does not mention yet; raise OSError."""
        for kept in reader.pending(self._dir_fd):
            if recorded.get(kept.sha256, -1) < kept.seq:
                data = {"bytes": kept.length, "sha256": kept.sha256}
                self.append([(RECOVERED, data)], ends=True)
            reader.settle(self._dir_fd, kept)

    def _write(self, plan: WritePlan, *, durable: bool) -> None:
        self._writer.write(plan.parts, durable=durable)
        self._chain = plan.chain
