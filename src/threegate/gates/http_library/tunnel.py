"""Connections to HTTPS servers through a proxy's socket, the only socket that a sandbox has.

Our own proxy, and an operator's proxy of the kind `connect:`, open a tunnel to a name that
they have checked; TLS happens here.  A proxy of the kind `gateway:` (Squid) receives requests
in the clear and does TLS itself.

SECURITY
    Reads the proxy's response and certificates of web servers.  Nothing is sent through a
    tunnel before it is open.  Each trust anchor is tried separately, so that "verified by the
    system's store" is true when it is reported.  A certificate that no anchor verifies ends
    the question; there is no way around it.
"""

import re
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.base.forms import SYSTEM_ANCHOR
from threegate.gates.http_library.client import (
    ByteStream,
    ConnectionLost,
    Deadline,
    Exchange,
    Failure,
    NotRetrieved,
    ResponseHead,
)

PROXY_SOCKET: Final = "/run/proxy.sock"
SYSTEM_STORE: Final = "/etc/ssl/certs/ca-certificates.crt"
MAX_PROXY_HEAD_BYTES: Final = 8 * 1024
# The proxy notices a moment later than we do that the tunnel of an earlier hop is closed.
BUSY_TRIES: Final = 8
BUSY_SECONDS: Final = 0.02  # doubled each time: 5 seconds together

_UNKNOWN_ISSUER: Final = frozenset({2, 18, 19, 20, 21})  # X509_V_ERR_*: another anchor might do
_CERTIFICATE: Final = {
    9: "is not valid yet",
    10: "has expired",
    18: "is signed by itself",
    19: "comes from an authority that policy does not list",
    20: "comes from an authority that policy does not list",
    62: "is for another name",
}
_REASON: Final = re.compile(r"[a-z][a-z-]{0,39}\Z")
# Asking again does not change these.  Other reasons of a 502 may pass.
_NO_WAY: Final = {"no-such-name": Failure.NO_NAME, "no-network": Failure.NO_NETWORK}
_SQUID: Final = re.compile(r"(ERR_[A-Z_]{1,60})(?: -?[0-9]+)?\Z")
_SQUID_FAILURE: Final = {
    "ERR_ACCESS_DENIED": Failure.PROXY_DENIED,
    "ERR_CANNOT_FORWARD": Failure.UNREACHABLE,
    "ERR_CONNECT_FAIL": Failure.UNREACHABLE,
    "ERR_DNS_FAIL": Failure.UNREACHABLE,
    "ERR_READ_TIMEOUT": Failure.DEADLINE,
    "ERR_SECURE_CONNECT_FAIL": Failure.CERTIFICATE,
    "ERR_TOO_BIG": Failure.TOO_LARGE,
}


@dataclass(frozen=True, slots=True)
class Anchor:
    """Certificates that may verify a server; `name` is `system` or a digest."""

    name: str
    context: ssl.SSLContext


class Unverified(Exception):
    """A certificate that an anchor does not verify."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    @property
    def may_be_known_elsewhere(self) -> bool:
        """True if another anchor could come to another result."""
        return self.code in _UNKNOWN_ISSUER

    def refusal(self) -> NotRetrieved:
        """Return the refusal for the case that no other anchor is left."""
        words = _CERTIFICATE.get(self.code, "cannot be verified")
        return NotRetrieved(Failure.CERTIFICATE, f"the server's certificate {words}")


def make_anchors(files: dict[str, bytes | None]) -> tuple[Anchor, ...]:
    """Return the anchors, or raise `GateUnavailable` for a file without certificates."""
    return tuple(Anchor(name, _context(name, data)) for name, data in files.items())


def _context(name: str, data: bytes | None) -> ssl.SSLContext:
    # PROTOCOL_TLS_CLIENT: the name is checked and a certificate required; no environment is read.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # Some builds of Python take a cut connection for an end, so a cut body for a whole one.
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    try:
        if data is None:
            context.load_verify_locations(cafile=SYSTEM_STORE)
        else:
            context.load_verify_locations(cadata=data.decode("ascii"))
    except (OSError, ValueError) as exc:
        message = f"the CA file {name[:12]} holds no certificates"
        raise GateUnavailable(message, code="TG-FET-028") from exc
    return context


def greet(sock: socket.socket, host: str, anchor: Anchor, deadline: Deadline) -> ssl.SSLSocket:
    """Return the encrypted connection; raise `Unverified`, `NotRetrieved` or `ConnectionLost`."""
    sock.settimeout(deadline.left())
    try:
        # A connection that ends without a closing message is cut: bodies may depend on it.
        return anchor.context.wrap_socket(sock, server_hostname=host, suppress_ragged_eofs=False)
    except ssl.SSLCertVerificationError as exc:
        raise Unverified(exc.verify_code) from exc
    except TimeoutError as exc:
        raise deadline.over() from exc
    except ssl.SSLError as exc:
        raise NotRetrieved(Failure.CERTIFICATE, "the server does not speak TLS with us") from exc
    except OSError as exc:
        deadline.left()
        raise ConnectionLost from exc


@dataclass(frozen=True, slots=True)
class Connection:
    """An open connection, the anchor that verified its far end, and when it was opened."""

    host: str
    stream: ByteStream
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
        except ConnectionLost as exc:
            stream.close()
            message = "the connection broke off in its greeting"
            raise NotRetrieved(Failure.UNREACHABLE, message) from exc
        except BaseException:
            stream.close()
            raise
        return Connection(host, ByteStream(tls), anchor.name, since)

    def _tunnel(self, host: str, deadline: Deadline) -> ByteStream:
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

    def check(self, head: ResponseHead) -> None:
        """Accept any response: the one that comes out of a tunnel is the server's."""


def _connect(stream: ByteStream, host: str, deadline: Deadline) -> ResponseHead:
    place = f"{host}:443"
    exchange = Exchange("CONNECT", place, [("Host", place)], max_head_bytes=MAX_PROXY_HEAD_BYTES)
    try:
        stream.send(exchange.request, deadline)
        head = exchange.head(stream, deadline)
    except ConnectionLost as exc:
        raise NotRetrieved(Failure.PROXY, "the proxy hung up") from exc
    if head.status == 200 and exchange.behind:  # it would be taken for the server's
        raise NotRetrieved(Failure.PROXY, "the proxy speaks before it was asked")
    return head


def _refusal(head: ResponseHead) -> NotRetrieved:
    reason = head.header("x-threegate-reason") or ""
    told = f": {reason}" if _REASON.match(reason) else f" with status {head.status}"
    if head.status in (502, 503, 504):
        failure = _NO_WAY.get(reason, Failure.UNREACHABLE)
        return NotRetrieved(failure, f"the proxy found no way{told}")
    return NotRetrieved(Failure.PROXY_DENIED, f"the proxy refused{told}")


def dial(path: str, deadline: Deadline) -> ByteStream:
    """Return a connection to the proxy's socket; raise `NotRetrieved`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(deadline.left())
        sock.connect(path)
    except OSError as exc:
        sock.close()
        raise NotRetrieved(Failure.PROXY, "nobody answers at the proxy's socket") from exc
    return ByteStream(sock)


class GatewayProxy:
    """Sends requests in the clear to a proxy that resolves, connects and checks certificates.

    It does not say which anchor verified the server.  If policy lists any but the system's,
    that one is reported: a test source is never shown as a real one.
    """

    absolute = True

    def __init__(self, anchors: tuple[Anchor, ...], path: str = PROXY_SOCKET) -> None:
        others = [anchor.name for anchor in anchors if anchor.name != SYSTEM_ANCHOR]
        self._anchor = others[0] if others else SYSTEM_ANCHOR
        self._path = path

    def open(self, host: str, deadline: Deadline) -> Connection:
        """Return a connection to the proxy; raise `NotRetrieved`."""
        return Connection(host, dial(self._path, deadline), self._anchor, time.monotonic())

    def check(self, head: ResponseHead) -> None:
        """Raise `NotRetrieved` if the response is a refusal of the proxy itself."""
        found = _SQUID.match(head.header("x-squid-error") or "")
        reason = head.header("x-threegate-reason")
        if found is not None:
            failure = _SQUID_FAILURE.get(found[1], Failure.UNREACHABLE)
            word = found[1].lower().replace("_", "-")
            raise NotRetrieved(failure, f"the gateway refused: {word}")
        if reason is not None:
            raise _refusal(head)
