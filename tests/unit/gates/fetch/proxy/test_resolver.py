"""Name servers that answer, fail or say nothing, on loopback."""

import asyncio
import errno
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from typing import Any, Self

import pytest

from threegate.base.errors import ProtocolBroken
from threegate.gates.fetch.proxy import resolver
from threegate.gates.fetch.proxy.request import TunnelReason, TunnelRefused
from threegate.gates.fetch.proxy.resolver import MAX_DIALLED, Pinned, Resolved, Resolver, pin

NAME = "api.crossref.org"
PROBE = b"\x08ipv4only"
SERVFAIL, NXDOMAIN = 0x8182, 0x8183
Answer = Callable[[bytes], bytes | None]
Answered = Callable[[bytes], bytes]


def failing(flags: int) -> Answered:
    return lambda query: query[:2] + struct.pack(">HHHHH", flags, 1, 0, 0, 0) + query[12:]


def addressed(query: bytes) -> bytes:
    """Answer a question for an IPv4 address; there are no others."""
    head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
    if query[-4:-2] != b"\x00\x01":
        return failing(0x8180)(query)
    return head + query[12:] + b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + b"\x01\x01\x01\x01"


def silent(_: bytes) -> None:
    return None


def probe_alone(query: bytes) -> bytes | None:
    return failing(NXDOMAIN)(query) if PROBE in query else None


@contextmanager
def serving(
    loop: asyncio.AbstractEventLoop, address: str, port: int, answer: Answer
) -> Iterator[None]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, port))
        sock.setblocking(False)

        def heard() -> None:
            query, client = sock.recvfrom(512)
            said = answer(query)
            if said is not None:
                sock.sendto(said, client)

        loop.add_reader(sock, heard)
        try:
            yield
        finally:
            loop.remove_reader(sock)


def find(monkeypatch: pytest.MonkeyPatch, *answers: Answer | None) -> Resolved:
    """Ask one server for each answer, in this order; None: nobody listens there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    monkeypatch.setattr(resolver, "RESOLVER_PORT", port)

    async def act() -> Resolved:
        servers = [f"127.0.0.{number + 1}" for number in range(len(answers))]
        with ExitStack() as stack:
            for server, answer in zip(servers, answers, strict=True):
                if answer is not None:
                    loop = asyncio.get_running_loop()
                    stack.enter_context(serving(loop, server, port, answer))
            return await Resolver(tuple(servers)).find(NAME)

    return asyncio.run(act())


@pytest.mark.parametrize(
    "answers", [(addressed,), (None, addressed), (silent, addressed)], ids=["one", "dead", "silent"]
)
def test_the_first_server_that_answers_is_believed(
    monkeypatch: pytest.MonkeyPatch, answers: tuple[Answer | None, ...]
) -> None:
    assert [str(one) for one in find(monkeypatch, *answers).addresses] == ["1.1.1.1"]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((), TunnelReason.NO_NETWORK),
        ((None, None), TunnelReason.NO_NETWORK),
        ((silent,), TunnelReason.NO_NETWORK),
        ((failing(SERVFAIL),), TunnelReason.NO_NETWORK),
        ((probe_alone,), TunnelReason.RESOLVER_SILENT),  # slow with this name, but there
        ((failing(NXDOMAIN),), TunnelReason.NO_SUCH_NAME),
    ],
)
# claim TG-C-473
def test_no_network_is_told_from_a_name_that_fails(
    monkeypatch: pytest.MonkeyPatch, answers: tuple[Answer | None, ...], reason: TunnelReason
) -> None:
    with pytest.raises(TunnelRefused) as refused:
        find(monkeypatch, *answers)
    assert refused.value.reason == reason


# Names that are asked for once, and what of them may be dialled.

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
