"""Accounts and addresses of one machine, which the generated files need besides the policy.

They are kept in `place.json` beside the files, so that these can be generated and compared again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from types import MappingProxyType
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import UsageError
from threegate.base.text import quote
from threegate.sandbox.machine import FIRST_GATE_UID
from threegate.sandbox.profiles import PROFILES

FORMAT: Final = "infra/1"
FILE: Final = "place.json"
MAX_UID: Final = 2**32 - 3
# The owner of the workspace, who starts gates; Squid's account; the account of Squid's socket.
OWNER, SQUID, GATEWAY = "owner", "squid", "gateway"
# systemd and Debian assign no uid between 60578 and 60705.
_OTHERS: Final = {OWNER: 60590, SQUID: 60690, GATEWAY: 60691}
LOOPBACK_RESOLVER: Final = "127.0.0.53"  # systemd-resolved

Address = IPv4Address | IPv6Address


def default_uids() -> dict[str, int]:
    """Return the uid of every account; root starts gates with theirs."""
    gates = {name: FIRST_GATE_UID + number for number, name in enumerate(PROFILES)}
    return {**_OTHERS, **gates}


@dataclass(frozen=True, slots=True)
class Place:
    """One machine."""

    uids: Mapping[str, int] = field(default_factory=lambda: MappingProxyType(default_uids()))
    resolvers: tuple[Address, ...] = (IPv4Address(LOOPBACK_RESOLVER),)
    own: tuple[Address, ...] = ()  # addresses of the machine itself
    # Where Squid listens and writes; no option changes them, so the units may name them.
    port: int = 3128
    logs: str = "/var/log/threegate-squid"
    anchors: str = "/etc/threegate/anchors"

    def to_bytes(self) -> bytes:
        """Return the content of `place.json`."""
        usual = default_uids()
        chosen = {name: uid for name, uid in self.uids.items() if usual[name] != uid}
        value = {
            "format": FORMAT,
            "own": [str(address) for address in self.own],
            "resolvers": [str(address) for address in self.resolvers],
            # Only what was chosen: the uids of gates follow the program.
            "uids": dict(sorted(chosen.items())),
        }
        return canonical.encode(value) + b"\n"


def parse_place(data: bytes) -> Place:
    """Return the place in `place.json`, or raise `UsageError`."""
    try:
        value: Any = canonical.decode(data.removesuffix(b"\n"))
        if value["format"] != FORMAT:
            raise ValueError("another format")
        place = Place(
            uids_of([f"{name}={uid}" for name, uid in value["uids"].items()]),
            addresses_of(value["resolvers"]),
            addresses_of(value["own"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        hint = "`threegate infra write` writes it again"
        raise UsageError(f"{FILE} is not readable", hint=hint) from exc
    return place


def uids_of(words: Sequence[str]) -> Mapping[str, int]:
    """Return every account, those that `words` name (`proxy=999`) as given; or raise `UsageError`.

    `fetch` and `tool` mean all sandboxes of that gate.
    """
    uids = default_uids()
    for word in words:
        name, _, number = word.partition("=")
        named = [known for known in uids if known == name or known.startswith(f"{name}-")]
        if not named:
            hint = f"one of {', '.join(uids)}"
            raise UsageError(f"no account is called {quote(name)}", hint=hint)
        if not (number.isascii() and number.isdigit() and 0 < int(number[:12]) <= MAX_UID):
            hint = "a number; root (0) is nobody's account here"
            raise UsageError(f"{quote(number)} is not a uid for {name}", hint=hint)
        uids |= dict.fromkeys(named, int(number))
    _refuse_shared(uids)
    return MappingProxyType(uids)


def _refuse_shared(uids: Mapping[str, int]) -> None:
    """Refuse to share a uid that may use the network."""
    for name in ("proxy", "run-proxy", SQUID, GATEWAY, "bridge"):
        same = [other for other, uid in uids.items() if uid == uids[name] and other != name]
        if same:
            hint = "an account that may use the network needs its own uid"
            raise UsageError(f"{name} and {same[0]} have the same uid {uids[name]}", hint=hint)


def addresses_of(words: Sequence[str]) -> tuple[Address, ...]:
    """Return addresses as given, or raise `UsageError`."""
    found = []
    for word in words:
        try:
            found.append(ip_address(word))
        except ValueError as exc:
            raise UsageError(f"{quote(word)} is not an address") from exc
    return tuple(found)
