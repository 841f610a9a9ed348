"""The control channel of a user-space kernel: the two words of it the gate speaks.

The gate tells it to start its guest and asks to hear of the guest's end; nothing else of that
channel is used.

SECURITY
    The kernel may be owned by its guest: what it says is bounded, must be JSON, and only
    whether it was a yes is looked at.
"""

import json
import time
from typing import Any, Final

from threegate.gates.tool_exec.era.lines import Gone, Lines
from threegate.gates.tool_exec.era.messages import GUEST_NAME
from threegate.gates.tool_exec.era.monitor import MonitorBroken

MAX_ANSWER_BYTES: Final = 64 * 1024
SECONDS: Final = 5.0


class Control:
    """One end of the control channel."""

    def __init__(self, lines: Lines, fd: int) -> None:
        self._lines, self._fd = lines, fd
        self._held = bytearray()
        self._due = ["containerManager.StartRoot", "containerManager.Wait"]
        self.halted = False  # the guest did not start, or has ended
        self.why = ""
        lines.listen(fd, self._take)
        self._ask()

    def state(self, _: float) -> str:
        """Return what is known of the guest's end; what was not heard by now is not asked for."""
        return self.why

    def _ask(self) -> None:
        ask = {"method": self._due[0], "arg": GUEST_NAME}
        try:  # two short lines into an empty channel never wait
            deadline = time.monotonic() + SECONDS
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
        """Return what was answered, if it is whole."""
        if len(self._held) > MAX_ANSWER_BYTES:
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
