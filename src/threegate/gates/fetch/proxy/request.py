r"""What a client sends before its tunnel is open, and the reasons for which the proxy refuses.

First one CONNECT in one spelling:

    CONNECT api.crossref.org:443 HTTP/1.1\r\n
    Host: api.crossref.org:443\r\n
    \r\n

Then a TLS ClientHello.  It must say in the clear which name it wants, and it must be the name
of the tunnel: otherwise an allowlisted address would be a way to any other name behind it.

SECURITY
    Reads bytes of FETCH, which may be owned and chooses them freely.  The request is compared
    with its one spelling, so that no reader of HTTP is needed here; policy decides about the
    name.  The proxy does not see what is encrypted: a server that answers for other names by
    their `Host` header alone is within reach of an owned FETCH.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from threegate.base.limits import KIB


class TunnelReason(StrEnum):
    """Why a client is refused, or its tunnel cut: one stable word each, for log and client."""

    # the request
    REQUEST_LONG = "request-too-long"
    REQUEST_BROKEN = "request-malformed"
    NOT_CONNECT = "not-connect"
    OTHER_PORT = "port-not-443"
    HOST_DIFFERS = "host-header-differs"
    EARLY_BYTES = "bytes-before-answer"
    # the policy
    NOT_ALLOWED = "not-allowed"
    TOO_MANY = "too-many-tunnels"
    SPENT = "tunnels-spent"
    # the name and its addresses
    NO_NETWORK = "no-network"
    RESOLVER_SILENT = "resolver-silent"
    RESOLVER_FAILED = "resolver-failed"
    ANSWER_BROKEN = "answer-malformed"
    ANSWER_OTHER = "answer-to-other-question"
    NO_SUCH_NAME = "no-such-name"
    NO_ADDRESS = "no-address"
    ALIAS_CHAIN = "too-many-aliases"
    ADDRESS = "address-refused"
    UNREACHABLE = "unreachable"
    # the tunnel
    CLIENT_GONE = "client-gone"
    CLIENT_SLOW = "client-slow"
    UP_BYTES = "up-bytes"
    DOWN_BYTES = "down-bytes"
    LIFETIME = "lifetime"
    BROKEN = "connection-broken"
    NOT_TLS = "not-tls"
    NOT_HELLO = "not-a-client-hello"
    HELLO_LONG = "client-hello-too-long"
    HELLO_BROKEN = "client-hello-malformed"
    NAME_MISSING = "sni-missing"
    NAME_ENCRYPTED = "sni-encrypted"
    NAME_IS_ADDRESS = "sni-is-an-address"
    NAME_DIFFERS = "sni-differs"


class TunnelRefused(Exception):
    """A client is refused; `detail` is our own text, without foreign bytes."""

    def __init__(self, reason: TunnelReason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason, self.detail = reason, detail


# The request.

MAX_REQUEST_BYTES: Final = 2 * KIB  # a name has at most 253 characters, and occurs twice

END: Final = b"\r\n\r\n"
_LINE: Final = re.compile(rb"CONNECT ([a-z0-9.-]{1,253}):(\d{1,5}) HTTP/1\.1\Z")


def parse_request(untrusted: bytes) -> str | None:
    """Return the name asked for, or None while the request is not whole; raise `TunnelRefused`."""
    head, end, behind = untrusted.partition(END)
    if len(head) + len(END) > MAX_REQUEST_BYTES:
        raise TunnelRefused(TunnelReason.REQUEST_LONG, f"limit {MAX_REQUEST_BYTES} bytes")
    if not end:
        _refuse_early(untrusted)
        return None
    if behind:  # sent before the tunnel was open
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
    """Refuse at once what can no longer become a request."""
    method = b"CONNECT "
    if not method.startswith(untrusted[: len(method)]):
        raise TunnelRefused(TunnelReason.NOT_CONNECT)


def _what_is_wrong(line: bytes) -> TunnelReason:
    return TunnelReason.REQUEST_BROKEN if line.startswith(b"CONNECT ") else TunnelReason.NOT_CONNECT


# The ClientHello, and the shape of the TLS records behind it.

MAX_HELLO_BYTES: Final = 16 * KIB  # with post-quantum keys and a session ticket about 2 KiB
MAX_RECORD_BYTES: Final = 2**14 + 2048  # RFC 5246; RFC 8446 allows less
MAX_EXTENSIONS: Final = 64

_HANDSHAKE: Final = 22
_RECORD_TYPES: Final = frozenset({20, 21, _HANDSHAKE, 23})
_CLIENT_HELLO: Final = 1
_RECORD_HEAD, _MESSAGE_HEAD = 5, 4
_SERVER_NAME: Final = 0
_ENCRYPTED: Final = frozenset({0xFE0D, 0xFFCE})  # ECH (RFC 9849), and ESNI of its drafts
_NAME: Final = re.compile(rb"[a-z0-9.-]{1,253}\Z")
# Some programs take a name whose last label is a number, or one with a colon, for an address.
_ADDRESS: Final = re.compile(rb"(?:.*\.)?(?:0[xX][0-9a-fA-F]*|[0-9]+)\Z|.*:|\[")


def check_hello(untrusted: bytes, name: str) -> bool:
    """Return True if `untrusted` holds a whole ClientHello for `name`, False if bytes are missing.

    Raises `TunnelRefused` for another name, and as soon as the bytes cannot become a ClientHello.
    """
    message = _message(untrusted)
    if message is None:
        if len(untrusted) >= MAX_HELLO_BYTES:
            raise TunnelRefused(TunnelReason.HELLO_LONG, f"limit {MAX_HELLO_BYTES} bytes")
        return False
    _check_name(_server_name(message), name)
    return True


def _message(untrusted: bytes) -> bytes | None:
    """Return the ClientHello put together from its records, or None while a part is missing."""
    held, at = bytearray(), 0
    while len(untrusted) > at:
        head = untrusted[at : at + _RECORD_HEAD]
        # Version 3.x; the first record may say 3.1 for old servers.
        if head[0] != _HANDSHAKE or head[1:2] not in (b"", b"\x03"):
            raise TunnelRefused(TunnelReason.NOT_TLS)
        if len(head) < _RECORD_HEAD:
            return None
        length = int.from_bytes(head[3:5], "big")
        if not 0 < length <= MAX_RECORD_BYTES:  # empty records could go on forever
            raise TunnelRefused(TunnelReason.NOT_TLS)
        at += _RECORD_HEAD
        held += untrusted[at : at + length]
        at += length
        whole = _whole(held)
        if whole is not None:
            _refuse_rest(held, whole, len(untrusted) > at)
            return bytes(held[_MESSAGE_HEAD:whole])
    return None


def _whole(held: bytearray) -> int | None:
    """Return where the handshake message ends, if it is all there."""
    if held and held[0] != _CLIENT_HELLO:
        raise TunnelRefused(TunnelReason.NOT_HELLO)
    if len(held) < _MESSAGE_HEAD:
        return None
    end = _MESSAGE_HEAD + int.from_bytes(held[1:_MESSAGE_HEAD], "big")
    if end > MAX_HELLO_BYTES:
        raise TunnelRefused(TunnelReason.HELLO_LONG, f"limit {MAX_HELLO_BYTES} bytes")
    return end if len(held) >= end else None


def _refuse_rest(held: bytearray, end: int, more: bool) -> None:  # noqa: FBT001
    # A second message in the record, which the server might take for the real one.
    if len(held) > end:
        raise TunnelRefused(TunnelReason.HELLO_BROKEN, "more in the record")
    if more:  # early data would leave before the server has shown its certificate
        raise TunnelRefused(TunnelReason.HELLO_BROKEN, "more behind the record")


class _Reader:
    """Reads vectors from a message; an incomplete one is refused."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def rest(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.rest:
            raise TunnelRefused(TunnelReason.HELLO_BROKEN)
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> "_Reader":
        return _Reader(self.take(self.number(size)))


def _server_name(message: bytes) -> bytes | None:
    """Return the one name in a ClientHello, or None; an encrypted name is refused."""
    reader = _Reader(message)
    reader.take(2 + 32)  # version, random
    for size in (1, 2, 1):  # session id, cipher suites, compression methods
        reader.vector(size)
    found: bytes | None = None
    for kind, body in _extensions(reader):
        if kind in _ENCRYPTED:
            raise TunnelRefused(TunnelReason.NAME_ENCRYPTED)
        if kind == _SERVER_NAME:
            found = _host_name(body)
    return found


def _extensions(reader: _Reader) -> Iterator[tuple[int, _Reader]]:
    if not reader.rest:  # before TLS 1.2 there may be none
        return
    block = reader.vector(2)
    if reader.rest:
        raise TunnelRefused(TunnelReason.HELLO_BROKEN)
    seen: set[int] = set()
    while block.rest:
        kind = block.number(2)
        # Two of a kind: one server would read the first, another the last.
        if kind in seen or len(seen) == MAX_EXTENSIONS:
            raise TunnelRefused(TunnelReason.HELLO_BROKEN, "an extension twice, or too many")
        seen.add(kind)
        yield kind, block.vector(2)


def _host_name(body: _Reader) -> bytes:
    names = body.vector(2)
    kind, name = names.number(1), names.vector(2)
    if kind or names.rest or body.rest:  # exactly one name, of the one kind there is
        raise TunnelRefused(TunnelReason.HELLO_BROKEN, "not one host name")
    return name.take(name.rest)


def _check_name(found: bytes | None, name: str) -> None:
    if found is None:
        raise TunnelRefused(TunnelReason.NAME_MISSING)
    if _ADDRESS.match(found):
        raise TunnelRefused(TunnelReason.NAME_IS_ADDRESS)
    # In exactly the spelling of the request: no capitals, no dot at the end.
    if _NAME.match(found) is None or found != name.encode("ascii"):
        raise TunnelRefused(TunnelReason.NAME_DIFFERS)


class Records:
    """Follows what the client sends behind its first ClientHello: TLS records, to the end.

    A second ClientHello, which a server may ask for, must be for the same name.  It is recognised
    where it begins a record; an owned FETCH may split it so that it is not.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._head = bytearray()
        self._left = 0
        self._hello: bytearray | None = bytearray()  # the record, while it may be a ClientHello

    def feed(self, untrusted: bytes) -> None:
        """Check the next bytes; raise `TunnelRefused` if TLS would not send them."""
        at = 0
        while at < len(untrusted):
            if not self._left:
                taken = untrusted[at : at + _RECORD_HEAD - len(self._head)]
                self._head += taken
                at += len(taken)
                self._begin()
                continue
            piece = untrusted[at : at + self._left]
            self._left -= len(piece)
            at += len(piece)
            self._look(piece)

    def _begin(self) -> None:
        head = self._head
        if head[0] not in _RECORD_TYPES or bytes(head[1:2]) not in (b"", b"\x03"):
            raise TunnelRefused(TunnelReason.NOT_TLS)
        if len(head) < _RECORD_HEAD:
            return
        self._left = int.from_bytes(head[3:5], "big")
        if not 0 < self._left <= MAX_RECORD_BYTES:
            raise TunnelRefused(TunnelReason.NOT_TLS)
        encrypted = head[0] == 23  # from here on everything is encrypted
        keeps = self._hello is not None and not encrypted
        self._hello = bytearray(head) if keeps else None
        self._head = bytearray()

    def _look(self, piece: bytes) -> None:
        if self._hello is None or self._hello[0] != _HANDSHAKE:
            return
        self._hello += piece
        record = bytes(self._hello)
        if self._left or record[_RECORD_HEAD] != _CLIENT_HELLO:
            return
        # Encrypted records of TLS 1.2 can look like anything; a ClientHello states its length.
        length = int.from_bytes(record[_RECORD_HEAD + 1 : _RECORD_HEAD + _MESSAGE_HEAD], "big")
        if length == len(record) - _RECORD_HEAD - _MESSAGE_HEAD:
            check_hello(record, self._name)
