"""A program in a box that answers nobody: the engine, driven by somebody else's channels.

The host starts it, hears that its lock holds, and ends it.  What it says on the channels it
was handed is for whoever holds the other ends.

SECURITY
    Starts a process that will be owned sooner or later, and makes sure of its end.
"""

import time
from types import TracebackType
from typing import Self

from threegate.sandbox.box import Start
from threegate.sandbox.launch import Evidence, not_started
from threegate.sandbox.machine import Machine
from threegate.sandbox.session import START_SECONDS, start_gate
from threegate.sandbox.supervise import Ended, Line, kill_meanwhile


class Companion:
    """One boxed program; the kernel ends it with the thread that started it."""

    def __init__(self, machine: Machine, start: Start) -> None:
        """Start the program; `ready` says whether its lock holds."""
        started, self.evidence = start_gate(machine, start)
        self._name = start.profile.name
        self._line = Line(started, start.profile)
        self._ended: Ended | None = None

    def ready(self) -> Evidence:
        """Wait until the lock holds and the program begins, or raise `GateUnavailable`."""
        why = self._line.greet(time.monotonic() + START_SECONDS)
        if why is not None or not self._line.is_ready:
            raise not_started(self._name, self.end(why))
        return self.evidence

    def end(self, why: str | None = "done", *, patience_seconds: float = 0.0) -> Ended:
        """Kill it, whatever it does, and return when its box is empty; twice is once.

        One that is about to end by itself may be given the time to say why.
        """
        if self._ended is None:
            self._line.wait_for_end(time.monotonic() + patience_seconds)
            self._ended = self._line.end(None if self._line.started.has_ended() else why)
        return self._ended

    def processes(self) -> list[int]:
        """Return the processes in its box, the first one first."""
        return self._line.started.meter.processes()

    def kill(self) -> None:
        """Kill it from another thread than the one that will end it."""
        kill_meanwhile(self._line.started)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end("interrupted")
