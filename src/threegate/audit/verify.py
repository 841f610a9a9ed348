"""Verification: every line of the log, in one pass, in flat memory.

SECURITY
    Reads a log that somebody may have rewritten.  For any bytes, the answer is a report that names
    the first fault by segment, line and entry.
    Without a checkpoint, a log that was cut at a line, changed in its last line, or rewritten from
    some line to the end verifies: only a checkpoint from elsewhere shows that.
"""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from threegate.audit.chain import Chain, Links
from threegate.audit.checkpoint import EMPTY_ROOT, Checkpoint
from threegate.audit.entry import SEGMENT_EVENTS, Entry, LogBroken, LogFault, LogHead
from threegate.audit.segment import (
    list_segments,
    open_directory,
    open_segment,
    read_blocks,
    refuse_gap,
)
from threegate.base.errors import (
    AuditTampered,
    AuditUnavailable,
    ThreeGateError,
    VersionUnsupported,
)

NOT_STRAY = frozenset({"checkpoints", "torn"})


@dataclass(frozen=True, slots=True)
class LogProblem:
    """The first thing that is wrong; `line` counts from 1 within the segment's file."""

    reason: LogFault
    segment: int
    line: int
    seq: int

    def __str__(self) -> str:
        """Return one line for people."""
        return f"entry {self.seq} (segment {self.segment}, line {self.line}) {self.reason.value}"


@dataclass(frozen=True, slots=True)
class LogReport:
    """What verification found; the log verified if `problem` is None.

    `events`, `segments`, `head` and `root` describe what was verified before the problem.
    `strays` are names of files that do not belong into the directory, as found.
    """

    events: int
    segments: int
    workspace: str | None
    head: LogHead | None
    root: bytes
    problem: LogProblem | None
    strays: tuple[str, ...] = ()


class _Pass:
    """One walk over the log."""

    def __init__(self, checkpoints: Sequence[Checkpoint], upto: LogHead | None) -> None:
        self.chain = Chain()
        self.segments = 0
        self.strays: tuple[str, ...] = ()
        self._checkpoints = sorted(checkpoints, key=lambda checkpoint: checkpoint.size)
        self._upto = upto
        self._end = None if upto is None else upto.seq + 1

    def report(self, problem: LogProblem | None) -> LogReport:
        """Return what has been verified so far, and what ended it."""
        return LogReport(
            events=self.chain.size,
            segments=self.segments,
            workspace=self.chain.workspace,
            head=self.chain.head() if self.chain.size else None,
            root=self.chain.tree.root(),
            problem=problem,
            strays=self.strays,
        )

    def steps(self, directory: Path) -> Generator[Links, None, None]:
        """Yield verified lines; raise one of our errors at the first problem."""
        dir_fd = open_directory(directory)
        try:
            segments, others = list_segments(dir_fd)
            self.strays = tuple(name for name in others if name not in NOT_STRAY)
            refuse_gap(segments)
            for segment in segments:
                yield from self._segment(dir_fd, segment, newest=segment == segments[-1])
                if self.chain.size == self._end:
                    break
        finally:
            os.close(dir_fd)
        self._finish()

    def _segment(self, dir_fd: int, segment: int, *, newest: bool) -> Iterator[Links]:
        fd = open_segment(dir_fd, segment)
        tail = b""
        try:
            for block in read_blocks(fd, segment=segment):
                yield from self._feed(block.lines, segment)
                tail = block.tail
                if self.chain.size == self._end:
                    break
        finally:
            os.close(fd)
        self.segments = segment + 1
        if self.chain.size != self._end:
            self._check_ending(tail, segment, newest=newest)

    def _feed(self, lines: Sequence[bytes], segment: int) -> Iterator[Links]:
        """Follow `lines`, stopping wherever a checkpoint wants to see the root."""
        while lines and self.chain.size != self._end:
            stops = [checkpoint.size for checkpoint in self._checkpoints[:1]]
            stops += [] if self._end is None else [self._end]
            count = max(1, min([len(lines), *(stop - self.chain.size for stop in stops)]))
            links = self.chain.feed(lines[:count], segment=segment)
            lines = lines[count:]
            self._compare()
            yield links

    def _compare(self) -> None:
        """Hold the log against every checkpoint of its present size."""
        size = self.chain.size
        while self._checkpoints and self._checkpoints[0].size <= size:
            checkpoint = self._checkpoints.pop(0)
            root = self.chain.tree.root() if checkpoint.size else EMPTY_ROOT
            if checkpoint.origin != self.chain.workspace:
                raise _broken(LogFault.ORIGIN, 0)
            if checkpoint.root != root:
                raise _broken(LogFault.FORK, max(0, checkpoint.size - 1))

    def _check_ending(self, tail: bytes, segment: int, *, newest: bool) -> None:
        """Judge how a segment's file ends."""
        sealed = self.chain.segment > segment
        if sealed and tail:
            raise LogBroken(LogFault.EXTRA, segment=segment, seq=self.chain.size)
        if not sealed and not newest:
            raise LogBroken(LogFault.UNSEALED, segment=segment, seq=self.chain.size)
        if not sealed and (tail or self.chain.position == 0):
            raise LogBroken(LogFault.TORN, segment=segment, seq=self.chain.size)

    def _finish(self) -> None:
        """Judge how the log ends."""
        if self._checkpoints:
            raise _broken(LogFault.TRUNCATED, self.chain.size)
        if self._end is not None and self.chain.size < self._end:
            raise _broken(LogFault.SHRUNK, self.chain.size)
        if self._upto is not None and self.chain.digest != self._upto.digest:
            raise _broken(LogFault.CHAIN, self._upto.seq)


def verify_log(
    directory: Path,
    *,
    checkpoints: Sequence[Checkpoint] = (),
    upto: LogHead | None = None,
    visit: Callable[[Entry], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> LogReport:
    """Verify the log in `directory` and report the first problem.

    `checkpoints` must all be of this log: each is compared with the root at its size.
    `upto` is the head of an open log, taken under the lock; entries that others append after it,
    while this runs without the lock, are ignored.  `visit` gets each verified entry in order,
    `progress` the number of entries so far; only their exceptions are raised.
    """
    walk = _Pass(checkpoints, upto)
    with closing(walk.steps(directory)) as steps:
        while True:
            try:
                links = next(steps, None)
            except (AuditTampered, AuditUnavailable, VersionUnsupported) as exc:
                return walk.report(_problem(exc, walk.chain))
            if links is None:
                return walk.report(None)
            if visit is not None:
                for entry in links.entries():
                    visit(entry)
            if progress is not None:
                progress(walk.chain.size)


def _problem(exc: ThreeGateError, chain: Chain) -> LogProblem:
    if isinstance(exc, LogBroken):
        reason, segment, seq = exc.reason, exc.segment, exc.seq
    else:
        segment, seq = chain.segment, chain.size
        reason = LogFault.FILE if isinstance(exc, AuditTampered) else LogFault.UNREADABLE
        reason = LogFault.VERSION if isinstance(exc, VersionUnsupported) else reason
    return LogProblem(reason, segment, seq - segment * SEGMENT_EVENTS + 1, seq)


def _broken(reason: LogFault, seq: int) -> LogBroken:
    return LogBroken(reason, segment=seq // SEGMENT_EVENTS, seq=seq)
