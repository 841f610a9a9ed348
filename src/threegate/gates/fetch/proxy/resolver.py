"""Asking the machine's name servers: one datagram, again over TCP if the answer was cut.

SECURITY
    The only place where a name of FETCH becomes an address.  Sends names the policy allows
    and reads whatever comes back through `dns`.
"""

import asyncio
import os
import socket
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final

from threegate.gates.fetch.addresses import NAT64_PROBE, Address, nat64_prefix
from threegate.gates.fetch.proxy.dns import (
    AAAA,
    MAX_DNS_BYTES,
    A,
    DnsAnswer,
    DnsQuery,
    parse_answer,
)
from threegate.gates.fetch.proxy.refused import TunnelReason, TunnelRefused

RESOLVER_PORT: Final = 53
RESOLVER_SECONDS: Final = 1.5  # for one question, all name servers together
NEXT_RESOLVER_SECONDS: Final = 0.3  # until the next name server is asked as well

# A cached resolver that lost its own network answers SERVFAIL to everything.
_NO_ANSWER: Final = frozenset({TunnelReason.RESOLVER_SILENT, TunnelReason.RESOLVER_FAILED})


@dataclass(frozen=True, slots=True)
class Resolved:
    """The addresses of a name, and how this network carries IPv4 in IPv6 at this moment."""

    addresses: tuple[Address, ...]
    nat64: frozenset[IPv6Network]


@dataclass(frozen=True, slots=True)
class Resolver:
    """Takes the word of the first name server that answers."""

    servers: tuple[str, ...]

    async def find(self, name: str) -> Resolved:
        """Return what `name` leads to; raise `Refused`, as `NO_NETWORK` if nothing resolves."""
        # The probe is asked each time: a laptop changes its network, and with it the prefix.
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

        The next server is asked while a slow one keeps its chance until the time is up.
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
    if isinstance(probed, TunnelRefused):  # no server has to know that name
        return frozenset()
    found = (nat64_prefix(IPv6Address(packed)) for packed in probed)
    return frozenset(prefix for prefix in found if prefix is not None)


async def _ask(
    server: str, name: str, kind: int, *, after: float
) -> DnsAnswer | TunnelRefused | None:
    """Return what a server says, None if it cannot be reached."""
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
    # Over TCP nothing has to be cut.
    return TunnelRefused(TunnelReason.ANSWER_BROKEN) if answer.truncated else answer


def _family(server: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in server else socket.AF_INET


async def _by_datagram(server: str, question: DnsQuery) -> DnsAnswer:
    loop = asyncio.get_running_loop()
    with socket.socket(_family(server), socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)  # noqa: FBT003
        # Connected: the kernel drops what comes from another address or port.
        await loop.sock_connect(sock, (server, RESOLVER_PORT))
        await loop.sock_sendall(sock, question.to_bytes())
        while True:
            data = await loop.sock_recv(sock, MAX_DNS_BYTES)
            try:
                return parse_answer(data, question)
            except TunnelRefused as refused:
                # Somebody guesses numbers; the true answer may still come.
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
