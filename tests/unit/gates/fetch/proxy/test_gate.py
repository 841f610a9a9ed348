"""Whom the proxy sees at a time, and what ends it: rules it cannot read, and any error."""

import asyncio
import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.proxies import bundle
from threegate.gates.fetch.proxy import gate
from threegate.gates.fetch.proxy.gate import REFUSED_SECONDS
from threegate.gates.fetch.proxy.messages import InForce, ProxyRules
from threegate.sandbox import payload
from threegate.sandbox.channel import HEADER, frames

SECONDS = 60.0
BUNDLE = bundle()
IN_FORCE = frames(InForce(BUNDLE.generation, BUNDLE.digest).to_bytes())
_START = """
import os; os.dup2(1, 3); os.dup2(2, 1)
import {0} as gate
gate._resolvers = lambda: ("192.0.2.1",)
{1}
gate.serve()
"""
_BROKEN = """
def parse_bundle(_):
    raise RuntimeError("what the rules say")
gate.parse_bundle = parse_bundle
"""


@pytest.fixture
def fd() -> Iterator[int]:
    """Return a socket as the host hands it over."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("")
        sock.listen()
        number = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD, 10)
        yield number
        os.close(number)


def served(
    data: bytes, fd: int, before: str = "", *, later: bytes | None = None
) -> tuple[int, bytes, bytes]:
    """Return how a proxy ended, what it said, and what it wrote elsewhere.

    Without `later` the host hangs up.  Else it says that once the first rules are in force, and
    stays: then the proxy ends by itself.
    """
    command = [sys.executable, "-c", _START.format(gate.__name__, before)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=(fd,)) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(data)
        process.stdin.flush()
        said = b"" if later is None else process.stdout.read(len(IN_FORCE))
        if later is None:
            process.stdin.close()
        else:
            process.stdin.write(later)
            process.stdin.flush()
        process.wait(SECONDS)
        return process.returncode, said + process.stdout.read(), process.stderr.read()


def rules(fd: int) -> bytes:
    return frames(ProxyRules(BUNDLE.bundle_bytes(), fd, ()).to_bytes())


@pytest.mark.parametrize("data", [frames(b"{}"), b"\xff" * 100, HEADER.pack(9, 1) + b"x"])
def test_rules_that_cannot_be_read_end_it(data: bytes, fd: int) -> None:
    assert served(rules(fd), fd) == (os.EX_OK, IN_FORCE, b""), "control"
    assert served(data, fd) == (payload.EX_PROTOCOL, b"", b"")
    later = served(rules(fd), fd, later=data)
    assert later == (payload.EX_PROTOCOL, IN_FORCE, b""), "the old ones do not go on"


def test_an_error_nobody_thought_of_ends_it_without_a_word(fd: int) -> None:
    assert served(rules(fd), fd) == (os.EX_OK, IN_FORCE, b""), "control"
    assert served(rules(fd), fd, _BROKEN) == (payload.EX_SOFTWARE, b"", b"")


def test_whoever_cannot_serve_does_not_stay(fd: int) -> None:
    """An error beside the rules, here of a socket that does not listen, is no less an end."""
    assert served(rules(fd), fd) == (os.EX_OK, IN_FORCE, b""), "control"
    with socket.socket(socket.AF_UNIX) as deaf:
        number = fcntl.fcntl(deaf.fileno(), fcntl.F_DUPFD, 10)
        try:
            ended = served(rules(number), number, later=b"")
        finally:
            os.close(number)
    assert ended == (payload.EX_SOFTWARE, IN_FORCE, b"")


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
