"""Whom the proxy sees at a time: an owned FETCH asks for as many refusals as it likes."""

import asyncio
from typing import Any

import pytest

from threegate.fetch.proxy import gate
from threegate.fetch.proxy.limits import REFUSED_SECONDS


class Serving:
    """A proxy that has decided already."""

    def __init__(self, *, tunnel: bool) -> None:
        self._tunnel = tunnel

    async def serve(self, client: Any, tell: Any) -> bool:
        del client, tell
        return self._tunnel


@pytest.mark.parametrize("tunnel", [True, False])
def test_whoever_is_refused_keeps_its_place_for_a_moment(
    tunnel: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each refusal is an entry of the log, which would grow as fast as somebody can ask."""
    waited: list[tuple[float, bool]] = []

    async def act() -> None:
        room = asyncio.Semaphore(1)

        async def sleep(seconds: float) -> None:
            waited.append((seconds, room.locked()))

        monkeypatch.setattr(asyncio, "sleep", sleep)
        await room.acquire()
        proxy: Any = Serving(tunnel=tunnel)
        client: Any = None
        await gate._see(proxy, client, room)
        assert not room.locked(), "and then it is free again"

    asyncio.run(act())
    wanted = [] if tunnel else [(REFUSED_SECONDS, True)]
    assert waited == wanted, "control: whoever got a tunnel makes room at once"
