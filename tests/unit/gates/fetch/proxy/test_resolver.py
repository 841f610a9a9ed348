"""Name servers that answer, fail or say nothing, on loopback."""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from threegate.gates.fetch.proxy import resolver
from threegate.gates.fetch.proxy.request import TunnelReason, TunnelRefused
from threegate.gates.fetch.proxy.resolver import Resolved, Resolver

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
