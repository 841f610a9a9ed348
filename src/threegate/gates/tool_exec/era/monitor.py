"""The engine's monitor: the few words of QMP the gate speaks.

SECURITY
    The engine may be owned by its guest: a line is bounded, must be JSON, and only events
    and answers of the known forms are looked at.
"""

import json
from collections import deque
from typing import Any, Final

from threegate.gates.tool_exec.era.lines import Gone, Lines

MAX_LINE_BYTES: Final = 256 * 1024
MAX_WAITING: Final = 1024
# Words for the states a machine can be in that never runs again.
STOPPED: Final = ("internal-error", "io-error", "guest-panicked", "shutdown", "watchdog")


class MonitorBroken(Exception):
    """The engine does not speak QMP."""


class Refused(Exception):
    """The engine refused a command."""


class Monitor:
    """One end of the engine's control channel."""

    def __init__(self, lines: Lines, fd: int) -> None:
        self._lines, self._fd = lines, fd
        self._held = bytearray()
        self._answers: deque[dict[str, Any]] = deque()
        self._asked = 0
        self.gone = False
        self.halted = False  # the machine stopped by itself
        self.why = ""  # what the engine said about that
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
                    continue  # to what the host said before us
                if "error" in answer:
                    raise Refused(name)
                return answer["return"]
            if self.gone:
                raise Gone
            self._lines.wait(deadline)

    def state(self, deadline: float) -> str:
        """Return the word for the machine's state, if it is one that ends it."""
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
