"""The proxy itself: from a client's first byte to the end of its tunnel.

In this order: the request in its one spelling; the policy's word on the name; its addresses,
every one of them judged; a connection to one of those very addresses; a ClientHello for that
name and no other; then bytes, counted.  Each end of that way is one line in the log.

SECURITY
    Serves FETCH, which may be owned.  If this module is wrong, an owned FETCH reaches what
    no rule allows.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from threegate.gates.fetch.addresses import Address
from threegate.gates.fetch.proxy.hello import MAX_HELLO_BYTES, check_hello
from threegate.gates.fetch.proxy.pins import MAX_DIALLED, ORIGIN_PORT
from threegate.gates.fetch.proxy.refused import TunnelReason, TunnelRefused
from threegate.gates.fetch.proxy.request import MAX_REQUEST_BYTES, parse_request
from threegate.gates.fetch.proxy.resolver import Resolved
from threegate.gates.fetch.proxy.rules import NameDenied, judge_addresses, judge_name
from threegate.gates.fetch.proxy.tunnel import Ends, Spent, Tunnel, carry
from threegate.policy.bundle import Bundle
from threegate.policy.decision import RuleRef
from threegate.policy.purposes import PACKETS

MAX_TUNNELS: Final = 64  # at a time, whatever the policy adds up to
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
    """One client: what is known about it so far, for the line that ends it."""

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
    """Decides about clients under the rules it was last given."""

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
        """Put other rules in force; open tunnels are cut, or held to the bounds they have now."""
        self._policy, self._own, self._hosts = policy, own, hosts
        for tunnel in self._tunnels:
            judged = judge_name(policy, tunnel.name, self._purpose, hosts)
            if isinstance(judged, NameDenied):
                tunnel.end(TunnelReason.NOT_ALLOWED)
            else:
                tunnel.hold_to(judged)

    async def serve(self, client: Ends, tell: Tell) -> bool:
        """See one client to its end; tell whether it got a tunnel."""
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
        self._tunnels.append(tunnel)  # from here on a change of policy reaches it
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
        """Dial the addresses that were judged, and nothing that is resolved again."""
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
    except OSError:  # whoever was refused need not listen
        return


async def dial(address: str) -> Ends:
    """Connect to port 443 of an address, unless that turns out to be this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003
        await asyncio.get_running_loop().sock_connect(sock, (address, ORIGIN_PORT))
        # A connection to one's own address has it at both ends, whatever the list said.
        if sock.getsockname()[0] == sock.getpeername()[0]:
            raise TunnelRefused(TunnelReason.ADDRESS, f"{address} is this machine")
        return await asyncio.open_connection(sock=sock)
    except BaseException:
        sock.close()
        raise
