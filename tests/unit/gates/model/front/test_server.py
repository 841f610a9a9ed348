"""The front with a model that does what a test wants: turns, deadlines, clients that leave."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from threading import Event

import pytest

from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import ChatReply, ChatRequest, Served
from threegate.gates.model.front import server
from threegate.gates.model.front.server import Front, NoCompletion, Stuck, Tell, Unanswered
from threegate.gates.model.messages import ModelProgress
from threegate.sandbox.channel import CHUNK, END, HEADER, MAX_CHUNK_BYTES, NOTE, frames

ASKED = frames(ChatRequest((("user", "x"),), 5).to_bytes())


class Scripted:
    """A model that acts as it is told, and remembers how many worked at once."""

    served = Served("m", None, 100)

    def __init__(self, act: Callable[[Event], str]) -> None:
        self._act = act
        self.working = self.most = self.begun = 0
        self.at_work = Event()

    def complete(self, request: ChatRequest, stop: Event, tell: Tell) -> ChatReply:
        self.working += 1
        self.begun += 1
        self.most = max(self.most, self.working)
        self.at_work.set()
        try:
            tell(ModelProgress("reply", 1, request.max_tokens))
            return ChatReply(Untrusted(self._act(stop)), "stop", 1, 1, "m")
        finally:
            self.working -= 1


def until_stopped(stop: Event) -> str:
    stop.wait(30)
    return "stopped"


def refuses(_stop: Event) -> str:
    raise NoCompletion(Unanswered.NO_GRAMMAR)


Connect = Callable[[], Awaitable[tuple[socket.socket, "asyncio.Task[None]"]]]
Scene = Callable[[Connect], Awaitable[None]]


def played(model: Scripted, scene: Scene, *, deadline: float = 30) -> list[ModelProgress]:
    """Play a scene with a front; `connect` gives a client and the front's work for it."""
    told: list[ModelProgress] = []

    async def play() -> None:
        tasks: list[asyncio.Task[None]] = []
        front = Front(model, deadline_seconds=deadline, tell=told.append)

        async def connect() -> tuple[socket.socket, asyncio.Task[None]]:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            ends = await asyncio.open_connection(sock=theirs)
            tasks.append(asyncio.create_task(front.serve(ends)))
            return ours, tasks[-1]

        await scene(connect)
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(play(), 60))
    return told


async def answer(sock: socket.socket) -> bytes:
    data = b""
    while piece := await asyncio.get_running_loop().sock_recv(sock, 65536):
        data += piece
    sock.close()
    return data


def test_one_works_the_others_wait_and_all_are_answered() -> None:
    model = Scripted(lambda _: "fine")

    async def scene(connect: Connect) -> None:
        clients = [(await connect())[0] for _ in range(5)]
        for client in clients:
            client.send(ASKED)
        answers = await asyncio.gather(*map(answer, clients))
        assert all(b"fine" in found for found in answers)

    told = played(model, scene)
    assert (model.begun, model.most, len(told)) == (5, 1, 5)


def test_a_refusal_of_the_model_is_told_with_its_code() -> None:
    async def scene(connect: Connect) -> None:
        client, _ = await connect()
        client.send(ASKED)
        assert b"TG-MDL-007" in await answer(client)

    played(Scripted(refuses), scene)


def test_the_deadline_stops_the_work_and_is_told() -> None:
    model = Scripted(until_stopped)

    async def scene(connect: Connect) -> None:
        client, _ = await connect()
        client.send(ASKED)
        assert b"TG-MDL-008" in await answer(client)

    played(model, scene, deadline=2)  # time enough to begin
    assert (model.begun, model.working) == (1, 0)


@pytest.mark.parametrize("queued", [False, True])
def test_the_work_for_whoever_leaves_stops_or_never_begins(queued: bool) -> None:
    model = Scripted(until_stopped)

    async def scene(connect: Connect) -> None:
        first, work = await connect()
        first.send(ASKED)
        await asyncio.to_thread(model.at_work.wait, 30)
        if queued:
            second, waiting = await connect()
            second.send(ASKED)
            await asyncio.sleep(0.05)
            second.close()
            await waiting
            assert (model.working, model.begun) == (1, 1), "the first goes on"
        first.close()
        await work
        assert model.working == 0

    played(model, scene)


def test_a_model_that_does_not_stop_ends_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STOP_SECONDS", 0.1)
    over = Event()

    async def scene(connect: Connect) -> None:
        client, work = await connect()
        client.send(ASKED)
        with pytest.raises(Stuck):
            await work
        client.close()
        over.set()

    played(Scripted(lambda _: str(over.wait(30))), scene, deadline=0.1)


@pytest.mark.parametrize("sent", [b"", ASKED[:3], ASKED[:-1]])
def test_a_client_that_sends_no_more_is_told_so(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.1)
    model = Scripted(lambda _: "fine")

    async def scene(connect: Connect) -> None:
        client, _ = await connect()
        client.send(sent)
        assert b"TG-MDL-004" in await answer(client)

    played(model, scene)
    assert model.begun == 0


def test_a_client_that_does_not_read_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "WRITE_SECONDS", 0.1)

    async def scene(connect: Connect) -> None:
        client, work = await connect()
        client.send(ASKED)
        await work
        client.close()

    played(Scripted(lambda _: "x" * 1_000_000), scene)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (ASKED + ASKED, "TG-MDL-001"),
        (ASKED + b"\x01", "TG-MDL-001"),
        (frames(b""), "TG-MDL-001"),
        (frames(b'{"max_tokens":5}'), "TG-MDL-001"),
        (HEADER.pack(NOTE, 1) + b"x", "TG-MDL-001"),
        (HEADER.pack(END, 1) + b"x", "TG-MDL-001"),
        (HEADER.pack(CHUNK, MAX_CHUNK_BYTES + 1), "TG-MDL-001"),
        (b"POST /v1/chat/completions HTTP/1.1\r\n\r\n", "TG-MDL-001"),
        (b"\r\n", "TG-MDL-001"),
        (frames(b"x" * 1001), "TG-MDL-003"),
    ],
)
def test_every_other_form_of_request_is_refused(
    sent: bytes, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CHAT_BYTES", 1000)
    model = Scripted(lambda _: "fine")

    async def scene(connect: Connect) -> None:
        client, _ = await connect()
        client.send(ASKED)
        assert b"fine" in await answer(client), "control"
        client, _ = await connect()
        client.send(sent)
        told = await answer(client)
        assert code.encode() in told
        assert b"completions" not in told, "no word of the client"

    played(model, scene)
    assert model.begun == 1


def test_a_second_request_while_the_first_is_worked_on_is_refused() -> None:
    model = Scripted(until_stopped)

    async def scene(connect: Connect) -> None:
        client, _ = await connect()
        client.send(ASKED)
        await asyncio.to_thread(model.at_work.wait, 30)
        client.send(ASKED)
        assert b"TG-MDL-001" in await answer(client)

    played(model, scene)
