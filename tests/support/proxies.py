"""The proxy between a client and an origin: without a network, and in its real sandbox."""

import asyncio
import fcntl
import io
import json
import os
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Network, ip_address
from pathlib import Path
from typing import Any, Self

from tests.support.policies import altered, policy
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.addresses import Address
from threegate.gates.fetch.proxy.messages import InForce, ProxyRules, parse_in_force
from threegate.gates.fetch.proxy.request import TunnelReason, TunnelRefused
from threegate.gates.fetch.proxy.resolver import Resolved
from threegate.gates.fetch.proxy.server import Ends, ProxyServer
from threegate.policy.bundle import Bundle
from threegate.policy.purposes import PACKETS
from threegate.sandbox.box import Start
from threegate.sandbox.channel import frames
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import PROXY
from threegate.sandbox.session import start_gate
from threegate.sandbox.supervise import Ended, Line

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


# -- The real proxy in its real box, driven as the host does it.

PAYLOAD = "threegate.gates.fetch.proxy.gate:serve"
BOX_SECONDS = 30.0


class ProxyBox:
    """A started proxy; `lines` are the decisions it has told."""

    def __init__(
        self,
        directory: Path,
        resolv_conf: str,
        *own: str,
        purpose: str = PACKETS,
        hosts: tuple[str, ...] = (),
    ) -> None:
        self.socket = directory / "proxy.sock"
        self._purpose, self._hosts = purpose, hosts
        self.lines: list[dict[str, Any]] = []
        self._own: tuple[Address, ...] = tuple(ip_address(text) for text in own)
        conf = directory / "resolv.conf"
        conf.write_text(resolv_conf, "ascii")
        conf.chmod(0o644)
        # Inside, 3 is the channel; a descriptor keeps its number on the way in.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as low:
            fd = fcntl.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, 10)
        self._listening = socket.socket(fileno=fd)
        self._listening.bind(str(self.socket))
        self._listening.listen(64)
        start = Start(PROXY, PAYLOAD, {"resolver": str(conf)}, keep_fds=(self._listening.fileno(),))
        started, _ = start_gate(find_machine(), start)
        self._line = Line(started, PROXY, note=self._note)
        why = self._line.greet(time.monotonic() + BOX_SECONDS)
        if why is not None or not self._line.is_ready:
            ended = self._line.end(why)
            raise AssertionError(ended, ended.stderr.open_for_display())

    def _note(self, data: bytes) -> None:
        self.lines.append(json.loads(data))

    def apply(self, policy: Bundle) -> InForce:
        """Put rules in force, and return what the proxy says about it."""
        answer = io.BytesIO()
        fd, purpose = self._listening.fileno(), self._purpose
        message = ProxyRules(policy.bundle_bytes(), fd, self._own, purpose, self._hosts)
        self._line.expect(answer)
        self._line.send(frames(message.to_bytes()))
        why = self._line.wait_for_answer(time.monotonic() + BOX_SECONDS)
        assert (why, self._line.is_answered) == (None, True), self._line.end(why)
        return parse_in_force(Untrusted(answer.getvalue()))

    def hear(self, until: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Listen until the lines are as wanted; return them, and begin anew."""
        end = time.monotonic() + BOX_SECONDS
        while not until(self.lines):
            why = self._line.wait_for_end(time.monotonic() + 0.05)
            assert why == "deadline", self._line.end(why)
            assert time.monotonic() < end, f"not told in time: {self.lines}"
        heard, self.lines = self.lines, []
        return heard

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(BOX_SECONDS)
        sock.connect(str(self.socket))
        return sock

    def close(self) -> Ended:
        self._line.hang_up()
        why = self._line.wait_for_end(time.monotonic() + BOX_SECONDS)
        self._listening.close()
        return self._line.end(why)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.unlink(self.socket)
        if not self._line.is_gone:
            self.close()


# -- ClientHellos: real ones of the standard library, and ones put together by hand.


def real_hello(name: str | None, *, old: bool = False) -> bytes:
    """Return what OpenSSL sends first to a server called `name`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if old:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    sent = ssl.MemoryBIO()
    wrapped = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name)
    try:
        wrapped.do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without a server")


def sized(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size, "big") + data


def extension(kind: int, body: bytes) -> bytes:
    return kind.to_bytes(2, "big") + sized(2, body)


def name_extension(name: bytes) -> bytes:
    return extension(0, sized(2, b"\0" + sized(2, name)))


def message(extensions: bytes | None, *, kind: int = 1) -> bytes:
    """Return a handshake message with these extensions, or without the block of them."""
    body = b"\x03\x03" + bytes(32) + sized(1, b"") + sized(2, b"\x13\x01") + sized(1, b"\0")
    if extensions is not None:
        body += sized(2, extensions)
    return bytes([kind]) + sized(3, body)


def records(data: bytes, piece: int = 2**14) -> bytes:
    """Return a message in records of at most `piece` bytes."""
    head = b"\x16\x03\x01"
    return b"".join(head + sized(2, data[at : at + piece]) for at in range(0, len(data), piece))


def made_hello(extensions: bytes | None) -> bytes:
    return records(message(extensions))
