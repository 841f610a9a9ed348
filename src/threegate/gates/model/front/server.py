"""The side that CORE sees: one request per connection, one reply at a time, everything bounded.

A client sends one framed message, waits for its turn and receives one framed message.  If it
hangs up, the work for it stops.  Work that does not stop when it is told to ends the process:
a model that hangs must not look like one that thinks.

SECURITY
    Serves CORE, which may be owned.  If this module is wrong, CORE can stop its own model.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any, Final, Protocol

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import (
    MAX_CHAT_BYTES,
    ChatReply,
    ChatRequest,
    Served,
    parse_request,
)
from threegate.gates.model.front.refused import NoCompletion, Unanswered
from threegate.gates.model.messages import Progress
from threegate.sandbox.channel import ChannelBroken, MessageReader, MessageTooLong, frames

MAX_CLIENTS: Final = 8  # one works, the others wait
REQUEST_SECONDS: Final = 30.0
WRITE_SECONDS: Final = 30.0
STOP_SECONDS: Final = 120.0  # the longest single step of a model: one batch of a prompt

_PIECE: Final = 64 * 1024

Tell = Callable[[Progress], None]
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class CompletionModel(Protocol):
    """Whoever writes replies; `complete` runs in a thread of its own and looks at `stop`."""

    @property
    def served(self) -> Served:
        """Which model this is."""

    def complete(self, request: ChatRequest, stop: Event, tell: Tell) -> ChatReply:
        """Return the reply; raise `Refused`."""


class ClientGone(Exception):
    """Nobody waits for the reply any more."""


class Stuck(Exception):
    """The model did not stop when it was told to."""


class Front:
    """Serves the clients of one model."""

    def __init__(self, model: CompletionModel, *, deadline_seconds: float, tell: Tell) -> None:
        self._model, self._tell = model, tell
        self._deadline = deadline_seconds
        self._turn = asyncio.Lock()
        self._clients = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")

    async def serve(self, client: Ends) -> None:
        """See one client to its end, and the work for it; raise `Stuck`."""
        self._clients += 1
        case = _Client()
        try:
            try:
                answer = await self._answer(case, client[0])
            except NoCompletion as refused:
                answer = refused.body()
            async with asyncio.timeout(WRITE_SECONDS):
                client[1].write(frames(answer))
                await client[1].drain()
                client[1].close()
                await client[1].wait_closed()
        except (ClientGone, OSError, TimeoutError):
            pass  # whoever does not read need not be told
        finally:
            client[1].transport.abort()
            self._clients -= 1
        if case.stopping is not None:
            await case.stopping

    async def _answer(self, case: "_Client", reader: asyncio.StreamReader) -> bytes:
        if self._clients > MAX_CLIENTS:
            raise NoCompletion(Unanswered.BUSY)
        request = await _within(_request(reader), REQUEST_SECONDS)
        reply = await self._complete(case, reader, request)
        try:
            return reply.to_bytes()
        except ProtocolBroken as exc:
            raise NoCompletion(Unanswered.FAILED, "its reply is too long") from exc

    async def _complete(
        self, case: "_Client", reader: asyncio.StreamReader, request: ChatRequest
    ) -> ChatReply:
        end = asyncio.get_running_loop().time() + self._deadline
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await _unless_gone(asyncio.ensure_future(self._turn.acquire()), gone, end)
            return await self._work(case, request, gone, end)
        finally:
            gone.cancel()

    async def _work(
        self, case: "_Client", request: ChatRequest, gone: "asyncio.Future[bytes]", end: float
    ) -> ChatReply:
        stop, loop = Event(), asyncio.get_running_loop()
        work = loop.run_in_executor(self._thread, self._model.complete, request, stop, self._tell)
        try:
            reply: ChatReply = await _unless_gone(asyncio.shield(work), gone, end)
            return reply
        finally:
            stop.set()
            case.stopping = asyncio.create_task(self._stopped(work))

    async def _stopped(self, work: "asyncio.Future[ChatReply]") -> None:
        """Give the turn to the next one when the work has stopped; the client is told before."""
        try:
            if not work.done():
                await asyncio.wait([work], timeout=STOP_SECONDS)
            if not work.done():
                raise Stuck
            work.exception()  # it was told, or nobody waits for it
        finally:
            self._turn.release()


@dataclass(slots=True)
class _Client:
    """One client: the work for it that is being stopped."""

    stopping: "asyncio.Task[None] | None" = None


async def _unless_gone(
    act: "asyncio.Future[Any]", gone: "asyncio.Future[bytes]", end: float
) -> Any:
    left = end - asyncio.get_running_loop().time()
    done, _ = await asyncio.wait(
        [act, gone], timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED
    )
    if act in done:
        return act.result()
    act.cancel()
    if gone not in done:
        raise NoCompletion(Unanswered.DEADLINE)
    if gone.exception() is None and gone.result():
        raise NoCompletion(Unanswered.MALFORMED, "more than one request")
    raise ClientGone


async def _request(reader: asyncio.StreamReader) -> ChatRequest:
    messages = MessageReader(MAX_CHAT_BYTES)
    try:
        while not (found := messages.feed(await _piece(reader))):
            pass
    except MessageTooLong as exc:
        raise NoCompletion(Unanswered.TOO_LARGE, f"limit {MAX_CHAT_BYTES} bytes") from exc
    except ChannelBroken as exc:
        raise NoCompletion(Unanswered.MALFORMED, "not a frame") from exc
    if len(found) > 1 or messages.mid_message:
        raise NoCompletion(Unanswered.MALFORMED, "more than one request")
    try:
        return parse_request(Untrusted(found[0]))
    except ProtocolBroken as exc:
        raise NoCompletion(Unanswered.MALFORMED, exc.message) from exc


async def _piece(reader: asyncio.StreamReader) -> bytes:
    piece = await reader.read(_PIECE)
    if not piece:
        raise ClientGone
    return piece


async def _within(act: Any, seconds: float) -> Any:
    try:
        async with asyncio.timeout(seconds):
            return await act
    except TimeoutError as exc:
        raise NoCompletion(Unanswered.TOO_SLOW) from exc
