"""What we see of one run ourselves: its clock, what it printed, and when it must end.

The interpreter has limits of its own, but its clock stands still while a function of ours
works, and a program may raise any error with any text.  So time, calls and output are
counted here, and a worker that breaks one of these limits is killed.

SECURITY
    Receives text printed by hostile code, up to a hundred megabytes a second: what is
    beyond the limit is counted and dropped, and the worker does not live to print more.
"""

import os
import signal
import threading
import time
from contextlib import suppress

from threegate.gates.tool_exec.monty.pool import GRACE_SECONDS, Alarm


class Watch:
    """Follows one worker through one run."""

    def __init__(self, alarm: Alarm, *, wall_ms: int, output_bytes: int) -> None:
        self.stdout, self.stderr = bytearray(), bytearray()
        self.cut: str | None = None  # the stream that ran over
        self.why: str | None = None  # the first limit that we saw broken
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
                # Not there any more: it ended by itself in this moment.
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _read_cpu(self) -> None:
        if self._pid:
            with suppress(OSError):  # crashed: what it used is not known
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
            # Whether it printed too much depends on the program alone, not on when we kill it.
            self._room = 0
            self.stop("output")


def _cpu_clock(pid: int) -> int:
    """Return the clock that counts the processor time of a process; see clock_getcpuclockid(3)."""
    return (~pid << 3) | 2


def cut_utf8(data: bytes, most_bytes: int) -> bytes:
    """Return the beginning of UTF-8 text, cut between two characters."""
    return data[:most_bytes].decode("utf-8", "ignore").encode("utf-8")
