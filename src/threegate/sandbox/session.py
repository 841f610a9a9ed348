"""Jobs for a gate: one message to one process, several to one session, or a process in advance.

`run_gate` starts a gate for one job; its answer counts only if the gate then ends well.

A `Session` keeps one box for several jobs, one after the other.  An owned gate may use what it
learned from one job against the next one of the same session.  So a session holds only jobs of
one confidentiality under one policy, and at most `MAX_ASKS` of them.  Anything but an ordinary
answer ends the session.

`Prestarted` keeps processes that have imported what they need, are locked and have proved it,
and have seen nothing of any job.  Each serves one job and ends with its box, so nothing that a
job leaves behind can meet the next one.

SECURITY
    Hands jobs to a process that may be owned by an earlier one, or that was started before the
    hostile input came, and takes its answers.  If this module is wrong, a job sees the data of
    another one, or gets its answer.
"""

import io
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Final, Self, TypeVar

from threegate.base.errors import GateUnavailable
from threegate.sandbox.box import Start
from threegate.sandbox.channel import frames
from threegate.sandbox.launch import Evidence, evidence_of, not_started, start_process, view_for
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import Profile
from threegate.sandbox.supervise import Ended, Line, Started, discard, kill_meanwhile
from threegate.sandbox.view import View

START_SECONDS: Final = 20.0
CLOSE_SECONDS: Final = 5.0
SPOOL_BYTES: Final = 1024 * 1024  # larger answers lie in a temporary file, not in memory
MAX_ASKS: Final = 1001  # the opening and 1,000 jobs

Note = Callable[[bytes], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """The answer of a gate, how it ended, and its confinement."""

    message: IO[bytes]  # for the caller to close
    ended: Ended
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a session to one question; any state but `done` has ended the session.

    `sent` is False if the session turned out to be unusable before it was asked: then the
    gate saw no byte of this question, and nothing of what was wrong is this job's doing.
    """

    message: bytes
    why: str  # done | deadline | output | protocol | exit | crashed
    wall_ms: int
    peak_memory_bytes: int  # of what the gate started for it; `usage` says what was seen
    sent: bool = True


def run_gate(
    machine: Machine,
    start: Start,
    request: bytes,
    *,
    deadline_seconds: float | None = None,
    note: Note | None = None,
) -> GateAnswer:
    """Start a gate, give it one message, return its one answer.

    Raises `GateUnavailable` if the gate did not prove its lock; then it was sent nothing.
    """
    gate = WaitingGate(machine, start)
    return gate.serve(request, deadline_seconds=deadline_seconds, note=note)


def start_gate(
    machine: Machine, start: Start, view: View | None = None
) -> tuple[Started, Evidence]:
    """Start a gate; the evidence is true once it has said that it is ready."""
    view = view_for(machine, start) if view is None else view
    started = start_process(machine, start, view)
    try:
        return started, evidence_of(machine, start, view)  # while the gate locks itself
    except BaseException:
        discard(started)
        raise


class WaitingGate:
    """A started gate that waits for its only message: `serve` it or `discard` it, once."""

    def __init__(self, machine: Machine, start: Start) -> None:
        self.view = view_for(machine, start)
        self.started, self.evidence = start_gate(machine, start, self.view)
        self._profile = start.profile

    def serve(
        self,
        request: bytes,
        *,
        deadline_seconds: float | None = None,
        note: Note | None = None,
    ) -> GateAnswer:
        """Give the gate its message and wait for its end; see `run_gate`."""
        limit = self._profile.deadline_seconds
        end = time.monotonic() + min(deadline_seconds or limit, limit)
        answer: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115
        line = Line(self.started, self._profile, note=note)
        try:
            why = line.greet(min(end, time.monotonic() + START_SECONDS))
            if why is None and line.is_ready:
                line.expect(answer)
                line.send(frames(request), last=True)
                why = line.wait_for_end(end)
        except BaseException:  # the operator's interrupt, or a note that could not be stored
            line.end("interrupted")
            answer.close()
            raise
        ended = line.end(why)
        if not ended.ready:
            answer.close()
            raise not_started(self._profile.name, ended)
        answer.seek(0)
        if ended.why != "done":
            answer.truncate()  # a partial answer is not an answer
        return GateAnswer(answer, ended, self.evidence)

    def discard(self) -> None:
        """End the gate without a message; returns when its box is empty."""
        discard(self.started)


class Session:
    """One box that answers several questions, one at a time.

    Any thread may ask and close, one at a time, but the kernel ends a box with the thread
    that opened it.  Use it as a context manager, or `close` it.
    """

    def __init__(
        self, started: Started, evidence: Evidence, profile: Profile, *, note: Note | None = None
    ) -> None:
        self.evidence = evidence
        self._profile = profile
        self._line = Line(started, profile, note=note)
        self._asked = 0
        self._ended: Ended | None = None

    @classmethod
    def open(cls, machine: Machine, start: Start, *, note: Note | None = None) -> Self:
        """Start a gate and wait until it has proved its lock; nothing is sent before.

        Raises `GateUnavailable`.
        """
        assert start.profile.reuse != "one job", "its process must not meet a second job"
        started, evidence = start_gate(machine, start)
        session = cls(started, evidence, start.profile, note=note)
        ended = session._guarded(session._greet)
        if ended is not None:
            raise not_started(start.profile.name, ended)
        return session

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._stop("interrupted")

    @property
    def alive(self) -> bool:
        """Tell whether the session can take another question."""
        usable = self._ended is None and self._asked < MAX_ASKS
        return usable and not self._line.started.has_ended()

    def ask(self, request: bytes, *, deadline_seconds: float) -> Reply:
        """Send one message and return the answer to it.

        Raises `GateUnavailable` if the session has ended before.
        """
        if self._ended is not None or self._asked >= MAX_ASKS:
            raise GateUnavailable("the session has ended", code="TG-BOX-023")
        self._asked += 1
        return self._guarded(lambda: self._ask(request, deadline_seconds))

    def kill(self) -> None:
        """Kill it from another thread; the thread that asks does the rest."""
        kill_meanwhile(self._line.started)

    def close(self) -> Ended:
        """Close the gate's input and wait for its end; a second call does nothing."""
        if self._ended is None:
            self._guarded(self._hang_up)
        assert self._ended is not None
        return self._ended

    def _greet(self) -> Ended | None:
        why = self._line.greet(time.monotonic() + START_SECONDS)
        return None if why is None and self._line.is_ready else self._stop(why)

    def _ask(self, request: bytes, deadline_seconds: float) -> Reply:
        began = time.monotonic()
        line, answer, done, peak = self._line, io.BytesIO(), False, 0
        why = line.settle()
        # What a gate left behind may keep its streams open for a moment after its end.
        sent = why is None and not line.is_gone and not line.started.has_ended()
        if sent:
            seconds = min(deadline_seconds, self._profile.deadline_seconds)
            line.expect(answer)
            line.send(frames(request))
            line.started.meter.begin_job()
            why = line.wait_for_answer(began + seconds)
            peak = line.started.meter.end_job()
            if why is None and line.is_answered:
                why = line.settle()
                done = why is None
        found = "done" if done else self._stop(why).why
        wall_ms = int((time.monotonic() - began) * 1000)
        return Reply(answer.getvalue() if done else b"", found, wall_ms, peak, sent)

    def _hang_up(self) -> None:
        why = self._line.settle()
        if why is None:
            if not self._line.is_gone:
                self._line.hang_up()
            why = self._line.wait_for_end(time.monotonic() + CLOSE_SECONDS)
        self._stop(why)

    def _guarded(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except BaseException:  # the operator's interrupt, a note nobody could take
            self._stop("interrupted")
            raise

    def _stop(self, why: str | None) -> Ended:
        """End the box, killing it if there is a reason to; returns when it is empty."""
        if self._ended is None:
            self._ended = self._line.end(why)
        return self._ended


MAX_IDLE_SECONDS: Final = 600.0


class Prestarted:
    """Keeps `size` processes of one start waiting; each serves one job.

    For a gate whose start is the same for every job: one that gets its input as a message.
    A process ends with the thread that started it (the kernel's word for a parent), so
    call `run` and `fill` from a thread that stays.  Use it as a context manager, or `close` it.
    """

    def __init__(
        self, machine: Machine, start: Start, size: int, *, idle_seconds: float = MAX_IDLE_SECONDS
    ) -> None:
        assert start.profile.reuse != "one start", "a process that stays is not started in advance"
        assert not start.keep_fds, "a descriptor would be shared by jobs"
        self._machine, self._start, self._size = machine, start, size
        self._idle_seconds = idle_seconds
        self._waiting: deque[tuple[WaitingGate, float]] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self.fill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def run(
        self,
        request: bytes,
        *,
        deadline_seconds: float | None = None,
        note: Callable[[bytes], None] | None = None,
        refill: bool = True,
    ) -> GateAnswer:
        """Give one message to one waiting process and return its answer; see `run_gate`.

        The process that takes its place is started before this returns, or, without
        `refill`, when `fill` is called.
        """
        gate = self._take() or WaitingGate(self._machine, self._start)
        answer = gate.serve(request, deadline_seconds=deadline_seconds, note=note)
        if refill:
            self.fill()
        return answer

    def waiting(self) -> list[Started]:
        """Return the processes that wait."""
        with self._lock:
            return [gate.started for gate, _ in self._waiting]

    def fill(self) -> None:
        """Start processes until `size` are waiting; dead and stale ones are replaced."""
        with self._lock:
            self._drop_unusable()
            while not self._closed and len(self._waiting) < self._size:
                gate = WaitingGate(self._machine, self._start)
                self._waiting.append((gate, time.monotonic()))

    def _take(self) -> WaitingGate | None:
        with self._lock:
            if self._closed:
                raise GateUnavailable("the gate is shutting down", code="TG-BOX-022")
            self._drop_unusable()
            return self._waiting.popleft()[0] if self._waiting else None

    def _drop_unusable(self) -> None:
        view = view_for(self._machine, self._start) if self._waiting else None
        for _ in range(len(self._waiting)):
            gate, since = self._waiting.popleft()
            old = time.monotonic() - since > self._idle_seconds
            # Another view: the interpreter or our own code on disk is not what it runs.
            if old or gate.view != view or gate.started.has_ended():
                gate.discard()
            else:
                self._waiting.append((gate, since))

    def close(self) -> None:
        """End every waiting process; returns when nothing of them is left."""
        with self._lock:
            self._closed = True
            while self._waiting:
                self._waiting.popleft()[0].discard()
