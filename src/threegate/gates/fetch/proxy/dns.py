"""Queries to a name server, and what may be believed of its answers (RFC 1035).

One query asks for one kind of address of a whole name: no search domains, no local files.  Of
an answer only the records count that the query leads to, by at most `MAX_CNAMES` aliases.

SECURITY
    Reads bytes of a name server, or of an attacker who answers in its place.  They may lie
    about addresses; `addresses` judges those.  Every length is checked, and a compressed name
    may only point backwards.
"""

import struct
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from threegate.gates.fetch.proxy.request import TunnelReason, TunnelRefused

MAX_DNS_BYTES: Final = 65_535
MAX_DNS_RECORDS: Final = 64
MAX_DNS_NAME_BYTES: Final = 255
MAX_CNAMES: Final = 8
MAX_ADDRESSES: Final = 32

A, CNAME, AAAA = 1, 5, 28
_SIZES: Final = {A: 4, AAAA: 16}
_INTERNET: Final = 1
_HEAD: Final = struct.Struct(">HHHHHH")
_FIXED: Final = struct.Struct(">HHIH")  # type, class, time to live, length
_RECURSION_DESIRED: Final = 0x0100
_RESPONSE, _OPCODE, _TRUNCATED, _RCODE = 0x8000, 0x7800, 0x0200, 0x000F
_NO_SUCH_NAME: Final = 3
_POINTER: Final = 0xC0

Name = tuple[bytes, ...]  # labels, in lower case


@dataclass(frozen=True, slots=True)
class DnsQuery:
    """A query, and the number that its answer must have."""

    ident: int
    name: str
    kind: int

    def to_bytes(self) -> bytes:
        """Return the message."""
        head = _HEAD.pack(self.ident, _RECURSION_DESIRED, 1, 0, 0, 0)
        return head + self.tail

    @property
    def labels(self) -> Name:
        """Return the labels of the name."""
        return tuple(self.name.encode("ascii").split(b"."))

    @property
    def tail(self) -> bytes:
        """Return the question section, which query and answer share."""
        name = b"".join(bytes([len(label)]) + label for label in self.labels)
        return name + b"\0" + struct.pack(">HH", self.kind, _INTERNET)


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """The addresses that a query leads to; if `truncated`, ask again over TCP."""

    addresses: tuple[bytes, ...]
    truncated: bool = False


def parse_answer(untrusted: bytes, question: DnsQuery) -> DnsAnswer:
    """Return the answer to `question` in `untrusted`; raise `TunnelRefused`.

    An answer may have no address of this kind.
    """
    if not _HEAD.size <= len(untrusted) <= MAX_DNS_BYTES:
        raise TunnelRefused(TunnelReason.ANSWER_BROKEN)
    ident, flags, questions, answers, _, _ = _HEAD.unpack_from(untrusted)
    start = _HEAD.size + len(question.tail)
    asked = untrusted[_HEAD.size : start].lower()
    if ident != question.ident or questions != 1 or asked != question.tail.lower():
        raise TunnelRefused(TunnelReason.ANSWER_OTHER)
    if not flags & _RESPONSE or flags & _OPCODE:
        raise TunnelRefused(TunnelReason.ANSWER_OTHER)
    if flags & _TRUNCATED:
        return DnsAnswer((), truncated=True)
    if flags & _RCODE == _NO_SUCH_NAME:
        raise TunnelRefused(TunnelReason.NO_SUCH_NAME)
    if flags & _RCODE:
        raise TunnelRefused(TunnelReason.RESOLVER_FAILED, f"code {flags & _RCODE}")
    if answers > MAX_DNS_RECORDS:
        raise TunnelRefused(TunnelReason.ANSWER_BROKEN, f"more than {MAX_DNS_RECORDS} records")
    return DnsAnswer(_follow(_records(untrusted, start, answers, question.kind), question))


@dataclass(frozen=True, slots=True)
class _Records:
    aliases: dict[Name, Name]
    addresses: dict[Name, list[bytes]]


def _records(data: bytes, at: int, count: int, kind: int) -> _Records:
    found = _Records({}, {})
    for _ in range(count):
        owner, at = _name(data, at)
        if at + _FIXED.size > len(data):
            raise TunnelRefused(TunnelReason.ANSWER_BROKEN)
        type_, class_, _, length = _FIXED.unpack_from(data, at)
        at += _FIXED.size
        if at + length > len(data):
            raise TunnelRefused(TunnelReason.ANSWER_BROKEN)
        if class_ == _INTERNET and type_ == kind:
            if length != _SIZES[kind]:
                raise TunnelRefused(TunnelReason.ANSWER_BROKEN, "an address of another length")
            found.addresses.setdefault(owner, []).append(data[at : at + length])
        elif class_ == _INTERNET and type_ == CNAME:
            _add_alias(found, owner, _alias(data, at, length))
        at += length
    return found


def _alias(data: bytes, at: int, length: int) -> Name:
    target, end = _name(data, at)
    if end != at + length:
        raise TunnelRefused(TunnelReason.ANSWER_BROKEN)
    return target


def _add_alias(found: _Records, owner: Name, target: Name) -> None:
    if found.aliases.setdefault(owner, target) != target:  # nobody may choose between them for us
        raise TunnelRefused(TunnelReason.ANSWER_BROKEN, "two aliases of one name")


def _follow(records: _Records, question: DnsQuery) -> tuple[bytes, ...]:
    name = question.labels
    for _ in range(MAX_CNAMES + 1):
        target = records.aliases.get(name)
        if target is None:
            break
        name = target
    else:
        raise TunnelRefused(TunnelReason.ALIAS_CHAIN, f"limit {MAX_CNAMES}")
    addresses = tuple(dict.fromkeys(records.addresses.get(name, ())))
    if len(addresses) > MAX_ADDRESSES:
        raise TunnelRefused(TunnelReason.ANSWER_BROKEN, f"more than {MAX_ADDRESSES} addresses")
    return addresses


def _name(data: bytes, at: int) -> tuple[Name, int]:
    """Return the name at `at`, and the position behind it."""
    labels: list[bytes] = []
    end: int | None = None
    limit, size = at, 1
    while True:
        length = _byte(data, at)
        if length & _POINTER == _POINTER:
            target = (length & ~_POINTER) << 8 | _byte(data, at + 1)
            end = at + 2 if end is None else end
            if not _HEAD.size <= target < limit:  # backwards only, so that it ends
                raise TunnelRefused(TunnelReason.ANSWER_BROKEN, "a name that points forward")
            at = limit = target
            continue
        if length & _POINTER:
            raise TunnelRefused(TunnelReason.ANSWER_BROKEN)
        at += 1
        if not length:
            return tuple(labels), at if end is None else end
        size += 1 + length
        if at + length > len(data) or size > MAX_DNS_NAME_BYTES:
            raise TunnelRefused(TunnelReason.ANSWER_BROKEN)
        labels.append(data[at : at + length].lower())
        at += length


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise TunnelRefused(TunnelReason.ANSWER_BROKEN)
    return data[at]


def resolvers(resolv_conf: bytes, most: int) -> tuple[str, ...]:
    """Return the first name servers of a resolv.conf; everything else in it is ignored."""
    words = [line.split() for line in resolv_conf.decode("utf-8", "replace").splitlines()]
    named = [line[1] for line in words if len(line) > 1 and line[0] == "nameserver"]
    return tuple(dict.fromkeys(filter(_is_address, named)))[:most]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
