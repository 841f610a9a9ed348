"""The proxy between a client and an origin of a test, without a network."""

import asyncio
import socket
from dataclasses import dataclass, field
from ipaddress import IPv6Network, ip_address
from typing import Any

from tests.support.policies import altered, policy
from threegate.gates.fetch.addresses import Address
from threegate.gates.fetch.proxy.request import TunnelReason, TunnelRefused
from threegate.gates.fetch.proxy.resolver import Resolved
from threegate.gates.fetch.proxy.server import Ends, ProxyServer
from threegate.policy.bundle import Bundle
from threegate.policy.purposes import PACKETS

NAME = "api.crossref.org"
PUBLIC = "104.18.0.1"
SECONDS = 20.0


def bundle(**changes: tuple[str, str]) -> Bundle:
    return policy(**changes).bundle()


def without(name: str) -> Bundle:
    """Return the shipped policy without the rule for one host."""
    return altered(policy(), lambda sections: sections["fetch"]["hosts"].pop(name)).bundle()


def request(name: str = NAME, port: int = 443) -> bytes:
    return f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode()


async def pair() -> tuple[Ends, Ends]:
    one, two = socket.socketpair()
    return await asyncio.open_connection(sock=one), await asyncio.open_connection(sock=two)


@dataclass
class Lab:
    """A proxy whose names and addresses are a table; keeps what was asked and dialled."""

    names: dict[str, tuple[str, ...]] = field(default_factory=lambda: {NAME: (PUBLIC,)})
    dead: tuple[str, ...] = ()
    own: tuple[Address, ...] = ()
    nat64: frozenset[IPv6Network] = frozenset()
    rules: Bundle = field(default_factory=bundle)
    purpose: str = PACKETS
    asked: list[str] = field(default_factory=list)
    dialled: list[str] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    origins: list[Ends] = field(default_factory=list)
    tasks: list[asyncio.Task[bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.proxy = ProxyServer(self.rules, self.own, self._find, self._dial, purpose=self.purpose)

    async def _find(self, name: str) -> Resolved:
        self.asked.append(name)
        if name not in self.names:
            raise TunnelRefused(TunnelReason.NO_SUCH_NAME)
        return Resolved(tuple(ip_address(text) for text in self.names[name]), self.nat64)

    async def _dial(self, address: str) -> Ends:
        self.dialled.append(address)
        if address in self.dead:
            raise ConnectionRefusedError
        ours, theirs = await pair()
        self.origins.append(theirs)
        return ours

    async def client(self) -> Ends:
        ours, theirs = await pair()
        serving = self.proxy.serve(theirs, self.lines.append)
        self.tasks.append(asyncio.create_task(serving))
        return ours

    async def say(self, *sent: bytes) -> bytes:
        """Send something as a client of its own, hang up, and return all that comes back."""
        reader, writer = await self.client()
        for data in sent:
            writer.write(data)
            await asyncio.sleep(0.01)
        writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), SECONDS)
        await self.over()
        writer.close()
        return answer

    async def tunnel(self, hello: bytes) -> Ends:
        """Open a tunnel for the name, up to the hello that arrived at the origin."""
        client = await self.client()
        client[1].write(request())
        answer = await asyncio.wait_for(client[0].readuntil(b"\r\n\r\n"), SECONDS)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        client[1].write(hello)
        origin = self.origins[-1]
        assert await asyncio.wait_for(origin[0].readexactly(len(hello)), SECONDS) == hello
        return client

    async def over(self) -> None:
        """Wait until every client was seen to its end."""
        await asyncio.wait_for(asyncio.gather(*self.tasks), SECONDS)
        for _, writer in self.origins:
            writer.close()

    @property
    def verdicts(self) -> list[tuple[str, str]]:
        return [(line["verdict"], line["reason"]) for line in self.lines]
