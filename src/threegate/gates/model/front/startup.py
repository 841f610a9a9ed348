"""From the host's opening to its hanging up: what every box that serves a model does.

SECURITY
    Reads what the host sends, once.  After that it listens to the host for one thing only,
    the end.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from threegate.base.errors import ProtocolBroken
from threegate.base.limits import MAX_HEADER_BYTES
from threegate.base.untrusted import Untrusted
from threegate.gates.model import messages as protocol
from threegate.gates.model.front.refused import NoCompletion
from threegate.gates.model.front.server import CompletionModel, Front
from threegate.gates.model.messages import Bridged, Embedded, Progress, Ready, Remote
from threegate.sandbox import payload
from threegate.sandbox.channel import read_message, write_message, write_note
from threegate.sandbox.payload import ANSWERS_FD, EX_UNAVAILABLE

OPENING_FD: Final = 0

Opening = Embedded | Bridged | Remote
Opened = tuple[CompletionModel, Mapping[str, str]]


def run(
    parse: Callable[[Untrusted[bytes]], Any],
    opened: Callable[[Any], Opened],
    most_bytes: int = MAX_HEADER_BYTES,
) -> None:
    """Open a model as the host says and serve it until the host hangs up; never returns.

    It ends without the interpreter's own end, which would wait for a model that hangs.
    """
    payload.serve_abruptly(lambda: _run(parse, opened, most_bytes))


def _run(
    parse: Callable[[Untrusted[bytes]], Any], opened: Callable[[Any], Opened], most_bytes: int
) -> int:
    message = read_message(OPENING_FD, most_bytes)
    if message is None:
        return 0  # the host changed its mind
    opening: Opening = parse(Untrusted(message))
    try:
        model, versions = opened(opening)
    except NoCompletion as refused:
        answer = protocol.Refused(refused.code, refused.sentence)
        write_message(ANSWERS_FD, answer.to_bytes())
        return EX_UNAVAILABLE
    write_message(ANSWERS_FD, Ready(model.served, versions).to_bytes())
    asyncio.run(_Listening(model, opening).until_hung_up())
    return 0


class _Listening:
    def __init__(self, model: CompletionModel, opening: Opening) -> None:
        self._model, self._opening = model, opening
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None]

    async def until_hung_up(self) -> None:
        """Return when the host hangs up; raise what ends the box otherwise."""
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
            self._end(exc)  # a model that hangs, or a bug: nothing goes on


def tell(progress: Progress) -> None:
    """Write one note to the host."""
    write_note(ANSWERS_FD, progress.to_bytes())
