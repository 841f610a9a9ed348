"""The payload of a bridge box: from CORE's socket to one port on loopback, or one socket.

SECURITY
    Stands between CORE and a server of the operator's, and believes neither.  It dials
    127.0.0.1 and the one port the kernel lets it reach, or the one socket it sees.
"""

import time
from threading import Event
from typing import Any, Final, Protocol

import threegate
from threegate.gates.model.bridge.foreign import question, refuse_missing, reply
from threegate.gates.model.bridge.upstream import LocalServer, Stopped
from threegate.gates.model.chat.messages import COMPLETIONS, MODELS, ChatReply, ChatRequest, Served
from threegate.gates.model.front.server import Tell
from threegate.gates.model.front.startup import Opened, run
from threegate.gates.model.messages import Bridged, Remote, parse_bridged

OPENING_SECONDS: Final = 10.0


def serve() -> None:
    """Carry requests until the host hangs up; the payload of a bridge box."""
    run(parse_bridged, _opened)


def _opened(opening: Bridged) -> Opened:
    return bridge_to(LocalServer(opening.port), opening, OPENING_SECONDS)


def bridge_to(server: "ForeignServer", opening: Bridged | Remote, seconds: float) -> Opened:
    """Return the bridge to a server, once that has said that it offers the model."""
    served = Served(opening.name, None, opening.context_tokens)
    bridge = Bridge(served, server, deadline_seconds=opening.deadline_seconds)
    bridge.refuse_missing(seconds)
    return bridge, {"threegate": threegate.__version__}


class ForeignServer(Protocol):
    """Whoever is asked."""

    def ask(self, path: str, body: bytes | None, *, end: float, stopped: Stopped) -> Any:
        """Return the JSON value it answers with status 200; raise `Refused`."""


class Bridge:
    """A model of somebody else's server."""

    def __init__(self, served: Served, upstream: ForeignServer, *, deadline_seconds: float) -> None:
        self.served, self._upstream = served, upstream
        self._seconds = deadline_seconds

    def refuse_missing(self, seconds: float) -> None:
        """Raise `Refused` unless the server is there and offers the model."""
        end = time.monotonic() + seconds
        offered = self._upstream.ask(MODELS, None, end=end, stopped=lambda: False)
        refuse_missing(offered, self.served)

    def complete(self, request: ChatRequest, stop: Event, tell: Tell) -> ChatReply:  # noqa: ARG002
        """Return what the server replies; raise `Refused`."""
        end = time.monotonic() + self._seconds
        asked = question(request, self.served)
        return reply(
            self._upstream.ask(COMPLETIONS, asked, end=end, stopped=stop.is_set), self.served
        )
