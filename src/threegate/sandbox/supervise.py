"""Talking to a started gate: feed it, listen within bounds, end it whatever it does.

SECURITY
    Reads bytes of a process that may be owned.  Output floods, slow drips, garbage,
    silence and refusal to die all end the same way: the whole process tree is killed and
    the reason is recorded.  Its stderr is kept, bounded, and never shown raw.
"""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final

from threegate.sandbox.channel import CHUNK, END, NOTE, READY, ChannelBroken, FrameReader
from threegate.sandbox.profiles import Profile
from threegate.sandbox.usage import LOOK_SECONDS, Meter, has_ended, reap_group
from threegate.untrusted import Untrusted

START_SECONDS: Final = 20.0
SPOOL_BYTES: Final = 1024 * 1024  # larger answers lie in a temporary file, not in memory
MAX_NOTE_BYTES: Final = 4096
_READ_BYTES: Final = 65536
_REAP_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Started:
    """A gate's process that was just started, and the meter that looks at its box."""

    process: subprocess.Popen[bytes]
    meter: Meter

    def has_ended(self) -> bool:
        """Tell whether the process is gone; it is left to be reaped."""
        return has_ended(self.process.pid)


def discard(started: Started) -> None:
    """End a gate that was given nothing; returns when its box is empty."""
    kill(started)
    _end(started)


def kill(started: Started) -> None:
    """Kill the whole tree of a gate: its box dies with bubblewrap."""
    started.meter.look_before_kill()
    # Not `process.kill`, which would reap one that ended by itself, with its usage.
    os.kill(started.process.pid, signal.SIGKILL)


def _end(started: Started) -> tuple[int, float, int]:
    """Reap everything of a gate; return exit code, CPU seconds and bytes of memory."""
    # Until bubblewrap has told its first process, that one is found in its process group.
    outer = reap_group(started.process.pid, _REAP_SECONDS)
    started.process.returncode = os.waitstatus_to_exitcode(outer.status)
    seconds, memory = started.meter.finish(outer, _REAP_SECONDS)
    for stream in (started.process.stdin, started.process.stdout, started.process.stderr):
        assert stream is not None
        stream.close()
    return started.process.returncode, seconds, memory


@dataclass(frozen=True, slots=True)
class Ended:
    """How a gate ended, measured from outside; `usage` says what the figures are."""

    why: str  # done | not-ready | deadline | output | protocol | exit | crashed
    exit_code: int
    ready: bool
    messages: int
    wall_ms: int
    cpu_ms: int
    peak_memory_bytes: int
    stderr: Untrusted[bytes]


class Conversation:
    """One exchange with one gate; answers go to `answer`, whole messages only."""

    def __init__(
        self,
        started: Started,
        profile: Profile,
        *,
        deadline_seconds: float | None = None,
        note: Callable[[bytes], None] | None = None,
    ) -> None:
        process = started.process
        assert process.stdin and process.stdout and process.stderr
        self._started = started
        self._profile, self._note = profile, note
        self._in, self._out, self._err = process.stdin, process.stdout, process.stderr
        self._limit = min(deadline_seconds or profile.deadline_seconds, profile.deadline_seconds)
        self._reader, self._greeting = FrameReader(), b""
        self._received = 0
        self._stderr = bytearray()
        self._messages = 0
        self._listening = 2  # output and errors
        self._closed = False  # an END has come: the answer is whole
        self.answer: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115

    def run(self, request: bytes) -> Ended:
        """Send `request` as it is, collect one answer, and see the gate to its end."""
        began = time.monotonic()
        try:
            why = self._listen(memoryview(request), began)
        except BaseException:  # the operator's interrupt, a note nobody could take
            discard(self._started)
            self.answer.close()
            raise
        if why is not None:
            kill(self._started)
        return self._reap(why, began)

    def _listen(self, waiting: memoryview, began: float) -> str | None:
        with selectors.DefaultSelector() as selector:
            for stream in (self._in, self._out, self._err):
                os.set_blocking(stream.fileno(), False)
            selector.register(self._out, selectors.EVENT_READ)
            selector.register(self._err, selectors.EVENT_READ)
            selector.register(self._in, selectors.EVENT_WRITE)
            while self._listening:
                left = self._time_left(began)
                if left <= 0:
                    return "deadline" if self._is_ready else "not-ready"
                self._started.meter.look_if_due()
                for key, _ in selector.select(min(left, LOOK_SECONDS)):
                    if key.fileobj is self._in:
                        waiting = self._write(selector, waiting)
                        continue
                    why = self._take(selector, is_output=key.fileobj is self._out)
                    if why is not None:
                        return why
        return None

    @property
    def _is_ready(self) -> bool:
        return self._greeting == READY

    def _time_left(self, began: float) -> float:
        limit = self._limit if self._is_ready else min(START_SECONDS, self._limit)
        return began + limit - time.monotonic()

    def _write(self, selector: selectors.BaseSelector, waiting: memoryview) -> memoryview:
        try:
            waiting = waiting[os.write(self._in.fileno(), waiting[:_READ_BYTES]) :]
        except BlockingIOError:
            return waiting
        except BrokenPipeError:
            waiting = waiting[:0]
        if not waiting:
            selector.unregister(self._in)
            self._in.close()
        return waiting

    def _take(self, selector: selectors.BaseSelector, *, is_output: bool) -> str | None:
        stream = self._out if is_output else self._err
        try:
            data = os.read(stream.fileno(), _READ_BYTES)
        except BlockingIOError:
            return None
        if not data:
            selector.unregister(stream)
            self._listening -= 1
            return None
        if not is_output:
            room = self._profile.stderr_bytes - len(self._stderr)
            self._stderr += data[: max(0, room)]
            return "output" if len(data) > room else None
        return self._take_output(data)

    def _take_output(self, data: bytes) -> str | None:
        if not self._is_ready:
            wanted = len(READY) - len(self._greeting)
            self._greeting += data[:wanted]
            data = data[wanted:]
            if not READY.startswith(self._greeting):
                return "protocol"
        self._received += len(data)
        if self._received > self._profile.output_bytes:
            return "output"
        try:
            for kind, piece in self._reader.feed(data):
                self._take_frame(kind, piece)
        except ChannelBroken:
            return "protocol"
        return None

    def _take_frame(self, kind: int, piece: bytes) -> None:
        if kind == NOTE:
            if self._note is not None:
                self._note(piece[:MAX_NOTE_BYTES])
            return
        if self._closed:
            raise ChannelBroken("more after the answer")
        if kind == CHUNK:
            self.answer.write(piece)
        elif kind == END:
            self._closed = True
            self._messages += 1

    def _reap(self, why: str | None, began: float) -> Ended:
        code, seconds, memory = _end(self._started)
        why = why or self._why(code)
        self.answer.seek(0)
        if why != "done":
            self.answer.truncate()  # half an answer is none
        return Ended(
            why=why,
            exit_code=code,
            ready=self._is_ready,
            messages=self._messages,
            wall_ms=int((time.monotonic() - began) * 1000),
            cpu_ms=int(seconds * 1000),
            peak_memory_bytes=memory,
            stderr=Untrusted(bytes(self._stderr)),
        )

    def _why(self, code: int) -> str:
        """Say how a gate ended that nobody had to kill."""
        if not self._is_ready:
            return "not-ready"
        if code < 0 or code > 128:
            return "crashed"
        if code:
            return "exit"
        if self._reader.mid_frame:
            return "protocol"
        return "done" if self._closed else "exit"
