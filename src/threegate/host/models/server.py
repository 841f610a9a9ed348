"""A served model: its box, its socket, and how it ended.

    with ModelServer.start(bundle, machine, cache) as server:
        ...  # bind server.socket into CORE's box

When the box ends for any reason, `server.refuse_ended` says so.

SECURITY
    Reads what a process says that reads a model file and CORE's requests.  The model it serves
    is compared with the policy; anything that breaks the protocol ends the box.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self

from threegate.base.errors import GateUnavailable, ProtocolBroken
from threegate.base.greeting import GateRefused
from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import Served
from threegate.gates.model.messages import (
    GREETING,
    Embedded,
    ModelProgress,
    ModelReady,
    Remote,
    parse_progress,
)
from threegate.host.models.choice import ChosenModel, Opening, box_of, chosen
from threegate.host.models.codeless import Noted, no_op_of
from threegate.host.models.remote import Leaving, remote_box
from threegate.host.open_box import ended, open_box
from threegate.host.proxy.supervisor import listening
from threegate.policy.bundle import Bundle
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine
from threegate.sandbox.service import ServiceGate

LOAD_SECONDS: Final = 600.0  # a large file from a slow disk
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

Told = Callable[[ModelProgress], None]


class ModelServer:
    """A running model; `refuse_ended` may be called from any thread."""

    def __init__(
        self, model: ChosenModel, socket: Path, gate: ServiceGate, ready: ModelReady
    ) -> None:
        self.model, self.socket, self._gate = model, socket, gate
        self.served: Served = ready.served  # the model that the policy names
        self.versions: dict[str, str] = dict(ready.versions)  # what it runs on

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
            place = stack.enter_context(listening(runtime, purpose="model"))
            kind = partial(
                ServiceGate,
                note=lambda note: told(parse_progress(Untrusted(note))),
                failed=partial(ended, box.profile),
            )
            keep = (place.fd,)
            gate = open_box(
                kind, machine, bundle, box.profile, box.given, keep_fds=keep, ports=box.ports
            )
            stack.callback(gate.close)
            # The model is not even named to a box that could start a program.
            no_op = no_op_of(gate.evidence)
            opening = box.opening(place.fd)
            parse = partial(_ready, opening)
            ready = gate.ask(opening.to_bytes(), parse, seconds=LOAD_SECONDS)
            _let_go(place.fd)
            noted(no_op)
            yield cls(model, place.path, gate, ready)

    @property
    def evidence(self) -> Evidence:
        """What confines it."""
        return self._gate.evidence

    def close(self) -> None:
        """End it.  Whether it had ended by itself is known only after this."""
        self._gate.close()

    def refuse_ended(self) -> None:
        """Raise `GateUnavailable` if it has ended by itself, with the reason."""
        if self._gate.error is not None:
            raise self._gate.error


def _ready(opening: Opening, answer: Untrusted[bytes]) -> ModelReady:
    found = GREETING.parse(answer)
    if isinstance(found, GateRefused):
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
