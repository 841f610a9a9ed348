"""The gate's byte channels: to the guest, and to its engine or user-space kernel, with one clock.

`Monitor` speaks the few commands of QMP that the gate needs.  `Control` starts the guest of a
user-space kernel and waits for its end; the gate uses nothing else of that channel.

SECURITY
    Reads bytes of a guest and of an engine that the guest may have taken over.  Every buffer is
    bounded, every wait has a deadline, and a write never waits for a reader that does not read.
    Answers must be JSON of the known forms.
"""

import json
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from threegate.gates.tool_exec.era.messages import GUEST_NAME

PIECE_BYTES: Final = 64 * 1024


class Gone(Exception):
    """The other side closed its channel."""


class Late(Exception):
    """The deadline has passed."""


class Lines:
    """Two descriptors that are waited for together, each with a function that takes its bytes."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._takers: dict[int, Callable[[bytes], None]] = {}

    def listen(self, fd: int, take: Callable[[bytes], None]) -> None:
        """Call `take` with the bytes of a descriptor; with no bytes when it ends."""
        # A peer that stops reading must not block the gate.
        os.set_blocking(fd, False)
        self._takers[fd] = take
        self._poll.register(fd, select.POLLIN)

    def wait(self, deadline: float) -> None:
        """Wait for bytes and hand them over, or raise `Late`."""
        for fd, _ in self._poll.poll(_left_ms(deadline)):
            piece = _read(fd)
            if piece is None:
                continue
            if not piece:
                self._poll.unregister(fd)
            self._takers[fd](piece)

    def send(self, fd: int, data: bytes, deadline: float) -> None:
        """Write everything while listening, or raise `Late` or `Gone`."""
        left = memoryview(data)
        writable = select.poll()
        writable.register(fd, select.POLLOUT)
        while left:
            try:
                left = left[os.write(fd, left[:PIECE_BYTES]) :]
            except BlockingIOError:
                writable.poll(_left_ms(deadline))
            except OSError as exc:
                raise Gone from exc


def _read(fd: int) -> bytes | None:
    try:
        return os.read(fd, PIECE_BYTES)
    except BlockingIOError:
        return None
    except OSError:  # reset by a process that died
        return b""


def _left_ms(deadline: float) -> int:
    left = deadline - time.monotonic()
    if left <= 0:
        raise Late
    return max(1, int(left * 1000))


MAX_LINE_BYTES: Final = 256 * 1024
MAX_WAITING: Final = 1024
# States of a machine that never runs again.
STOPPED: Final = ("internal-error", "io-error", "guest-panicked", "shutdown", "watchdog")


class MonitorBroken(Exception):
    """The engine or the kernel does not keep to its protocol."""


class MonitorRefused(Exception):
    """The engine refused a command."""


class Monitor:
    """The gate's end of the engine's monitor (QMP)."""

    def __init__(self, lines: Lines, fd: int) -> None:
        self._lines, self._fd = lines, fd
        self._held = bytearray()
        self._answers: deque[dict[str, Any]] = deque()
        self._asked = 0
        self.gone = False
        self.halted = False  # the machine stopped
        self.why = ""  # the engine's reason for it
        lines.listen(fd, self._take)

    def command(self, name: str, deadline: float, **arguments: Any) -> Any:
        """Give a command and return its answer."""
        self._asked += 1
        ask = {"execute": name, "arguments": arguments, "id": self._asked}
        self._lines.send(self._fd, json.dumps(ask).encode() + b"\n", deadline)
        while True:
            while self._answers:
                answer = self._answers.popleft()
                if answer.get("id") != self._asked:
                    continue  # an answer to the host, which used the monitor before us
                if "error" in answer:
                    raise MonitorRefused(name)
                return answer["return"]
            if self.gone:
                raise Gone
            self._lines.wait(deadline)

    def state(self, deadline: float) -> str:
        """Return the machine's state, if it is one in which it never runs again."""
        found = self.command("query-status", deadline)
        status = found.get("status") if isinstance(found, dict) else None
        return status if isinstance(status, str) and status in STOPPED else ""

    def _take(self, piece: bytes) -> None:
        if not piece:
            self.gone = True
        self._held += piece
        while (end := self._held.find(b"\n")) >= 0:
            line = bytes(self._held[:end])
            del self._held[: end + 1]
            self._hear(line)
        if len(self._held) > MAX_LINE_BYTES:
            raise MonitorBroken

    def _hear(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise MonitorBroken from exc
        if not isinstance(said, dict):
            raise MonitorBroken
        if "return" in said or "error" in said:
            # An owned engine may send answers that no command asked for.
            if len(self._answers) >= MAX_WAITING:
                raise MonitorBroken
            self._answers.append(said)
        self._event(said)

    def _event(self, said: dict[str, Any]) -> None:
        name, data = said.get("event"), said.get("data")
        if name not in ("STOP", "SHUTDOWN", "GUEST_PANICKED"):
            return
        self.halted = True
        reason = data.get("reason") if isinstance(data, dict) else None
        if name == "SHUTDOWN" and reason in ("guest-reset", "guest-shutdown", "guest-panic"):
            self.why = reason


MAX_CONTROL_ANSWER_BYTES: Final = 64 * 1024
CONTROL_SECONDS: Final = 5.0


class Control:
    """The gate's end of the control channel of a user-space kernel (runsc)."""

    def __init__(self, lines: Lines, fd: int) -> None:
        self._lines, self._fd = lines, fd
        self._held = bytearray()
        self._due = ["containerManager.StartRoot", "containerManager.Wait"]
        self.halted = False  # the guest did not start, or has ended
        self.why = ""
        lines.listen(fd, self._take)
        self._ask()

    def state(self, _: float) -> str:
        """Return why the guest ended, if that is known by now."""
        return self.why

    def _ask(self) -> None:
        ask = {"method": self._due[0], "arg": GUEST_NAME}
        try:  # two short messages into an empty channel never block
            deadline = time.monotonic() + CONTROL_SECONDS
            self._lines.send(self._fd, json.dumps(ask).encode(), deadline)
        except Gone:
            self.halted = True

    def _take(self, piece: bytes) -> None:
        self._held += piece
        if not piece:
            self.halted = True
        elif (answer := self._answer()) is not None:
            self._hear(answer)

    def _answer(self) -> dict[str, Any] | None:
        """Return the answer, if it is complete."""
        if len(self._held) > MAX_CONTROL_ANSWER_BYTES:
            raise MonitorBroken
        try:
            said = json.loads(self._held)
        except ValueError:
            return None  # not yet
        except RecursionError as exc:
            raise MonitorBroken from exc
        if not isinstance(said, dict):
            raise MonitorBroken
        self._held.clear()
        return said

    def _hear(self, answer: dict[str, Any]) -> None:
        if not self._due:
            raise MonitorBroken
        asked = self._due.pop(0)
        if answer.get("success") is not True:
            self.halted, self.why = True, "its kernel did not start it"
        elif self._due:
            self._ask()
        else:
            assert asked.endswith("Wait")
            self.halted, self.why = True, "its first process ended"
