"""The program of a proxy sandbox: receives rules, reports decisions, serves clients.

The host sends `ProxyRules` first and again whenever the policy changes, and receives `InForce` when
they apply.  Decisions are notes on the same channel.  They are written before anything else
happens: a host that does not read them stops the proxy, and so does one that is gone.

SECURITY
    Reads what the host sends.  Rules that cannot be read end the proxy with all its tunnels.
"""

import asyncio
import os
import socket
from pathlib import Path
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import PolicyInvalid, ProtocolBroken, VersionUnsupported
from threegate.base.limits import KIB
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.proxy.dns import resolvers
from threegate.gates.fetch.proxy.messages import (
    Address,
    InForce,
    ProxyRules,
    parse_rules,
)
from threegate.gates.fetch.proxy.resolver import Resolver, pin, refuse_unheld
from threegate.gates.fetch.proxy.server import MAX_TUNNELS, Ends, Find, ProxyServer, dial
from threegate.policy.bundle import Bundle, parse_bundle
from threegate.sandbox import payload
from threegate.sandbox.channel import MessageReader, write_message, write_note
from threegate.sandbox.payload import ANSWERS_FD

MAX_RESOLVERS: Final = 3
MAX_RESOLV_CONF_BYTES: Final = 64 * KIB
MAX_CLIENTS: Final = 2 * MAX_TUNNELS  # with refused ones; others wait in the queue
REFUSED_SECONDS: Final = 1.0  # for which a refused client keeps its place

RULES_FD: Final = 0
RESOLV_CONF: Final = Path("/etc/resolv.conf")
_PIECE: Final = 64 * 1024


def serve() -> None:
    """Serve clients until the host hangs up; the payload of a proxy sandbox."""
    payload.serve(lambda: asyncio.run(_Gate().run()), PolicyInvalid, VersionUnsupported)


class _Gate:
    def __init__(self) -> None:
        self._messages = MessageReader(parse_rules.most_bytes)
        self._proxy: ProxyServer | None = None
        self._first: ProxyRules | None = None
        self._serving = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None]

    async def run(self) -> None:
        """Return when the host hangs up; raise what ends the proxy otherwise."""
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        loop.add_reader(RULES_FD, self._heard)
        await self._over

    def _heard(self) -> None:
        try:
            data = os.read(RULES_FD, _PIECE)
            if data:
                self._take(data)
            elif not self._over.done():
                self._over.set_result(None)
        except Exception as exc:  # noqa: BLE001  # after any error no rule is in force
            self._end(exc)

    def _end(self, exc: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(exc)

    def _take(self, data: bytes) -> None:
        for message in self._messages.feed(data):
            self._apply(message)

    def _apply(self, message: bytes) -> None:
        rules = parse_rules(Untrusted(message))
        policy = parse_bundle(rules.bundle)
        if self._first is None:
            self._first = rules
            if rules.pin:
                self._start(self._pin(rules, policy))
                return
            self._proxy = _proxy(rules, policy, Resolver(_resolvers()).find)
        elif self._proxy is None or not _is_same(rules, self._first):
            raise ProtocolBroken("a proxy has one purpose")
        else:
            if rules.pin:
                refuse_unheld()
            self._proxy.reload(policy, rules.own, rules.hosts)
        if not self._serving:
            self._serving = True
            self._start(self._accept(self._proxy, rules.listen_fd))
        self._say(policy)

    async def _pin(self, rules: ProxyRules, policy: Bundle) -> None:
        """Look up what would be dialled and report it; serve nobody until the kernel holds us."""
        pinned = await pin(Resolver(_resolvers()).find, rules.hosts)
        self._proxy = _proxy(rules, policy, pinned.find)
        self._say(policy, pinned.addresses(rules.own))

    def _say(self, policy: Bundle, pinned: tuple[Address, ...] = ()) -> None:
        write_message(ANSWERS_FD, InForce(policy.generation, policy.digest, pinned).to_bytes())

    async def _accept(self, proxy: ProxyServer, listen_fd: int) -> None:
        listening = socket.socket(fileno=listen_fd)
        listening.setblocking(False)  # noqa: FBT003
        loop, room = asyncio.get_running_loop(), asyncio.Semaphore(MAX_CLIENTS)
        while True:
            await room.acquire()
            sock, _ = await loop.sock_accept(listening)
            client = await asyncio.open_connection(sock=sock)
            self._start(_see(proxy, client, room))

    def _start(self, act: Any) -> None:
        task = asyncio.get_running_loop().create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            self._end(exc)  # a decision that could not be reported, or a bug: stop


async def _see(proxy: ProxyServer, client: Ends, room: asyncio.Semaphore) -> None:
    """Serve one client to its end; a refused one keeps its place for a moment.

    Each refusal is an entry of the audit log: an owned FETCH could fill the disk with them.
    """
    try:
        if not await proxy.serve(client, tell):
            await asyncio.sleep(REFUSED_SECONDS)
    finally:
        room.release()


def _proxy(rules: ProxyRules, policy: Bundle, find: Find) -> ProxyServer:
    return ProxyServer(policy, rules.own, find, dial, purpose=rules.purpose, hosts=rules.hosts)


def _is_same(rules: ProxyRules, first: ProxyRules) -> bool:
    return (rules.purpose, rules.pin) == (first.purpose, first.pin)


def _resolvers() -> tuple[str, ...]:
    with RESOLV_CONF.open("rb") as file:
        return resolvers(file.read(MAX_RESOLV_CONF_BYTES), MAX_RESOLVERS)


def tell(line: dict[str, Any]) -> None:
    """Write one decision to the host."""
    write_note(ANSWERS_FD, canonical.encode(line))
