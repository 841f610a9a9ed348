"""Names that are asked for once, and what of them may be dialled."""

import asyncio
import errno
import socket
from ipaddress import ip_address
from typing import Any, Self

import pytest

from threegate.base.errors import ProtocolBroken
from threegate.gates.fetch.proxy import resolver
from threegate.gates.fetch.proxy.request import TunnelReason, TunnelRefused
from threegate.gates.fetch.proxy.resolver import MAX_DIALLED, Pinned, Resolved, pin

OUTSIDE = tuple(ip_address(f"104.18.0.{number}") for number in range(1, 7))
INSIDE = ip_address("10.0.0.5")
OWN = ip_address("104.18.0.9")


def pinned(**found: Any) -> Pinned:
    made = {
        name: value if isinstance(value, TunnelRefused) else Resolved(value, frozenset())
        for name, value in found.items()
    }
    return Pinned(made)


def test_every_name_is_asked_for_once_and_answered_the_same_way_ever_after() -> None:
    asked: list[str] = []

    async def find(name: str) -> Resolved:
        asked.append(name)
        if name == "c":
            raise TunnelRefused(TunnelReason.NO_SUCH_NAME, "why")
        return Resolved((OUTSIDE[len(asked)],), frozenset())

    async def act() -> None:
        found = await pin(find, ("a", "b", "c"))
        for name in ("a", "b", "a"):
            assert (await found.find(name)) is found.found[name]
        for _ in range(2):
            with pytest.raises(TunnelRefused) as refusal:
                await found.find("c")
            assert (refusal.value.reason, refusal.value.detail) == (
                TunnelReason.NO_SUCH_NAME,
                "why",
            )

    asyncio.run(act())
    assert sorted(asked) == ["a", "b", "c"]


def test_what_may_be_dialled_is_of_names_of_which_all_may_be() -> None:
    found = pinned(
        good=(OUTSIDE[1], OUTSIDE[0]),
        mixed=(OUTSIDE[2], INSIDE),
        own=(OWN,),
        none=(),
        refused=TunnelRefused(TunnelReason.RESOLVER_SILENT),
    )
    assert found.addresses((OWN,)) == OUTSIDE[:2]
    assert OWN in found.addresses(()), "control: on another machine it may"
    many = pinned(many=OUTSIDE).addresses(())
    assert many == OUTSIDE[:MAX_DIALLED], "no more than are ever dialled"


class Socket:
    """A socket whose kernel answers as the test says."""

    def __init__(self, error: int | None) -> None:
        self._error = error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def settimeout(self, _: float) -> None:
        pass

    def connect(self, _: object) -> None:
        if self._error is not None:
            raise OSError(self._error, "as the kernel says")

    def send(self, _: bytes) -> None:
        pass


@pytest.mark.parametrize("answer", [None, errno.ECONNREFUSED, errno.ETIMEDOUT, errno.ENETUNREACH])
def test_a_kernel_that_does_not_refuse_ends_the_proxy(
    answer: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for refused in resolver.REFUSED:
        monkeypatch.setattr(socket, "socket", lambda *_, error=refused: Socket(error))
        resolver.refuse_unheld()  # control: refused by the filter, it goes on
    monkeypatch.setattr(socket, "socket", lambda *_: Socket(answer))
    with pytest.raises(ProtocolBroken, match="the kernel does not hold this proxy: port 443"):
        resolver.refuse_unheld()
