"""TLS with the certificate checked against what policy lists, one anchor after the other.

SECURITY
    Reads certificates of web servers.  Each anchor is tried by itself, so that what is
    reported as verified by the system's store was, whatever else is listed.  A certificate
    that none of them vouches for ends the question; there is no way around it.
"""

import socket
import ssl
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.gates.https.refused import NotRetrieved, Stale, Why
from threegate.gates.https.stream import Deadline

SYSTEM_STORE: Final = "/etc/ssl/certs/ca-certificates.crt"
_UNKNOWN_ISSUER: Final = frozenset({2, 18, 19, 20, 21})  # X509_V_ERR_*: another anchor might do
_WORDS: Final = {
    9: "is not valid yet",
    10: "has expired",
    18: "is signed by itself",
    19: "comes from an authority that policy does not list",
    20: "comes from an authority that policy does not list",
    62: "is for another name",
}


@dataclass(frozen=True, slots=True)
class Anchor:
    """Certificates that may vouch for a server; `name` is `system` or a digest."""

    name: str
    context: ssl.SSLContext


class Unverified(Exception):
    """A certificate that an anchor does not vouch for."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    @property
    def may_be_known_elsewhere(self) -> bool:
        """Tell whether another anchor could come to another result."""
        return self.code in _UNKNOWN_ISSUER

    def refusal(self) -> NotRetrieved:
        """Return what is reported when no other anchor is left."""
        words = _WORDS.get(self.code, "cannot be verified")
        return NotRetrieved(Why.CERTIFICATE, f"the server's certificate {words}")


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
    """Return the encrypted connection; raise `Unverified` or `NotRetrieved`."""
    sock.settimeout(deadline.left())
    try:
        # A connection that ends without saying so is not an end: bodies may depend on it.
        return anchor.context.wrap_socket(sock, server_hostname=host, suppress_ragged_eofs=False)
    except ssl.SSLCertVerificationError as exc:
        raise Unverified(exc.verify_code) from exc
    except TimeoutError as exc:
        raise deadline.over() from exc
    except ssl.SSLError as exc:
        raise NotRetrieved(Why.CERTIFICATE, "the server does not speak TLS with us") from exc
    except OSError as exc:
        deadline.left()
        raise Stale from exc
