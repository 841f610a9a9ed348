"""The payload of a bridge box: from CORE's socket to one port on loopback, or one socket.

SECURITY
    Stands between CORE and a server of the operator's, and believes neither.  It dials
    127.0.0.1 and the one port the kernel lets it reach, or the one socket it sees.
"""

import time
from threading import Event
from typing import Final

import threegate
from threegate.model.bridge.foreign import question, refuse_missing, reply
from threegate.model.bridge.upstream import Upstream
from threegate.model.front.running import Opened, run
from threegate.model.front.serving import Tell
from threegate.protocol.chat import COMPLETIONS, MODELS, ChatReply, ChatRequest, Served
from threegate.protocol.model import Bridged, parse_bridged

OPENING_SECONDS: Final = 10.0


def serve() -> None:
    """Carry requests until the host hangs up; the payload of a bridge box."""
    run(parse_bridged, _opened)


def _opened(opening: Bridged) -> Opened:
    bridge = Bridge(opening)
    bridge.refuse_missing()
    return bridge, {"threegate": threegate.__version__}


class Bridge:
    """A model of the operator's own server."""

    def __init__(self, opening: Bridged) -> None:
        self.served = Served(opening.name, None, opening.context_tokens)
        self._seconds = opening.deadline_seconds
        self._upstream = Upstream(opening.port)

    def refuse_missing(self) -> None:
        """Raise `Refused` unless the server is there and offers the model."""
        end = time.monotonic() + OPENING_SECONDS
        offered = self._upstream.ask(MODELS, None, end=end, stopped=lambda: False)
        refuse_missing(offered, self.served)

    def complete(self, request: ChatRequest, stop: Event, tell: Tell) -> ChatReply:  # noqa: ARG002
        """Return what the operator's server replies; raise `Refused`."""
        end = time.monotonic() + self._seconds
        asked = question(request, self.served)
        return reply(
            self._upstream.ask(COMPLETIONS, asked, end=end, stopped=stop.is_set), self.served
        )
