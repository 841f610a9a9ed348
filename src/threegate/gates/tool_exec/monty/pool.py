"""The workers of one sandbox, and the clock and counters that limit each run.

Each worker serves one program and then ends.  One thread waits for the deadline of the running
program; a timer for each would cost more than a small program takes.

The interpreter has its own limits, but its clock stands still while an external function works,
and a program may raise any error with any text.  So time, calls and output are counted here, and
a worker that exceeds a limit is killed.

SECURITY
    Receives text printed by hostile code, up to a hundred megabytes a second.  Text beyond the
    limit is dropped, and the worker is killed before it prints more.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from pydantic_monty import Monty, MontySession

from threegate.sandbox.payload import LAUNCHER

# The interpreter stops itself at the limit; a worker that did not is killed this much later.
GRACE_SECONDS: Final = 0.25
CHECKOUT_SECONDS: Final = 10.0


class WorkerPool:
    """Fresh workers, one at a time."""

    def __init__(self, binary: str = LAUNCHER) -> None:
        # One checkout per worker: no program runs where another one ran.
        self._monty = Monty(
            binary_path=binary,
            min_processes=1,
            max_processes=1,
            max_checkouts_per_worker=1,
            checkout_timeout=CHECKOUT_SECONDS,
            feed_duration_limit_grace=GRACE_SECONDS,
            turn_duration_limit_grace=GRACE_SECONDS,
        )
        self.alarm = Alarm()

    def checkout(self, **settings: Any) -> MontySession:
        """Return a session with a worker of its own."""
        return self._monty.checkout(**settings)

    def __enter__(self) -> Self:
        self._monty.__enter__()
        self.alarm.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.alarm.close()
        self._monty.__exit__(kind, error, trace)


class Alarm:
    """Calls a function once at a set time, unless it is cancelled before."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: float | None = None
        self._wakes: float | None = None  # when the thread looks next; None: when it is notified
        self._ring: Callable[[], None] | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def start(self) -> None:
        """Begin to watch the time."""
        self._thread.start()

    def set(self, seconds: float, ring: Callable[[], None]) -> None:
        """Call `ring` in so many seconds."""
        with self._changed:
            self._due, self._ring = time.monotonic() + seconds, ring
            # Waking the thread costs more than letting it look once too often.
            if self._wakes is None or self._due < self._wakes:
                self._changed.notify()

    def off(self) -> None:
        """Cancel the call; it does not happen after this returns."""
        with self._changed:
            self._due = self._ring = None

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _wait(self) -> None:
        with self._changed:
            while not self._closed:
                left = None if self._due is None else self._due - time.monotonic()
                if left is not None and left <= 0:
                    assert self._ring is not None
                    self._ring()
                    self._due = self._ring = None
                    continue
                self._wakes = None if left is None else self._due
                self._changed.wait(left)


class RunWatch:
    """Counts time and output of one run, and kills its worker at a limit."""

    def __init__(self, alarm: Alarm, *, wall_ms: int, output_bytes: int) -> None:
        self.stdout, self.stderr = bytearray(), bytearray()
        self.cut: str | None = None  # the stream that exceeded the limit
        self.why: str | None = None  # the first limit that was reached
        self._wall, self._room = wall_ms / 1000, output_bytes
        self.cpu_seconds = 0.0
        self._pid, self._began, self._ended = 0, 0.0, 0.0
        self._lock = threading.Lock()
        self._alarm = alarm

    def start(self, pid: int | None) -> None:
        """Start the clock; from here on the worker can be killed."""
        assert pid is not None, "a session that is checked out has a worker"
        self._pid, self._began = pid, time.monotonic()
        self._alarm.set(self._wall + GRACE_SECONDS, lambda: self.stop("time"))

    def end(self) -> None:
        """Stop the clock; the worker's number may belong to another process from here on."""
        with self._lock:
            self._read_cpu()
            self._pid = 0
            self._ended = self._ended or time.monotonic()
        self._alarm.off()

    def stop(self, why: str) -> None:
        """Kill the worker because of `why`; the first reason counts."""
        with self._lock:
            self.why = self.why or why
            self._read_cpu()
            pid, self._pid = self._pid, 0
            if pid:
                # It may have ended in this moment.
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _read_cpu(self) -> None:
        if self._pid:
            with suppress(OSError):  # it crashed: its processor time is unknown
                self.cpu_seconds = time.clock_gettime(_cpu_clock(self._pid))

    @property
    def late(self) -> bool:
        """Tell whether the run has used up its time, by our clock."""
        return (self._ended or time.monotonic()) - self._began >= self._wall

    def used(self, ours: float) -> bool:
        """Tell whether worker and functions (`ours` seconds) worked for longer than it may take."""
        return self.cpu_seconds + ours >= self._wall

    @property
    def room(self) -> int:
        """Return how many bytes of output are left."""
        return self._room

    def printed(self, stream: str, text: str) -> None:
        """Keep what the program printed, up to the limit."""
        if self.cut is not None:
            return
        data = text.encode("utf-8", "replace")
        if len(data) > self._room:
            data = cut_utf8(data, self._room)
            self.cut = stream
        kept = self.stdout if stream == "stdout" else self.stderr
        kept += data
        self._room -= len(data)
        if self.cut is not None:
            # Reaching the limit depends on the program alone, not on the moment of the kill.
            self._room = 0
            self.stop("output")


def _cpu_clock(pid: int) -> int:
    """Return the clock that counts the processor time of a process; see clock_getcpuclockid(3)."""
    return (~pid << 3) | 2


def cut_utf8(data: bytes, most_bytes: int) -> bytes:
    """Return the beginning of UTF-8 text, cut between two characters."""
    return data[:most_bytes].decode("utf-8", "ignore").encode("utf-8")
