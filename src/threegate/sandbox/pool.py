"""Warm starts without reuse: locked processes that wait, each for exactly one job.

A waiting process has imported what it needs, is locked and has proved it; it has seen
nothing of any job.  It serves one and ends, and its box ends with it, so nothing a job leaves
behind can meet the next one.  There is no option to change that: what could be saved is
already done before the job comes.  (A gate whose profile allows it serves several jobs of one
kind in a `session`; that is another thing and has its own bounds.)

SECURITY
    Hands hostile input to processes that were started before it came.  If this module is
    wrong, one job may see another one's data.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from threegate.base.errors import GateUnavailable
from threegate.sandbox.box import Start
from threegate.sandbox.launch import view_for
from threegate.sandbox.machine import Machine
from threegate.sandbox.session import Answer, WaitingGate
from threegate.sandbox.supervise import Started

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
    ) -> Answer:
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
