"""The side of a model that CORE sees: one request per connection, one reply at a time.

A client sends one framed message, waits for its turn and receives one framed message.  If it
hangs up, the work for it stops.  Work that does not stop when it is told to ends the process:
a model that hangs must not look like one that thinks.

SECURITY
    Serves CORE, which may be owned, within bounds of size, time and number.  If this module is
    wrong, CORE can stop its own model.  From the host it reads one opening and then only the
    end.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from threading import Event
from typing import Any, Final, Protocol, TypeVar

from threegate.base.errors import ProtocolBroken
from threegate.base.messages import MessageParser
from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat.messages import (
    MAX_CHAT_BYTES,
    ChatRefused,
    ChatReply,
    ChatRequest,
    Served,
    parse_request,
)
from threegate.gates.model.messages import GREETING, Bridged, Embedded, ModelProgress, Remote, ready
from threegate.sandbox import payload
from threegate.sandbox.channel import (
    ChannelBroken,
    MessageReader,
    MessageTooLong,
    frames,
    read_message,
    write_message,
    write_note,
)
from threegate.sandbox.payload import ANSWERS_FD, EX_UNAVAILABLE


class Unanswered(Enum):
    """Why a request gets no reply: code and sentence."""

    MALFORMED = "TG-MDL-001", "not a request of this server"
    TOO_LARGE = "TG-MDL-003", "the request is too large"
    TOO_SLOW = "TG-MDL-004", "the request did not come in time"
    BUSY = "TG-MDL-005", "too many requests at once"
    TOO_LONG = "TG-MDL-006", "the prompt does not fit into the context"
    NO_GRAMMAR = "TG-MDL-007", "the grammar cannot be read"
    DEADLINE = "TG-MDL-008", "no reply within the time for one request"
    FAILED = "TG-MDL-009", "the model failed"
    UNREACHABLE = "TG-MDL-010", "the server behind the bridge does not answer"
    FOREIGN = "TG-MDL-011", "the answer of the server behind the bridge is not a completion"
    FOREIGN_TOO_LARGE = "TG-MDL-012", "the server behind the bridge said too much"
    FOREIGN_STATUS = "TG-MDL-013", "the server behind the bridge refused the request"
    OTHER_MODEL = "TG-MDL-014", "another model than the policy names"
    OTHER_FILE = "TG-MDL-015", "the model file is not the one the policy names"
    NOT_LOADED = "TG-MDL-016", "the model file cannot be loaded"
    SPENT = "TG-MDL-017", "the question may send no more to the remote machine"
    REPEATED = "TG-MDL-018", "the remote machine repeats the key it was sent"


class NoCompletion(Exception):
    """A request that gets no reply; `detail` is our own text."""

    def __init__(self, why: Unanswered, detail: str = "") -> None:
        self.code, sentence = why.value
        self.sentence = f"{sentence}: {detail}" if detail else sentence
        super().__init__(self.sentence)

    def body(self) -> bytes:
        """Return the message for the client."""
        return ChatRefused(self.code, self.sentence).to_bytes()


# The server.

MAX_CLIENTS: Final = 8  # one works, the others wait
REQUEST_SECONDS: Final = 30.0
WRITE_SECONDS: Final = 30.0
STOP_SECONDS: Final = 120.0  # the longest single step of a model: one batch of a prompt

_PIECE: Final = 64 * 1024

Tell = Callable[[ModelProgress], None]
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class CompletionModel(Protocol):
    """A model that writes replies; `complete` runs in its own thread and looks at `stop`."""

    @property
    def served(self) -> Served:
        """Which model this is."""

    def complete(self, request: ChatRequest, stop: Event, tell: Tell) -> ChatReply:
        """Return the reply; raise `NoCompletion`."""


class ClientGone(Exception):
    """The client does not wait for its reply any more."""


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
        """Serve one client, and wait until the work for it has stopped; raise `Stuck`."""
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
            pass  # the client does not read
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
        """Give the turn to the next client when the work has stopped."""
        try:
            if not work.done():
                await asyncio.wait([work], timeout=STOP_SECONDS)
            if not work.done():
                raise Stuck
            work.exception()  # mark it as seen: the client was told, or has gone
        finally:
            self._turn.release()


@dataclass(slots=True)
class _Client:
    """One client, and the work for it that is being stopped."""

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


# The program: from the host's opening to its end, the same for every model.

OPENING_FD: Final = 0

Opening = Embedded | Bridged | Remote
First = TypeVar("First", Embedded, Bridged, Remote)
Opened = tuple[CompletionModel, Mapping[str, str]]


def run(parse: MessageParser[First], opened: Callable[[First], Opened]) -> None:
    """Open the model that the host names and serve it until the host hangs up; never returns.

    It ends without the interpreter's own shutdown, which would wait for a model that hangs.
    """
    payload.serve_abruptly(lambda: _run(parse, opened))


def _run(parse: MessageParser[First], opened: Callable[[First], Opened]) -> int:
    message = read_message(OPENING_FD, parse.most_bytes)
    if message is None:
        return 0  # the host changed its mind
    opening = parse(Untrusted(message))
    try:
        model, versions = opened(opening)
    except NoCompletion as refused:
        answer = GREETING.refused(refused.code, refused.sentence)
        write_message(ANSWERS_FD, answer.to_bytes())
        return EX_UNAVAILABLE
    write_message(ANSWERS_FD, ready(model.served, versions).to_bytes())
    asyncio.run(_Listening(model, opening).until_hung_up())
    return 0


class _Listening:
    def __init__(self, model: CompletionModel, opening: Opening) -> None:
        self._model, self._opening = model, opening
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None]

    async def until_hung_up(self) -> None:
        """Return when the host hangs up; raise any error that ends the process."""
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        loop.add_reader(OPENING_FD, self._heard)
        listening = socket.socket(fileno=self._opening.listen_fd)
        listening.setblocking(False)  # noqa: FBT003
        seconds = self._opening.deadline_seconds
        front = Front(self._model, deadline_seconds=seconds, tell=tell)
        self._start(self._accept(front, listening))
        await self._over

    async def _accept(self, front: Front, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sock, _ = await loop.sock_accept(listening)
            client = await asyncio.open_connection(sock=sock)
            self._start(front.serve(client))

    def _heard(self) -> None:
        if os.read(OPENING_FD, 1):
            self._end(ProtocolBroken("the host has no more to say"))
        elif not self._over.done():
            self._over.set_result(None)

    def _end(self, exc: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(exc)

    def _start(self, act: Any) -> None:
        task = asyncio.get_running_loop().create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            self._end(exc)  # a model that hangs, or a bug: stop


def tell(progress: ModelProgress) -> None:
    """Write one note to the host."""
    write_note(ANSWERS_FD, progress.to_bytes())
