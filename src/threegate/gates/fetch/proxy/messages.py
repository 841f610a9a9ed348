r"""What the host tells the proxy, and what the proxy says about it.

| message | sent by | answered by |
|---|---|---|
| `Rules` | host, first and at every change of policy | `InForce`, or the proxy ends |

    {"hosts":[],"listen_fd":5,"own":["192.0.2.7"],"pin":false,"protocol":"proxy/1",
     "purpose":"packets"}\n<bundle>

A proxy keeps the purpose it was given first (`policy.purposes`).  One for a run is told the
hosts that the run's request lists: it knows no other, whatever the bundle allows.  With `pin` it
asks for their names once, says which addresses it would dial, and dials no other afterwards; by
the time it gets its rules again the kernel must hold it to these, which it tries before it answers.

Decisions come as notes, one line of canonical JSON each, whenever one is made.

SECURITY
    The proxy believes no host further than this: a bundle is parsed again, and there is no
    message that widens anything beyond it.  The host reads the answer as foreign bytes.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import ProtocolBroken
from threegate.base.limits import MAX_BUNDLE_BYTES, MAX_HEADER_BYTES
from threegate.base.untrusted import Untrusted
from threegate.policy.purposes import PACKETS, PURPOSE, RUNS

PROTOCOL: Final = "proxy/1"
MAX_RULES_BYTES: Final = MAX_HEADER_BYTES + MAX_BUNDLE_BYTES
MAX_OWN_ADDRESSES: Final = 1_024
MAX_FD: Final = 1_023
MAX_GENERATION: Final = 2**53 - 1
MAX_HOSTS: Final = 32
MAX_PINNED: Final = 1_024
Address = IPv4Address | IPv6Address
_HOST: Final = re.compile(r"[a-z0-9.-]{1,253}\Z")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class Rules:
    """The policy in force from now on, where to listen, and which addresses are ours."""

    bundle: bytes
    listen_fd: int
    own: tuple[Address, ...]
    purpose: str = PACKETS
    hosts: tuple[str, ...] = ()  # of a run; any other purpose has its hosts in the bundle
    pin: bool = False

    def __post_init__(self) -> None:
        _need(len(self.bundle) <= MAX_BUNDLE_BYTES, "the bundle is too large")
        _need(type(self.listen_fd) is int and 3 < self.listen_fd <= MAX_FD, "no descriptor")
        _need(len(self.own) <= MAX_OWN_ADDRESSES, "too many addresses")
        _need(
            type(self.purpose) is str and bool(PURPOSE.fullmatch(self.purpose)),
            "not a purpose",
        )
        _need(bool(self.hosts) == (self.purpose == RUNS), "hosts go with a run")
        _need(len(self.hosts) <= MAX_HOSTS, "too many hosts")
        _need(self.purpose == RUNS or not self.pin, "no pin")
        for host in self.hosts:
            _need(type(host) is str and bool(_HOST.match(host)), "not a host")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        own = [str(address) for address in self.own]
        head = {
            "hosts": list(self.hosts),
            "listen_fd": self.listen_fd,
            "own": own,
            "pin": self.pin,
            "protocol": PROTOCOL,
            "purpose": self.purpose,
        }
        return canonical.encode(head) + b"\n" + self.bundle


def parse_rules(data: Untrusted[bytes]) -> Rules:
    """Return the message in `data`, or raise `ProtocolBroken`."""
    untrusted = data.open_for_validation()
    _need(len(untrusted) <= MAX_RULES_BYTES, "too long")
    end = untrusted.find(b"\n", 0, MAX_HEADER_BYTES)
    _need(end >= 0, "no header")
    head = _head(untrusted[:end], ("hosts", "listen_fd", "own", "pin", "protocol", "purpose"))
    _need(type(head["own"]) is list and len(head["own"]) <= MAX_OWN_ADDRESSES, "no addresses")
    own = tuple(_address(text) for text in head["own"])
    _need(type(head["hosts"]) is list, "no hosts")
    _need(type(head["pin"]) is bool, "no pin")
    hosts = tuple(head["hosts"])
    bundle = untrusted[end + 1 :]
    return Rules(bundle, head["listen_fd"], own, head["purpose"], hosts, head["pin"])


@dataclass(frozen=True, slots=True)
class InForce:
    """Which policy the proxy decides by, for new tunnels and for open ones."""

    generation: int
    policy: str  # the digest of the bundle
    pinned: tuple[Address, ...] = ()  # what it would dial from now on, if it was to find out

    def __post_init__(self) -> None:
        number = type(self.generation) is int and 0 < self.generation <= MAX_GENERATION
        _need(number, "no generation")
        _need(type(self.policy) is str and bool(_DIGEST.match(self.policy)), "no digest")
        _need(len(self.pinned) <= MAX_PINNED, "too many addresses")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        value = {
            "generation": self.generation,
            "pinned": [str(address) for address in self.pinned],
            "policy": self.policy,
            "protocol": PROTOCOL,
        }
        return canonical.encode(value)


def parse_in_force(data: Untrusted[bytes]) -> InForce:
    """Return the message in `data`, or raise `ProtocolBroken`."""
    untrusted = data.open_for_validation()
    _need(len(untrusted) <= MAX_HEADER_BYTES, "too long")
    head = _head(untrusted, ("generation", "pinned", "policy", "protocol"))
    _need(type(head["pinned"]) is list and len(head["pinned"]) <= MAX_PINNED, "no addresses")
    pinned = tuple(_address(text) for text in head["pinned"])
    return InForce(head["generation"], head["policy"], pinned)


def _head(untrusted: bytes, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        head = canonical.decode(untrusted)
    except ValueError as exc:
        raise ProtocolBroken("the header is not canonical JSON") from exc
    if type(head) is not dict or tuple(head) != keys or head["protocol"] != PROTOCOL:
        raise ProtocolBroken("not a message of this protocol")
    return head


def _address(text: Any) -> Address:
    try:
        address = ip_address(text) if type(text) is str else None
    except ValueError as exc:
        raise ProtocolBroken("not an address") from exc
    if address is None or str(address) != text:
        raise ProtocolBroken("not an address")
    return address


def _need(condition: bool, message: str) -> None:  # noqa: FBT001
    if not condition:
        raise ProtocolBroken(message)
