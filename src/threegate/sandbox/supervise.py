"""The host's end of a started gate: ask it, listen within bounds, end it.

SECURITY
    Reads bytes of a process that may be owned.  Output floods, slow drips, garbage,
    silence and refusal to die all end the same way: the whole process tree is killed and
    the reason is recorded.  Its stderr is kept, bounded, and never shown raw.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Final

from threegate.base.untrusted import Untrusted
from threegate.sandbox.channel import CHUNK, NOTE, READY, ChannelBroken, FrameReader
from threegate.sandbox.profiles import Profile
from threegate.sandbox.usage import Meter, has_ended, reap_group

MAX_NOTE_BYTES: Final = 4096
_PIECE_BYTES: Final = 65536
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
    """End a gate that got no message; returns when its sandbox is empty."""
    kill(started)
    _end(started)


def kill(started: Started) -> None:
    """Kill the whole tree of a gate: its box dies with bubblewrap."""
    started.meter.look_before_kill()
    # Not `process.kill`: it would reap a process that has ended, and lose its usage.
    if not started.has_ended():
        os.kill(started.process.pid, signal.SIGKILL)


def kill_meanwhile(started: Started) -> None:
    """Kill a gate whose end another thread may be waiting for."""
    if started.process.returncode is None:
        with suppress(ChildProcessError, ProcessLookupError):  # it was reaped between two steps
            kill(started)


def _end(started: Started) -> tuple[int, float, int]:
    """Reap everything of a gate; return exit code, CPU seconds and bytes of memory."""
    # Until bubblewrap has named its first process, that one is found in its process group.
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

    why: str  # done | not-ready | deadline | output | protocol | exit | crashed | interrupted
    exit_code: int
    ready: bool
    messages: int
    wall_ms: int
    cpu_ms: int
    peak_memory_bytes: int
    stderr: Untrusted[bytes]


class Line:
    """Questions to one gate and its answers, one at a time.

    What waits returns why the gate must be ended, or None: then what was waited for has
    come, or the gate is gone.  Every line has one `end`.
    """

    def __init__(
        self, started: Started, profile: Profile, *, note: Callable[[bytes], None] | None = None
    ) -> None:
        process = started.process
        assert process.stdin and process.stdout and process.stderr
        self.started = started
        self._profile, self._note = profile, note
        self._in, self._out, self._err = process.stdin, process.stdout, process.stderr
        self._began = time.monotonic()
        self._waiting, self._last, self._blocked = memoryview(b""), False, False
        self._reader, self._greeting = FrameReader(), b""
        self._answer: IO[bytes] | None = None  # None: nothing was asked, so nothing is heard
        self._due = False  # an answer was asked for and is not whole yet
        self._received = self._messages = 0
        self._stderr = bytearray()
        self._listening = 2  # output and errors
        self._selector = selectors.DefaultSelector()
        for stream in (self._in, self._out, self._err):
            os.set_blocking(stream.fileno(), False)
        for stream in (self._out, self._err):
            self._selector.register(stream, selectors.EVENT_READ)

    @property
    def is_ready(self) -> bool:
        """Tell whether the gate has said that its lock holds."""
        return self._greeting == READY

    @property
    def is_answered(self) -> bool:
        """Tell whether an answer was asked for and is whole."""
        return self._answer is not None and not self._due

    @property
    def is_gone(self) -> bool:
        """Tell whether the gate closed its streams: nothing more will come."""
        return self._listening < 2

    def greet(self, end: float) -> str | None:
        """Wait until the gate says that its lock holds."""
        return self._listen(end, lambda: self.is_ready)

    def expect(self, answer: IO[bytes]) -> None:
        """Write what the gate says from now on to `answer`, until that is whole."""
        self._answer, self._due, self._received = answer, True, 0

    def send(self, request: bytes, *, last: bool = False) -> None:
        """Begin to send a message; the rest goes out while waiting, the end after the `last`."""
        self._waiting, self._last = memoryview(request), last
        self._write()

    def wait_for_answer(self, end: float) -> str | None:
        """Wait until the answer is whole."""
        return self._listen(end, lambda: not self._due)

    def wait_for_end(self, end: float) -> str | None:
        """Wait until the gate is gone."""
        return self._listen(end, lambda: False)

    def settle(self) -> str | None:
        """Check between two questions that the gate sent nothing more."""
        if self._waiting:  # an answer to half a question
            return "protocol"
        self._answer = None
        for key, _ in self._selector.select(0):
            why = self._take(is_output=key.fileobj is self._out)
            if why is not None:
                return why
        return "protocol" if self._reader.mid_frame else None

    def hang_up(self) -> None:
        """Close the gate's input."""
        self._in.close()

    def end(self, why: str | None) -> Ended:
        """Kill the gate if there is a reason to, reap it, and say how it ended."""
        if why is not None:
            kill(self.started)
        self._selector.close()
        told_to_end = self._last or self._in.closed
        code, seconds, memory = _end(self.started)
        return Ended(
            why=why or self._why(code, told_to_end=told_to_end),
            exit_code=code,
            ready=self.is_ready,
            messages=self._messages,
            wall_ms=int((time.monotonic() - self._began) * 1000),
            cpu_ms=int(seconds * 1000),
            peak_memory_bytes=memory,
            stderr=Untrusted(bytes(self._stderr)),
        )

    def _why(self, code: int, *, told_to_end: bool) -> str:
        """Return how a gate ended that was not killed."""
        if not self.is_ready:
            return "not-ready"
        if code < 0 or code > 128:
            return "crashed"
        if code:
            return "exit"
        if self._reader.mid_frame:
            return "protocol"
        return "done" if told_to_end and not self._due else "exit"

    def _listen(self, end: float, until: Callable[[], bool]) -> str | None:
        while self._listening and not until():
            left = end - time.monotonic()
            if left <= 0:
                return "deadline" if self.is_ready else "not-ready"
            pause = self.started.meter.look_if_due()
            for key, _ in self._selector.select(min(left, pause)):
                if key.fileobj is self._in:
                    self._write()
                    continue
                why = self._take(is_output=key.fileobj is self._out)
                if why is not None:
                    return why
        return None

    def _write(self) -> None:
        """Send as much as fits now; poll for the rest."""
        try:
            sent = os.write(self._in.fileno(), self._waiting[:_PIECE_BYTES])
            self._waiting = self._waiting[sent:]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._waiting = self._waiting[:0]
        if bool(self._waiting) != self._blocked:
            self._blocked = not self._blocked
            if self._blocked:
                self._selector.register(self._in, selectors.EVENT_WRITE)
            else:
                self._selector.unregister(self._in)
        if self._last and not self._waiting:
            self._in.close()

    def _take(self, *, is_output: bool) -> str | None:
        stream = self._out if is_output else self._err
        # Bytes after the greeting belong to the first question.
        most = len(READY) - len(self._greeting) if is_output and not self.is_ready else _PIECE_BYTES
        try:
            data = os.read(stream.fileno(), most)
        except BlockingIOError:
            return None
        if not data:
            self._selector.unregister(stream)
            self._listening -= 1
            return None
        if not is_output:
            room = self._profile.stderr_bytes - len(self._stderr)
            self._stderr += data[: max(0, room)]
            return "output" if len(data) > room else None
        return self._take_output(data)

    def _take_output(self, data: bytes) -> str | None:
        if not self.is_ready:
            self._greeting += data
            return None if READY.startswith(self._greeting) else "protocol"
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
        if self._answer is None:
            raise ChannelBroken("nothing was asked")
        if kind == NOTE:
            if self._note is not None:
                self._note(piece[:MAX_NOTE_BYTES])
            return
        if not self._due:
            raise ChannelBroken("more after the answer")
        if kind == CHUNK:
            self._answer.write(piece)
        else:
            self._due = False
            self._messages += 1
