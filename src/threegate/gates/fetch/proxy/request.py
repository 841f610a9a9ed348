r"""What a client may say before its tunnel: one CONNECT, spelled in one way.

    CONNECT api.crossref.org:443 HTTP/1.1\r\n
    Host: api.crossref.org:443\r\n
    \r\n

SECURITY
    Reads bytes of FETCH, which may be owned.  Nothing of them is passed on.  Whether the
    name may be asked for is the policy's question; here it only gets a shape.
"""

import re
from typing import Final

from threegate.base.limits import KIB
from threegate.gates.fetch.proxy.refused import TunnelReason, TunnelRefused

MAX_REQUEST_BYTES: Final = 2 * KIB  # a name has 253 characters, and stands there twice

END: Final = b"\r\n\r\n"
_LINE: Final = re.compile(rb"CONNECT ([a-z0-9.-]{1,253}):(\d{1,5}) HTTP/1\.1\Z")


def parse_request(untrusted: bytes) -> str | None:
    """Return the name asked for, or None while the request is not whole; raise `Refused`."""
    head, end, behind = untrusted.partition(END)
    if len(head) + len(END) > MAX_REQUEST_BYTES:
        raise TunnelRefused(TunnelReason.REQUEST_LONG, f"limit {MAX_REQUEST_BYTES} bytes")
    if not end:
        _refuse_early(untrusted)
        return None
    if behind:  # a client that does not wait would send its hello to whoever answers
        raise TunnelRefused(TunnelReason.EARLY_BYTES)
    line, *headers = head.split(b"\r\n")
    found = _LINE.match(line)
    if found is None:
        raise TunnelRefused(_what_is_wrong(line))
    name, port = found[1], found[2]
    if port != b"443":
        raise TunnelRefused(TunnelReason.OTHER_PORT)
    if headers != [b"Host: " + name + b":443"]:
        raise TunnelRefused(TunnelReason.HOST_DIFFERS)
    return name.decode("ascii")


def _refuse_early(untrusted: bytes) -> None:
    """Do not wait for the end of what can no longer become a request."""
    method = b"CONNECT "
    if not method.startswith(untrusted[: len(method)]):
        raise TunnelRefused(TunnelReason.NOT_CONNECT)


def _what_is_wrong(line: bytes) -> TunnelReason:
    return TunnelReason.REQUEST_BROKEN if line.startswith(b"CONNECT ") else TunnelReason.NOT_CONNECT
