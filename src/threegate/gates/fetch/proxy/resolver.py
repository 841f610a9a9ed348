"""Queries to the machine's name servers, and addresses that are looked up only once.

A query is one datagram, repeated over TCP if the answer was truncated.  For a run whose hosts
the kernel enforces, the proxy looks up every name once, before the run starts.

SECURITY
    The only place where a name of FETCH becomes an address.  Sends names that policy allows
    and reads the answers through `dns`.  Pinned addresses are those that the kernel will let
    this proxy reach; whether the kernel does is tried, not believed.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final

from threegate.base.errors import ProtocolBroken
from threegate.gates.fetch.addresses import NAT64_PROBE, Address, nat64_prefix
from threegate.gates.fetch.proxy.dns import (
    AAAA,
    MAX_DNS_BYTES,
    A,
    DnsAnswer,
    DnsQuery,
    parse_answer,
)
from threegate.gates.fetch.proxy.request import TunnelReason, TunnelRefused
from threegate.gates.fetch.proxy.rules import judge_addresses

RESOLVER_PORT: Final = 53
RESOLVER_SECONDS: Final = 1.5  # for one question, all name servers together
NEXT_RESOLVER_SECONDS: Final = 0.3  # until the next name server is asked as well

# A caching resolver without a network answers SERVFAIL to everything.
_NO_ANSWER: Final = frozenset({TunnelReason.RESOLVER_SILENT, TunnelReason.RESOLVER_FAILED})


@dataclass(frozen=True, slots=True)
class Resolved:
    """The addresses of a name, and the NAT64 prefixes of this network at this moment."""

    addresses: tuple[Address, ...]
    nat64: frozenset[IPv6Network]


@dataclass(frozen=True, slots=True)
class Resolver:
    """Uses the first answer of any name server."""

    servers: tuple[str, ...]

    async def find(self, name: str) -> Resolved:
        """Return the addresses of `name`; raise `TunnelRefused`, `NO_NETWORK` if none resolves."""
        # The NAT64 probe is sent each time: a laptop changes its network, and so the prefix.
        four, six, probed = await asyncio.gather(
            self._try(name, A), self._try(name, AAAA), self._try(NAT64_PROBE, AAAA)
        )
        refused = [one for one in (four, six, probed) if isinstance(one, TunnelRefused)]
        if len(refused) == 3 and all(one.reason in _NO_ANSWER for one in refused):
            raise TunnelRefused(TunnelReason.NO_NETWORK)
        if isinstance(four, TunnelRefused) or isinstance(six, TunnelRefused):
            raise refused[0]
        return Resolved(tuple(ip_address(packed) for packed in (*four, *six)), _prefixes(probed))

    async def _try(self, name: str, kind: int) -> tuple[bytes, ...] | TunnelRefused:
        try:
            return await self.ask(name, kind)
        except TunnelRefused as refused:
            return refused

    async def ask(self, name: str, kind: int) -> tuple[bytes, ...]:
        """Return the addresses of one kind, in wire form.

        The next server is asked too if one is slow; the first answer within the time counts.
        """
        asked = [
            asyncio.create_task(_ask(server, name, kind, after=NEXT_RESOLVER_SECONDS * number))
            for number, server in enumerate(self.servers)
        ]
        try:
            async with asyncio.timeout(RESOLVER_SECONDS):
                for first in asyncio.as_completed(asked):
                    answer = await first
                    if isinstance(answer, TunnelRefused):
                        raise answer
                    if answer is not None:
                        return answer.addresses
        except TimeoutError:
            pass
        finally:
            for task in asked:
                task.cancel()
        raise TunnelRefused(TunnelReason.RESOLVER_SILENT)


def _prefixes(probed: tuple[bytes, ...] | TunnelRefused) -> frozenset[IPv6Network]:
    if isinstance(probed, TunnelRefused):  # name servers need not know that name
        return frozenset()
    found = (nat64_prefix(IPv6Address(packed)) for packed in probed)
    return frozenset(prefix for prefix in found if prefix is not None)


async def _ask(
    server: str, name: str, kind: int, *, after: float
) -> DnsAnswer | TunnelRefused | None:
    """Return the answer of a server, None if it cannot be reached."""
    await asyncio.sleep(after)
    question = DnsQuery(int.from_bytes(os.urandom(2), "big"), name, kind)
    try:
        answer = await _by_datagram(server, question)
        if answer.truncated:
            answer = await _by_stream(server, question)
    except TunnelRefused as refused:
        return refused
    except (OSError, EOFError):
        return None
    # Over TCP no answer needs to be truncated.
    return TunnelRefused(TunnelReason.ANSWER_BROKEN) if answer.truncated else answer


def _family(server: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in server else socket.AF_INET


async def _by_datagram(server: str, question: DnsQuery) -> DnsAnswer:
    loop = asyncio.get_running_loop()
    with socket.socket(_family(server), socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)  # noqa: FBT003
        # Connected: the kernel drops datagrams from other addresses and ports.
        await loop.sock_connect(sock, (server, RESOLVER_PORT))
        await loop.sock_sendall(sock, question.to_bytes())
        while True:
            data = await loop.sock_recv(sock, MAX_DNS_BYTES)
            try:
                return parse_answer(data, question)
            except TunnelRefused as refused:
                # Somebody guesses query numbers; the true answer may still come.
                if refused.reason != TunnelReason.ANSWER_OTHER:
                    raise


async def _by_stream(server: str, question: DnsQuery) -> DnsAnswer:
    loop = asyncio.get_running_loop()
    sock = socket.socket(_family(server), socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003
        await loop.sock_connect(sock, (server, RESOLVER_PORT))
        reader, writer = await asyncio.open_connection(sock=sock)
    except BaseException:
        sock.close()
        raise
    try:
        query = question.to_bytes()
        writer.write(len(query).to_bytes(2, "big") + query)
        await writer.drain()
        length = int.from_bytes(await reader.readexactly(2), "big")
        return parse_answer(await reader.readexactly(length), question)
    finally:
        writer.close()


# Pinned addresses.

MAX_DIALLED: Final = 4  # addresses tried for one tunnel
ORIGIN_PORT: Final = 443

LOOPBACK: Final = "127.0.0.1"  # can always be tried, and nothing leaves this machine
# By ICMP, or before a packet was made.  Landlock lets a proxy have both ports.
REFUSED: Final = frozenset({errno.EHOSTUNREACH, errno.EACCES, errno.EPERM})


@dataclass(frozen=True, slots=True)
class Pinned:
    """The addresses of each name when it was looked up, or why there are none."""

    found: Mapping[str, Resolved | TunnelRefused]

    async def find(self, name: str) -> Resolved:
        """Return the addresses found then, or raise the refusal of then."""
        found = self.found[name]
        if isinstance(found, TunnelRefused):
            raise TunnelRefused(found.reason, found.detail)
        return found

    def addresses(self, own: tuple[Address, ...]) -> tuple[Address, ...]:
        """Return the addresses that may be dialled: of names all of whose addresses may."""
        allowed: dict[Address, None] = {}
        for found in self.found.values():
            if isinstance(found, TunnelRefused):
                continue
            try:
                judge_addresses(found.addresses, own, found.nat64)
            except TunnelRefused:
                continue  # when a client asks for it, the proxy refuses and says why
            allowed |= dict.fromkeys(found.addresses[:MAX_DIALLED])
        return tuple(sorted(allowed, key=lambda one: (one.version, one.packed)))


async def pin(find: Callable[[str], Awaitable[Resolved]], hosts: tuple[str, ...]) -> Pinned:
    """Look up every name once."""

    async def one(name: str) -> Resolved | TunnelRefused:
        try:
            return await find(name)
        except TunnelRefused as refused:
            return refused

    return Pinned(dict(zip(hosts, await asyncio.gather(*map(one, hosts)), strict=True)))


def refuse_unheld() -> None:
    """Try connections that the kernel must refuse now, or raise `ProtocolBroken`."""
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
