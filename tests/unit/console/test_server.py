"""How long a connection may take: for the head, for the body, and for saying nothing at all."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable

import pytest

from threegate.console import server as serving
from threegate.console.messages import MAX_BODY_BYTES, Request, Response

REQUEST_SECONDS, IDLE_SECONDS = 0.4, 2.4
BETWEEN_SECONDS = 1.4
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "REQUEST_SECONDS", REQUEST_SECONDS)
    monkeypatch.setattr(serving, "IDLE_SECONDS", IDLE_SECONDS)


async def _hello(_: Request) -> Response:
    return Response(body=b"hello", kind="text/plain")


async def _room(_: Request) -> int:
    return MAX_BODY_BYTES


def served(act: Callable[[Callable[[], Awaitable[Streams]]], Awaitable[None]]) -> list[str]:
    """Serve on loopback while `act` connects; return whom it turned away."""
    away: list[str] = []

    async def run() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        port, stop = listening.getsockname()[1], asyncio.Event()
        server = serving.ConsoleServer(_hello, _room, away.append)
        task = asyncio.create_task(server.serve(listening, stop))
        try:
            await act(lambda: asyncio.open_connection("127.0.0.1", port))
        finally:
            stop.set()
            await task

    asyncio.run(run())
    return away


async def closed_after(streams: Streams, data: bytes, drip: bytes = b"") -> tuple[float, bytes]:
    """Send something, then little by little more; return how long that was borne, and what came."""
    reader, writer = streams
    began = time.monotonic()
    writer.write(data)

    async def dripping() -> None:
        while drip:
            await asyncio.sleep(0.1)
            writer.write(drip)

    task = asyncio.create_task(dripping())
    try:
        answer = await reader.read()
    except ConnectionError:  # it was still being sent to
        answer = b""
    task.cancel()
    writer.close()
    return time.monotonic() - began, answer


# claim TG-C-219
def test_a_request_that_takes_too_long_ends_its_connection() -> None:
    async def act(connect: Callable[[], Awaitable[Streams]]) -> None:
        body = HEAD.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 99\r\n\r\n")
        tries = (
            closed_after(await connect(), b"GET / HTTP/1.1\r\nX: ", b"a"),
            closed_after(await connect(), body, b"a"),
            closed_after(await connect(), b"G"),
            closed_after(await connect(), b""),
            closed_after(await connect(), HEAD + HEAD[:9]),
        )
        *slow, silent, second = await asyncio.gather(*tries)
        for seconds, answer in slow:
            assert (seconds < BETWEEN_SECONDS, answer) == (True, b"")
        assert silent[0] > BETWEEN_SECONDS, "control: who has not begun may wait longer"
        assert second[1].startswith(b"HTTP/1.1 200"), "control: the first of two is answered"
        assert second[0] < BETWEEN_SECONDS, "and the half one is not waited for"

    assert served(act) == []


def test_whoever_answers_in_time_keeps_the_connection() -> None:
    async def act(connect: Callable[[], Awaitable[Streams]]) -> None:
        reader, writer = await connect()
        for _ in range(3):
            writer.write(HEAD)
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(REQUEST_SECONDS * 1.5)
        writer.write(HEAD + HEAD)
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200"), "two in one piece"
        writer.close()

    assert served(act) == []
