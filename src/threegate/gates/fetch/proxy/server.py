"""The proxy: from a client's first byte to the end of its tunnel.

In this order: the request in its one spelling; the policy's decision about the name; all of its
addresses judged; a connection to one of those addresses; a ClientHello for that name; then
bytes, counted.  Each client is one line in the log, or two if it gets a tunnel.

SECURITY
    Serves FETCH, which may be owned.  If this module is wrong, an owned FETCH reaches hosts
    that no rule allows.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from threegate.base.limits import KIB
from threegate.gates.fetch.addresses import Address
from threegate.gates.fetch.proxy.request import (
    MAX_HELLO_BYTES,
    MAX_REQUEST_BYTES,
    Records,
    TunnelReason,
    TunnelRefused,
    check_hello,
    parse_request,
)
from threegate.gates.fetch.proxy.resolver import MAX_DIALLED, ORIGIN_PORT, Resolved
from threegate.gates.fetch.proxy.rules import NameDenied, TunnelBounds, judge_addresses, judge_name
from threegate.policy.bundle import Bundle
from threegate.policy.decision import RuleRef
from threegate.policy.purposes import PACKETS

PIECE_BYTES: Final = 64 * KIB

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Spent:
    """The totals of all tunnels since the proxy started."""

    tunnels: int = 0
    up: int = 0


@dataclass(slots=True)
class Tunnel:
    """One tunnel; `cut` may receive a reason at any time."""

    name: str
    allowed: TunnelBounds
    cut: "asyncio.Future[TunnelReason]"
    spent: Spent = field(default_factory=Spent)
    up: int = 0
    down: int = 0
    time: asyncio.Timeout | None = None  # while it carries bytes

    def hold_to(self, allowed: TunnelBounds) -> None:
        """Apply other bounds, counted from the beginning of the tunnel."""
        sooner, self.allowed = self.allowed.seconds - allowed.seconds, allowed
        if self.time is not None and not self.time.expired():
            end = self.time.when()
            assert end is not None, "every tunnel has an end"
            self.time.reschedule(end - sooner)

    def count_up(self, size: int) -> None:
        """Count bytes of the client; raise `TunnelRefused` beyond the bound of tunnel or proxy."""
        self.up += size
        self.spent.up += size
        in_all = self.allowed.up_in_all
        if self.up > self.allowed.up_bytes or (in_all is not None and self.spent.up > in_all):
            raise TunnelRefused(TunnelReason.UP_BYTES)

    def end(self, reason: TunnelReason) -> None:
        """Cut the tunnel; the first reason stays."""
        if not self.cut.done():
            self.cut.set_result(reason)


async def carry(tunnel: Tunnel, client: Ends, origin: Ends) -> TunnelReason | None:
    """Carry bytes until either side closes; return the reason if the tunnel was cut.

    TLS needs no half-open connection, and an origin that stays would hold one of the few
    tunnels that its rule grants.
    """
    upward = asyncio.create_task(_upward(tunnel, client[0], origin[1]))
    downward = asyncio.create_task(_downward(tunnel, origin[0], client[1]))
    pumps = {upward, downward}
    try:
        async with asyncio.timeout(tunnel.allowed.seconds) as tunnel.time:
            waited: set[asyncio.Future[Any]] = {*pumps, tunnel.cut}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        _raise_from(pumps)
    except TimeoutError:
        return TunnelReason.LIFETIME
    except TunnelRefused as refused:
        return refused.reason
    except OSError:
        return TunnelReason.BROKEN
    finally:
        tunnel.time = None
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
    return tunnel.cut.result() if tunnel.cut.done() else None


def _raise_from(pumps: "set[asyncio.Task[None]]") -> None:
    for pump in pumps:
        if pump.done():
            pump.result()


async def _upward(
    tunnel: Tunnel, client: asyncio.StreamReader, origin: asyncio.StreamWriter
) -> None:
    records = Records(tunnel.name)
    while data := await client.read(PIECE_BYTES):
        tunnel.count_up(len(data))
        records.feed(data)  # before any of it leaves
        origin.write(data)
        await origin.drain()


async def _downward(
    tunnel: Tunnel, origin: asyncio.StreamReader, client: asyncio.StreamWriter
) -> None:
    while data := await origin.read(PIECE_BYTES):
        if tunnel.down + len(data) > tunnel.allowed.down_bytes:
            raise TunnelRefused(TunnelReason.DOWN_BYTES)
        tunnel.down += len(data)
        client.write(data)
        await client.drain()


# The server.

MAX_TUNNELS: Final = 64  # at a time, whatever the rules add up to
CLIENT_SECONDS: Final = 10.0  # for a request, and again for a hello
DIAL_SECONDS: Final = 10.0

Find = Callable[[str], Awaitable[Resolved]]
Dial = Callable[[str], Awaitable[Ends]]
Tell = Callable[[dict[str, Any]], None]

OPENED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_GATEWAY: Final = frozenset(
    {
        TunnelReason.RESOLVER_SILENT,
        TunnelReason.RESOLVER_FAILED,
        TunnelReason.NO_SUCH_NAME,
        TunnelReason.NO_ADDRESS,
    }
    | {TunnelReason.UNREACHABLE, TunnelReason.NO_NETWORK}
)


@dataclass(slots=True)
class ClientCase:
    """One client: what is known about it so far, for its line in the log."""

    host: str | None = None
    rule: RuleRef | None = None
    addresses: tuple[str, ...] = ()
    address: str | None = None  # the one that was dialled
    answered: bool = False

    def line(
        self, verdict: str, reason: str, *, detail: str = "", counted: dict[str, int] | None = None
    ) -> dict[str, Any]:
        """Return the line for the log."""
        return {
            "address": self.address,
            "addresses": list(self.addresses),
            "detail": detail,
            "event": "tunnel",
            "host": self.host,
            "reason": reason,
            "rule": None if self.rule is None else str(self.rule),
            "verdict": verdict,
            **(counted or {}),
        }


class ProxyServer:
    """Serves clients under the rules in force."""

    def __init__(
        self,
        policy: Bundle,
        own: tuple[Address, ...],
        find: Find,
        dial: Dial,
        *,
        purpose: str = PACKETS,
        hosts: tuple[str, ...] = (),
    ) -> None:
        self._policy, self._own, self._purpose, self._hosts = policy, own, purpose, hosts
        self._find, self._dial = find, dial
        self._clients = 0
        self._spent = Spent()
        self._tunnels: list[Tunnel] = []

    def reload(self, policy: Bundle, own: tuple[Address, ...], hosts: tuple[str, ...] = ()) -> None:
        """Put other rules in force; open tunnels are cut, or get the bounds of their new rule."""
        self._policy, self._own, self._hosts = policy, own, hosts
        for tunnel in self._tunnels:
            judged = judge_name(policy, tunnel.name, self._purpose, hosts)
            if isinstance(judged, NameDenied):
                tunnel.end(TunnelReason.NOT_ALLOWED)
            else:
                tunnel.hold_to(judged)

    async def serve(self, client: Ends, tell: Tell) -> bool:
        """Serve one client to its end; return True if it got a tunnel."""
        case = ClientCase()
        self._clients += 1
        try:
            await self._serve(case, client, tell)
            return True
        except TunnelRefused as refused:
            tell(case.line("deny", refused.reason, detail=refused.detail))
            if not case.answered:
                await _answer(client[1], refused.reason)
        except (OSError, EOFError):
            tell(case.line("deny", TunnelReason.CLIENT_GONE))
        finally:
            self._clients -= 1
            client[1].close()
        return False

    async def _serve(self, case: ClientCase, client: Ends, tell: Tell) -> None:
        if self._clients > MAX_TUNNELS:
            raise TunnelRefused(TunnelReason.TOO_MANY)
        case.host = await _within(_request(client[0]), CLIENT_SECONDS, TunnelReason.CLIENT_SLOW)
        tunnel = self._admit(case, case.host)
        self._tunnels.append(tunnel)  # from here on a change of policy applies to it
        try:
            found = await self._find(case.host)
            case.addresses = tuple(str(address) for address in found.addresses)
            judge_addresses(found.addresses, self._own, found.nat64)
            origin = await self._connect(case)
            try:
                await self._carry(case, tunnel, client, origin, tell)
            finally:
                origin[1].close()
        finally:
            self._tunnels.remove(tunnel)

    def _admit(self, case: ClientCase, name: str) -> Tunnel:
        judged = judge_name(self._policy, name, self._purpose, self._hosts)
        case.rule = judged.rule
        if isinstance(judged, NameDenied):
            raise TunnelRefused(TunnelReason.NOT_ALLOWED, judged.why)
        same = sum(tunnel.allowed.rule == judged.rule for tunnel in self._tunnels)
        if same >= judged.tunnels:
            raise TunnelRefused(TunnelReason.TOO_MANY, f"limit {judged.tunnels}")
        if judged.in_all is not None and self._spent.tunnels >= judged.in_all:
            raise TunnelRefused(TunnelReason.SPENT, f"limit {judged.in_all}")
        self._spent.tunnels += 1
        cut = asyncio.get_running_loop().create_future()
        return Tunnel(name, judged, cut, self._spent)

    async def _connect(self, case: ClientCase) -> Ends:
        """Dial the addresses that were judged; nothing is resolved again."""
        for address in case.addresses[:MAX_DIALLED]:
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    case.address = address
                    return await self._dial(address)
            except (OSError, TimeoutError):
                continue
        case.address = None
        raise TunnelRefused(TunnelReason.UNREACHABLE)

    async def _carry(
        self, case: ClientCase, tunnel: Tunnel, client: Ends, origin: Ends, tell: Tell
    ) -> None:
        client[1].write(OPENED)
        case.answered = True
        reading = _hello(client[0], tunnel.name)
        hello = await _within(reading, CLIENT_SECONDS, TunnelReason.CLIENT_SLOW)
        if tunnel.cut.done():  # the policy changed while we waited
            raise TunnelRefused(tunnel.cut.result())
        tell(case.line("allow", "opened"))
        tunnel.count_up(len(hello))
        origin[1].write(hello)
        why = await carry(tunnel, client, origin)
        counted = {"down": tunnel.down, "up": tunnel.up}
        tell(case.line("cut" if why else "closed", why or "done", counted=counted))


async def _within(act: Awaitable[Any], seconds: float, reason: TunnelReason) -> Any:
    try:
        async with asyncio.timeout(seconds):
            return await act
    except TimeoutError as exc:
        raise TunnelRefused(reason) from exc


async def _request(client: asyncio.StreamReader) -> str:
    held = b""
    while (name := parse_request(held)) is None:
        held += await _more(client, MAX_REQUEST_BYTES)
    return name


async def _hello(client: asyncio.StreamReader, name: str) -> bytes:
    held = b""
    while not check_hello(held, name):
        held += await _more(client, MAX_HELLO_BYTES)
    return held


async def _more(client: asyncio.StreamReader, most: int) -> bytes:
    data = await client.read(most)
    if not data:
        raise TunnelRefused(TunnelReason.CLIENT_GONE)
    return data


async def _answer(client: asyncio.StreamWriter, reason: TunnelReason) -> None:
    code = "403 Forbidden"
    if reason in _GATEWAY:
        code = "502 Bad Gateway"
    elif reason == TunnelReason.TOO_MANY:
        code = "503 Service Unavailable"
    head = f"HTTP/1.1 {code}\r\nContent-Length: 0\r\nX-ThreeGate-Reason: {reason}\r\n\r\n"
    try:
        client.write(head.encode("ascii"))
        await client.drain()
    except OSError:  # a refused client need not listen
        return


async def dial(address: str) -> Ends:
    """Connect to port 443 of an address; refuse if it is this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003
        await asyncio.get_running_loop().sock_connect(sock, (address, ORIGIN_PORT))
        # A connection to our own address has it at both ends, whatever the list of addresses said.
        if sock.getsockname()[0] == sock.getpeername()[0]:
            raise TunnelRefused(TunnelReason.ADDRESS, f"{address} is this machine")
        return await asyncio.open_connection(sock=sock)
    except BaseException:
        sock.close()
        raise
