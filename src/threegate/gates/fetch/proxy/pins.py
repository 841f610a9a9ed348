"""Addresses that are found once, for a proxy that the kernel holds to them afterwards.

SECURITY
    What is found here is what the kernel will let this proxy reach, before a byte of any run
    was read.  Whether the kernel does is tried, not believed.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import ProtocolBroken
from threegate.gates.fetch.addresses import Address
from threegate.gates.fetch.proxy.refused import TunnelRefused
from threegate.gates.fetch.proxy.resolver import RESOLVER_PORT, RESOLVER_SECONDS, Resolved
from threegate.gates.fetch.proxy.rules import judge_addresses

MAX_DIALLED: Final = 4  # addresses tried for one tunnel
ORIGIN_PORT: Final = 443

LOOPBACK: Final = "127.0.0.1"  # can always be tried, and nothing of it leaves this machine
# By ICMP, or before a packet was made.  Landlock lets a proxy have both ports.
REFUSED: Final = frozenset({errno.EHOSTUNREACH, errno.EACCES, errno.EPERM})


@dataclass(frozen=True, slots=True)
class Pinned:
    """What each name led to when it was asked for, or why it leads nowhere."""

    found: Mapping[str, Resolved | TunnelRefused]

    async def find(self, name: str) -> Resolved:
        """Return what was found then; raise `Refused` as it was refused then."""
        found = self.found[name]
        if isinstance(found, TunnelRefused):
            raise TunnelRefused(found.reason, found.detail)
        return found

    def addresses(self, own: tuple[Address, ...]) -> tuple[Address, ...]:
        """Return what may be dialled: addresses of names of which every one may be."""
        allowed: dict[Address, None] = {}
        for found in self.found.values():
            if isinstance(found, TunnelRefused):
                continue
            try:
                judge_addresses(found.addresses, own, found.nat64)
            except TunnelRefused:
                continue  # asked for it, the proxy refuses and says why
            allowed |= dict.fromkeys(found.addresses[:MAX_DIALLED])
        return tuple(sorted(allowed, key=lambda one: (one.version, one.packed)))


async def pin(find: Callable[[str], Awaitable[Resolved]], hosts: tuple[str, ...]) -> Pinned:
    """Ask for every name once."""

    async def one(name: str) -> Resolved | TunnelRefused:
        try:
            return await find(name)
        except TunnelRefused as refused:
            return refused

    return Pinned(dict(zip(hosts, await asyncio.gather(*map(one, hosts)), strict=True)))


def refuse_unheld() -> None:
    """Try what the kernel must refuse now, or raise `ProtocolBroken`."""
    tries = (
        (socket.SOCK_STREAM, ORIGIN_PORT),
        (socket.SOCK_STREAM, RESOLVER_PORT),
        (socket.SOCK_DGRAM, RESOLVER_PORT),
    )
    for kind, port in tries:
        with socket.socket(socket.AF_INET, kind) as sock:
            sock.settimeout(RESOLVER_SECONDS)
            try:
                sock.connect((LOOPBACK, port))
                sock.send(b"\0")
            except OSError as exc:
                if exc.errno in REFUSED:
                    continue
            raise ProtocolBroken(f"the kernel does not hold this proxy: port {port}")
