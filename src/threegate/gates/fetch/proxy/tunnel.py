"""An open tunnel: bytes both ways, each within its bound, until somebody ends it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from threegate.base.limits import KIB
from threegate.gates.fetch.proxy.hello import Records
from threegate.gates.fetch.proxy.refused import TunnelReason, TunnelRefused
from threegate.gates.fetch.proxy.rules import TunnelBounds

PIECE_BYTES: Final = 64 * KIB

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Spent:
    """What all tunnels of a proxy came to, since it started."""

    tunnels: int = 0
    up: int = 0


@dataclass(slots=True)
class Tunnel:
    """One tunnel; `cut` may be given a reason from outside, at any time."""

    name: str
    allowed: TunnelBounds
    cut: "asyncio.Future[TunnelReason]"
    spent: Spent = field(default_factory=Spent)
    up: int = 0
    down: int = 0
    time: asyncio.Timeout | None = None  # while it carries

    def hold_to(self, allowed: TunnelBounds) -> None:
        """Keep other bounds from now on, counted from its beginning."""
        sooner, self.allowed = self.allowed.seconds - allowed.seconds, allowed
        if self.time is not None and not self.time.expired():
            end = self.time.when()
            assert end is not None, "every tunnel has an end"
            self.time.reschedule(end - sooner)

    def count_up(self, size: int) -> None:
        """Count what the client sends, here and in all; raise `Refused` beyond either bound."""
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
    """Carry bytes until either side is done; return why it was cut instead, if it was.

    A client that is done has closed: TLS needs no half-open connection, and an origin that
    stays would hold one of the few tunnels its rule grants.
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
