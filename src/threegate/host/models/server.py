"""A model that is served: its box, its socket, and what becomes of it.

    with ModelServer.start(bundle, machine, cache) as server:
        ...  # bind server.socket into CORE's box

The box is started by a thread of its own, because it ends with the thread that started it and
because somebody must hear what it says.  When it ends for any reason `server.refuse_ended`
says so.

SECURITY
    Reads what a process says that reads a model file and CORE's requests.  Which model it
    serves is compared with the policy; what is not in the protocol ends it.
"""

import io
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final, Self

from threegate.base.errors import GateUnavailable, ProtocolBroken, ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import Served
from threegate.gates.model.messages import (
    Embedded,
    Progress,
    Ready,
    Refused,
    Remote,
    parse_greeting,
    parse_progress,
)
from threegate.host.gate_profiles import refuse_unapplied_profile
from threegate.host.models.boxes import Box, Opening, box_of
from threegate.host.models.choice import Chosen, chosen
from threegate.host.models.codeless import Noted, no_op_of
from threegate.host.models.remote import Leaving, remote_box
from threegate.host.proxy.sockets import Listening, listening
from threegate.policy.bundle import Bundle
from threegate.sandbox.box import Start
from threegate.sandbox.channel import frames
from threegate.sandbox.launch import Evidence, not_started
from threegate.sandbox.machine import Machine
from threegate.sandbox.session import START_SECONDS, start_gate
from threegate.sandbox.supervise import Line

LOAD_SECONDS: Final = 600.0  # a large file from a slow disk
CLOSE_SECONDS: Final = 5.0
SLICE_SECONDS: Final = 0.1
MODEL_GONE: Final = "TG-MDL-030"
_BY_ITSELF: Final = ("crashed", "exit")  # also if it was being closed by then
# What to do about what a box refuses, by its code.
_HINTS: Final = {
    "TG-MDL-010": "start your model server, or correct `endpoint` in policy/core.policy.md",
    "TG-MDL-014": "load that model in your server, or correct `name` in policy/core.policy.md",
    "TG-MDL-015": "remove the file with `threegate model remove` and pull it again",
    "TG-MDL-016": "it may need more memory than there is, or be of another kind than GGUF",
}
_REMOTE_HINTS: Final = {
    "TG-MDL-010": "`threegate audit show` says what the proxy decided; --extractive needs no model",
    "TG-MDL-013": "`threegate credential list` shows whether a key is kept, and where it goes",
    "TG-MDL-014": "correct `name` in policy/core.policy.md: that machine must call the model so",
}

Told = Callable[[Progress], None]


class ModelServer:
    """A running model; `refuse_ended` may be called from any thread."""

    def __init__(self, model: Chosen, machine: Machine, place: Listening, told: Told) -> None:
        self.model, self.socket = model, place.path
        self._machine, self._fd, self._told = machine, place.fd, told
        self._close = Event()
        self._thread: Thread | None = None
        self._opened: Future[tuple[Evidence, Ready]] = Future()
        self._ended: ThreeGateError | None = None

    @classmethod
    @contextmanager
    def start(
        cls,
        bundle: Bundle,
        machine: Machine,
        cache: Path,
        *,
        runtime: Path | None = None,
        told: Told = lambda _: None,
        leaving: Leaving | None = None,
        noted: Noted = lambda _: None,
    ) -> Iterator[Self]:
        """Serve the model the policy names, and no other; raise `GateUnavailable`.

        Without `leaving` there is none on another machine.  `noted` hears that the box runs no
        code, by which proofs; one that has not proved it loads nothing.
        """
        model = chosen(bundle)
        with ExitStack() as stack:
            if model.kind == "remote":
                way = remote_box(bundle, model, machine, runtime, leaving)
                box = stack.enter_context(way)
            else:
                box = box_of(model, cache)
            refuse_unapplied_profile(bundle, box.profile)
            place = stack.enter_context(listening(runtime, purpose="model"))
            server = cls(model, machine, place, told)
            work = Thread(target=server._run, args=(box,), name="model", daemon=True)
            server._thread = work
            work.start()
            try:
                evidence, _ = server._opened.result()
                noted(no_op_of(evidence))
                yield server
            finally:
                server.close()

    @property
    def evidence(self) -> Evidence:
        """What confines it."""
        return self._opened.result()[0]

    @property
    def served(self) -> Served:
        """The model it serves, which is the one the policy names."""
        return self._opened.result()[1].served

    @property
    def versions(self) -> dict[str, str]:
        """What it runs on."""
        return dict(self._opened.result()[1].versions)

    def close(self) -> None:
        """End it.  Only when it is gone is it known whether it had ended by itself before."""
        self._close.set()
        if self._thread is not None:
            self._thread.join()

    def refuse_ended(self) -> None:
        """Raise `GateUnavailable` if it has ended by itself, with the reason."""
        if self._ended is not None:
            raise self._ended

    def _run(self, box: Box) -> None:
        profile = box.profile
        try:
            opening = box.opening(self._fd)
            start = Start(
                profile, box.payload, dict(box.given), keep_fds=(self._fd,), ports=box.ports
            )
            started, evidence = start_gate(self._machine, start)
            line = Line(started, profile, note=self._heard)
        except BaseException as exc:  # noqa: BLE001  # whoever waits for the start raises it
            self._opened.set_exception(exc)
            return
        why: str | None = "interrupted"
        try:
            self._greet(line)
            no_op_of(evidence)  # the model is not even named to a box that could start something
            ready = _ready(line, opening, self._close)
            _let_go(self._fd)
            self._opened.set_result((evidence, ready))
            why = self._listen(line)
        except ThreeGateError as exc:
            self._ended = exc
        except BaseException as exc:  # noqa: BLE001  # told to whoever asks, below
            self._ended = _gone(type(exc).__name__)
        ended = line.end(why)
        if self._ended is None and (ended.why in _BY_ITSELF or not self._close.is_set()):
            self._ended = _gone(ended.why)
        if not self._opened.done():
            # A gate that could not be confined says why on its way out.
            not_locked = not ended.ready
            error = not_started(profile.name, ended) if not_locked else self._ended
            self._opened.set_exception(error or _gone(ended.why))

    def _greet(self, line: Line) -> None:
        why = line.greet(time.monotonic() + START_SECONDS)
        if why is not None or not line.is_ready:
            raise _gone(why or "it ended")

    def _heard(self, note: bytes) -> None:
        self._told(parse_progress(Untrusted(note)))

    def _listen(self, line: Line) -> str | None:
        """Hear notes until this is closed or the box ends; return why it must be killed."""
        while not self._close.is_set():
            why = line.wait_for_end(time.monotonic() + SLICE_SECONDS)
            if why != "deadline":
                return why
        line.hang_up()
        return line.wait_for_end(time.monotonic() + CLOSE_SECONDS)


def _ready(line: Line, opening: Opening, close: Event) -> Ready:
    answer = io.BytesIO()
    line.expect(answer)
    line.send(frames(opening.to_bytes()))
    end = time.monotonic() + LOAD_SECONDS
    why: str | None = "deadline"
    while why == "deadline" and time.monotonic() < end and not close.is_set():
        why = line.wait_for_answer(time.monotonic() + SLICE_SECONDS)
    if why is not None or not line.is_answered:
        raise _gone(why or "it ended while it was loading")
    found = parse_greeting(Untrusted(answer.getvalue()))
    if isinstance(found, Refused):
        hint = (_REMOTE_HINTS if isinstance(opening, Remote) else _HINTS).get(found.code, "")
        raise GateUnavailable(f"no model: {found.message}", code=found.code, hint=hint)
    sha256 = opening.sha256 if isinstance(opening, Embedded) else None
    if found.served != Served(opening.name, sha256, opening.context_tokens):
        raise ProtocolBroken("the box serves another model than it was told to")
    return found


def _let_go(fd: int) -> None:
    """Leave the socket to the box alone: when that ends, whoever waits there is told at once."""
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.dup2(nothing, fd, inheritable=False)  # the number stays ours until it is closed
    finally:
        os.close(nothing)


def _gone(why: str) -> GateUnavailable:
    hint = "ask again; nothing was stored"
    return GateUnavailable(f"the model server ended: {why}", code=MODEL_GONE, hint=hint)
