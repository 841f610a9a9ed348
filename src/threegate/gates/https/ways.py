r"""Ways to a server through the one socket there is: a tunnel, or a gateway.

Our own proxy, and one of an operator that works like it, open a tunnel to a name they have
judged; TLS happens here.  A gateway is asked in the clear and speaks TLS itself.

SECURITY
    Reads the proxy's answer.  Nothing is sent through a tunnel before it is open.
"""

import re
import socket
import time
from dataclasses import dataclass
from typing import Final

from threegate.base.forms import SYSTEM_ANCHOR
from threegate.gates.https.heads import Head
from threegate.gates.https.limits import BUSY_SECONDS, BUSY_TRIES, MAX_PROXY_HEAD_BYTES
from threegate.gates.https.refused import NotRetrieved, Stale, Why
from threegate.gates.https.stream import Deadline, Stream
from threegate.gates.https.tls import Anchor, Unverified, greet

PROXY_SOCKET: Final = "/run/proxy.sock"
_REASON: Final = re.compile(r"[a-z][a-z-]{0,39}\Z")
# What asking again in a moment does not change.  Other reasons of a 502 may pass.
_NO_WAY_WHY: Final = {"no-such-name": Why.NO_NAME, "no-network": Why.NO_NETWORK}
_SQUID: Final = re.compile(r"(ERR_[A-Z_]{1,60})(?: -?[0-9]+)?\Z")
_SQUID_WHY: Final = {
    "ERR_ACCESS_DENIED": Why.PROXY_DENIED,
    "ERR_CANNOT_FORWARD": Why.UNREACHABLE,
    "ERR_CONNECT_FAIL": Why.UNREACHABLE,
    "ERR_DNS_FAIL": Why.UNREACHABLE,
    "ERR_READ_TIMEOUT": Why.DEADLINE,
    "ERR_SECURE_CONNECT_FAIL": Why.CERTIFICATE,
    "ERR_TOO_BIG": Why.TOO_LARGE,
}


@dataclass(frozen=True, slots=True)
class Connection:
    """A way that is open, who vouched for its far end, and since when."""

    host: str
    stream: Stream
    anchor: str
    since: float


class Tunnels:
    """Opens tunnels through a CONNECT proxy, and speaks TLS in them."""

    absolute = False

    def __init__(self, anchors: tuple[Anchor, ...], path: str = PROXY_SOCKET) -> None:
        self._anchors, self._path = anchors, path

    def open(self, host: str, deadline: Deadline) -> Connection:
        """Return a connection to `host` whose certificate was checked; raise `NotRetrieved`."""
        refused: Unverified | None = None
        for anchor in self._anchors:
            try:
                return self._open(host, anchor, deadline)
            except Unverified as exc:
                refused = exc
                if not exc.may_be_known_elsewhere:
                    break
        assert refused is not None, "policy lists at least one anchor"
        raise refused.refusal()

    def _open(self, host: str, anchor: Anchor, deadline: Deadline) -> Connection:
        since = time.monotonic()
        stream = self._tunnel(host, deadline)
        try:
            tls = greet(stream.sock, host, anchor, deadline)
        except Stale as exc:
            stream.close()
            raise NotRetrieved(Why.UNREACHABLE, "the connection broke off in its greeting") from exc
        except BaseException:
            stream.close()
            raise
        return Connection(host, Stream(tls), anchor.name, since)

    def _tunnel(self, host: str, deadline: Deadline) -> Stream:
        pause = BUSY_SECONDS
        for left in reversed(range(BUSY_TRIES)):
            stream = dial(self._path, deadline)
            try:
                head = _connect(stream, host, deadline)
                if head.status == 200:
                    return stream
            except BaseException:
                stream.close()
                raise
            stream.close()
            if head.status != 503 or not left:
                break
            time.sleep(min(pause, deadline.left()))
            pause *= 2
        raise _refusal(head)

    def check(self, head: Head) -> None:
        """Accept any answer: what comes out of a tunnel is the server's."""


def _connect(stream: Stream, host: str, deadline: Deadline) -> Head:
    try:
        request = f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n"
        stream.send(request.encode("ascii"), deadline)
        head = stream.head(MAX_PROXY_HEAD_BYTES, deadline)
    except Stale as exc:
        raise NotRetrieved(Why.PROXY, "the proxy hung up") from exc
    if head.status == 200 and not stream.is_empty:
        raise NotRetrieved(Why.PROXY, "the proxy speaks before it was asked")
    return head


def _refusal(head: Head) -> NotRetrieved:
    reason = head.header("x-threegate-reason") or ""
    told = f": {reason}" if _REASON.match(reason) else f" with status {head.status}"
    if head.status in (502, 503, 504):
        why = _NO_WAY_WHY.get(reason, Why.UNREACHABLE)
        return NotRetrieved(why, f"the proxy found no way{told}")
    return NotRetrieved(Why.PROXY_DENIED, f"the proxy refused{told}")


def dial(path: str, deadline: Deadline) -> Stream:
    """Return a connection to the proxy's socket; raise `NotRetrieved`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(deadline.left())
        sock.connect(path)
    except OSError as exc:
        sock.close()
        raise NotRetrieved(Why.PROXY, "nobody answers at the proxy's socket") from exc
    return Stream(sock)


class Gateway:
    """Asks a gateway in the clear; it resolves, connects and checks certificates for us.

    Which anchor vouched is its secret.  If policy lists any but the system's, that one is
    reported: a test source is never shown as a real one.
    """

    absolute = True

    def __init__(self, anchors: tuple[Anchor, ...], path: str = PROXY_SOCKET) -> None:
        others = [anchor.name for anchor in anchors if anchor.name != SYSTEM_ANCHOR]
        self._anchor = others[0] if others else SYSTEM_ANCHOR
        self._path = path

    def open(self, host: str, deadline: Deadline) -> Connection:
        """Return a connection to the gateway; raise `NotRetrieved`."""
        return Connection(host, dial(self._path, deadline), self._anchor, time.monotonic())

    def check(self, head: Head) -> None:
        """Raise `NotRetrieved` if the answer is the gateway's own and says no."""
        found = _SQUID.match(head.header("x-squid-error") or "")
        reason = head.header("x-threegate-reason")
        if found is not None:
            why = _SQUID_WHY.get(found[1], Why.UNREACHABLE)
            raise NotRetrieved(why, f"the gateway refused: {found[1].lower().replace('_', '-')}")
        if reason is not None:
            raise _refusal(head)
