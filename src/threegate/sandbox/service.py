"""Gates that stay: a service that answers and sends notes, and a program without answers.

The kernel ends a box with the thread that started it, so a service has a thread of its own.
That thread also reads what the gate says: a gate whose notes nobody reads would block.

A companion is a program in a box, for example QEMU.  The host starts it, waits for the proof of
its lock, and ends it; another gate talks to it over channels that both were handed.

SECURITY
    Reads bytes of a process that may be owned.  An answer or a note that breaks the protocol,
    or that the host cannot store, ends the gate.  A companion is expected to be owned; `end`
    kills it in any state.
"""

import io
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from threegate.base.errors import ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.sandbox.box import Start
from threegate.sandbox.channel import frames
from threegate.sandbox.launch import Evidence, not_started
from threegate.sandbox.machine import Machine
from threegate.sandbox.session import CLOSE_SECONDS, START_SECONDS, Note, start_gate
from threegate.sandbox.supervise import Ended, Line, kill_meanwhile

SLICE_SECONDS: Final = 0.1  # the longest time that a request waits for the thread to look up
GONE: Final = "it has ended before"
_BY_ITSELF: Final = ("crashed", "exit")  # not how a gate ends that was told to

T = TypeVar("T")
Failed = Callable[[str], ThreeGateError]  # from the reason of an end to the error for the operator


@dataclass(frozen=True, slots=True)
class _Request:
    message: bytes
    parse: Callable[[Untrusted[bytes]], Any]
    seconds: float
    answer: "Future[Any]"


class ServiceGate:
    """A gate that stays and answers requests; `ask` and `close` may be called from any thread."""

    def __init__(
        self,
        machine: Machine,
        start: Start,
        *,
        note: Note,
        failed: Failed,
        gone: Callable[[ThreeGateError], None] = lambda _: None,
    ) -> None:
        """Start the gate and return when it has proved its lock; raise `GateUnavailable`.

        `gone` is called in the gate's thread if the gate ends without being told to.
        """
        self._machine, self._start = machine, start
        self._note, self._failed, self._gone = note, failed, gone
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        self._close = Event()
        self._opened: Future[Evidence] = Future()
        self.fault: ThreeGateError | None = None  # raised while the gate was read
        self.error: ThreeGateError | None = None  # the fault, or why it ended
        self._thread = Thread(target=self._run, name=start.profile.name, daemon=True)
        self._thread.start()
        try:
            self.evidence = self._opened.result()
        except BaseException:  # also the operator's interrupt while the gate starts
            self.close()
            raise

    def ask(self, message: bytes, parse: Callable[[Untrusted[bytes]], T], *, seconds: float) -> T:
        """Send one message and return what `parse` makes of the answer.

        An error of `parse` ends the gate and is raised here as well.
        """
        answer: Future[T] = Future()
        self._requests.put(_Request(message, parse, seconds, answer))
        while True:
            alive = self._thread.is_alive()
            try:
                return answer.result(timeout=SLICE_SECONDS)
            except TimeoutError:
                if not alive:  # it ended before it saw the request
                    raise self._failed(GONE) from None

    def close(self) -> None:
        """End the gate; returns when its box is empty."""
        self._close.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            line, evidence = self._open()
        except BaseException as exc:  # noqa: BLE001  # raised by the constructor
            self._opened.set_exception(exc)
            return
        self._opened.set_result(evidence)
        why: str | None = "interrupted"
        try:
            why = self._serve(line)
        except ThreeGateError as exc:
            self.fault = exc
        except BaseException as exc:  # noqa: BLE001  # told to the owner, below
            self.fault = self._failed(type(exc).__name__)
        self._finish(line.end(why))

    def _open(self) -> tuple[Line, Evidence]:
        started, evidence = start_gate(self._machine, self._start)
        line = Line(started, self._start.profile, note=self._note)
        why = line.greet(time.monotonic() + START_SECONDS)
        if why is not None or not line.is_ready:
            raise not_started(self._start.profile.name, line.end(why))
        return line, evidence

    def _serve(self, line: Line) -> str | None:
        """Answer requests and read notes; return why the gate must be killed, None if it ended."""
        asked = False  # a gate that speaks before it was asked breaks the protocol
        while not self._close.is_set():
            try:
                request = self._requests.get(block=not asked, timeout=SLICE_SECONDS)
            except Empty:
                request = None
            if request is not None:
                self._answer(line, request)
                asked = True
            if asked:
                why = line.wait_for_end(time.monotonic() + SLICE_SECONDS)
                if why != "deadline":
                    return why
        if not line.is_gone:
            line.hang_up()
        return line.wait_for_end(time.monotonic() + CLOSE_SECONDS)

    def _answer(self, line: Line, request: _Request) -> None:
        try:
            request.answer.set_result(self._heard(line, request))
        except BaseException as exc:
            request.answer.set_exception(exc)
            raise

    def _heard(self, line: Line, request: _Request) -> object:
        answer = io.BytesIO()
        line.expect(answer)
        line.send(frames(request.message))
        end = time.monotonic() + request.seconds
        why: str | None = "deadline"
        # In slices, so that `close` need not wait for a gate that loads for minutes.
        while why == "deadline" and time.monotonic() < end and not self._close.is_set():
            why = line.wait_for_answer(time.monotonic() + SLICE_SECONDS)
        if why is not None or not line.is_answered:
            raise self._failed(why or "exit")
        return request.parse(Untrusted(answer.getvalue()))

    def _finish(self, ended: Ended) -> None:
        self.error = self.fault
        if self.error is None and (ended.why in _BY_ITSELF or not self._close.is_set()):
            self.error = self._failed(ended.why)
        while not self._requests.empty():
            self._requests.get().answer.set_exception(self._failed(GONE))
        if self.error is not None:
            self._gone(self.error)


class Companion:
    """One program in a sandbox; the kernel ends it with the thread that started it."""

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
        """Kill it, and return when its sandbox is empty; a second call does nothing.

        `patience_seconds` lets a program that is about to end say why.
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
