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

from threegate.fetch.addresses import NAT64_PROBE, Address, nat64_prefix
from threegate.fetch.proxy.dns import AAAA, A, Answer, Question, parse_answer
from threegate.fetch.proxy.limits import MAX_DNS_BYTES, RESOLVER_PORT, RESOLVER_SECONDS
from threegate.fetch.proxy.refused import Reason, Refused


@dataclass(frozen=True, slots=True)
class Found:
    """The addresses of a name, and how this network carries IPv4 in IPv6 at this moment."""

    addresses: tuple[Address, ...]
    nat64: frozenset[IPv6Network]


@dataclass(frozen=True, slots=True)
class Resolver:
    """Asks the first name server that answers."""

    servers: tuple[str, ...]

    async def find(self, name: str) -> Found:
        """Return what `name` leads to; raise `Refused`."""
        four, six, probed = await asyncio.gather(
            self.ask(name, A), self.ask(name, AAAA), self._probe()
        )
        return Found(tuple(ip_address(packed) for packed in (*four, *six)), probed)

    async def _probe(self) -> frozenset[IPv6Network]:
        """Ask anew each time: a laptop changes its network, and with it the prefix."""
        try:
            answers = await self.ask(NAT64_PROBE, AAAA)
        except Refused:  # no server has to know that name; a silent one answers nothing else
            return frozenset()
        found = (nat64_prefix(IPv6Address(packed)) for packed in answers)
        return frozenset(prefix for prefix in found if prefix is not None)

    async def ask(self, name: str, kind: int) -> tuple[bytes, ...]:
        """Return the addresses of one kind, in wire form."""
        for server in self.servers:
            question = Question(int.from_bytes(os.urandom(2), "big"), name, kind)
            try:
                async with asyncio.timeout(RESOLVER_SECONDS):
                    answer = await _by_datagram(server, question)
                    if answer.truncated:
                        answer = await _by_stream(server, question)
            except (TimeoutError, OSError, EOFError):
                continue
            if answer.truncated:  # over TCP nothing has to be cut
                raise Refused(Reason.ANSWER_BROKEN)
            return answer.addresses
        raise Refused(Reason.RESOLVER_SILENT)


def _family(server: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in server else socket.AF_INET


async def _by_datagram(server: str, question: Question) -> Answer:
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
            except Refused as refused:
                # Somebody guesses numbers; the true answer may still come.
                if refused.reason != Reason.ANSWER_OTHER:
                    raise


async def _by_stream(server: str, question: Question) -> Answer:
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
