"""The payload of a bridge-remote box: from CORE's socket to one other machine.

Apart from `gate`, because a bridge to loopback does not see the client side of HTTPS.

SECURITY
    Stands between CORE and a machine of a stranger's, and believes neither.  Its one way is
    the proxy's socket.
"""

from typing import Final

from threegate.base.limits import MAX_RETRIEVE_OPENING_BYTES
from threegate.gates.model.bridge.away import RemoteServer
from threegate.gates.model.bridge.gate import bridge_to
from threegate.gates.model.front.startup import Opened, run
from threegate.gates.model.messages import Remote, parse_remote

OPENING_SECONDS: Final = 60.0


def serve() -> None:
    """Carry requests until the host hangs up; the payload of a bridge-remote box."""
    run(parse_remote, _opened, MAX_RETRIEVE_OPENING_BYTES)


def _opened(opening: Remote) -> Opened:
    return bridge_to(RemoteServer(opening), opening, OPENING_SECONDS)
