"""HTTP on one socket: h11 reads and writes the protocol; sizes, times and peers are checked here.

Every account of a machine can reach its loopback, so the kernel is asked who owns the other end.

SECURITY
    Reads bytes of any local process, before its owner is known.  Sizes, times and the number
    of connections are bounded.  A request that h11 does not understand ends the connection.  A
    peer whose owner the kernel does not name counts as another user.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

import h11

from threegate.console.access import HEADERS, POLICY
from threegate.console.messages import (
    MAX_BODY_BYTES,
    BodyTooLong,
    Malformed,
    Request,
    Response,
    plain,
    read_request,
)
from threegate.policy.leaves import BYTES

# -- the owner of the other end ----------------------------------------------------------


_TABLE: Final = Path("/proc/net/tcp")
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9  # columns
_NOBODY: Final = "0"  # inode of a closed end; the kernel then reports uid 0 for any owner


def is_ours(connection: socket.socket) -> bool:
    """Tell whether the other end is a process of the user who runs the console."""
    return uid_of(connection) == os.geteuid()


def uid_of(connection: socket.socket) -> int | None:
    """Return the owner of the other end, None if the kernel does not say."""
    if connection.family == socket.AF_UNIX:
        size = struct.calcsize("3i")
        # The kernel filled these in at connect(2); the peer cannot forge them.
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        return int(struct.unpack("3i", found)[1])
    try:
        here, there = connection.getsockname(), connection.getpeername()
    except OSError:  # it broke off already
        return None
    # TCP has no SO_PEERCRED: the owner is in the kernel's table of connections.
    return uid_in(_TABLE.read_text("ascii"), near=there, far=here)


def uid_in(table: str, *, near: tuple[str, int], far: tuple[str, int]) -> int | None:
    """Return the owner of the end `near` of a connection in the kernel's table."""
    wanted = (_spelled(near), _spelled(far))
    for line in table.splitlines()[1:]:
        columns = line.split()
        if (columns[_LOCAL], columns[_REMOTE]) == wanted:
            return int(columns[_UID]) if columns[_INODE] != _NOBODY else None
    return None


def _spelled(end: tuple[str, int]) -> str:
    """Return an end as the table spells it: the address as a number of this machine's order."""
    (number,) = struct.unpack("=I", socket.inet_aton(end[0]))
    return f"{number:08X}:{end[1]:04X}"


MAX_HEAD_BYTES: Final = 16 * 1024
MAX_CONNECTIONS: Final = 64
REQUEST_SECONDS: Final = 15.0  # of its head, from the first byte on, and of its body
UPLOAD_SECONDS: Final = 120.0  # of the body of a form with files
MAX_UPLOADS: Final = 2  # at once
LINGER_SECONDS: Final = 15.0  # a browser reads the answer only after it has sent everything
IDLE_SECONDS: Final = 75.0
SEND_SECONDS: Final = 30.0
_READ_BYTES: Final = 64 * 1024
TOO_MANY, OTHER_USER = "too many", "another user"  # why a connection is not listened to

Answer = Callable[[Request], Awaitable[Response]]
Room = Callable[[Request], Awaitable[int]]  # how many bytes may follow a head


class ConsoleServer:
    """Listens on one socket and hands each request to `answer`, if there is `room` for it."""

    def __init__(self, answer: Answer, room: Room, refused: Callable[[str], None]) -> None:
        self._answer, self._room, self._refused = answer, room, refused
        self._uploads = asyncio.Semaphore(MAX_UPLOADS)
        self._open: dict[asyncio.Task[None], _Conversation] = {}

    async def serve(self, listening: socket.socket, stop: asyncio.Event) -> None:
        """Serve until `stop`; requests under way are still answered."""
        server = await asyncio.start_server(
            self._connected, sock=listening, limit=MAX_HEAD_BYTES, backlog=MAX_CONNECTIONS
        )
        async with server:
            await stop.wait()
            server.close()
            for task, conversation in list(self._open.items()):
                conversation.ending = True  # otherwise a keep-alive connection would delay the end
                if not conversation.answering:
                    task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return len(self._open)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = writer.get_extra_info("socket")
        # Before the first byte is read: another account gets no parser to attack.
        if len(self._open) >= MAX_CONNECTIONS or not is_ours(connection):
            self._refused(TOO_MANY if len(self._open) >= MAX_CONNECTIONS else OTHER_USER)
            writer.transport.abort()
            return
        self._open[task] = conversation = _Conversation(reader, writer, self._room, self._uploads)
        try:
            with suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
                await conversation.run(self._answer)
        finally:
            del self._open[task]
            writer.close()
            with suppress(ConnectionError, TimeoutError):
                await writer.wait_closed()


class _Conversation:
    """One connection, one request after the other."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        room: Room,
        uploads: asyncio.Semaphore,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._room, self._uploads = room, uploads
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.answering = self.ending = False

    async def run(self, answer: Answer) -> None:
        while True:
            try:
                request = await self._request()
            except (h11.RemoteProtocolError, Malformed) as exc:
                await self._refuse(exc)
                return
            if request is None:
                return
            self.answering = True
            await self._send(await answer(request), request.method)
            self.answering = False
            if self.ending:
                return
            # An unread rest would be parsed as the next request (request smuggling).
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _request(self) -> Request | None:
        """Return the next request, None if there is none any more."""
        async with asyncio.timeout(IDLE_SECONDS):
            await self._begun()
        async with asyncio.timeout(REQUEST_SECONDS):
            first = await self._event()
        if not isinstance(first, h11.Request):
            return None
        head = read_request(first.method, first.target, list(first.headers))
        most = await self._room(head)
        # By the announced length, before memory is spent on the body.
        if int(head.headers.get("content-length", 0)) > most:
            raise BodyTooLong(f"it is longer than {BYTES.show(most)}")
        if most <= MAX_BODY_BYTES:
            body = await self._body(most, REQUEST_SECONDS)
        elif self._uploads.locked():
            raise Malformed("other files are being sent, wait for those")
        else:
            async with self._uploads:
                body = await self._body(most, UPLOAD_SECONDS)
        return None if body is None else replace(head, body=body)

    async def _body(self, most: int, seconds: float) -> bytes | None:
        """Return the body, None if it breaks off; at most `most` bytes are kept."""
        body = bytearray()
        async with asyncio.timeout(seconds):
            while isinstance(event := await self._event(), h11.Data):
                body += event.data
                # A chunked body announces no length.
                if len(body) > most:
                    raise BodyTooLong(f"it is longer than {BYTES.show(most)}")
        return bytes(body) if isinstance(event, h11.EndOfMessage) else None

    async def _begun(self) -> None:
        """Wait for the first byte of a request, unless it came with the last one."""
        if not self._http.trailing_data[0]:
            self._http.receive_data(await self._reader.read(_READ_BYTES))

    async def _event(self) -> object:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._http.they_are_waiting_for_100_continue:
                raise Malformed("it waits for `100 Continue`, which is not sent")
            self._http.receive_data(await self._reader.read(_READ_BYTES))

    async def _refuse(self, exc: Exception) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        words = str(exc) if isinstance(exc, Malformed) else "it is not HTTP"
        status = exc.status if isinstance(exc, Malformed) else HTTPStatus.BAD_REQUEST
        await self._send(plain(status, f"not answered: {words}"), "GET", close=True)
        if isinstance(exc, Malformed):
            await self._linger()

    async def _linger(self) -> None:
        """Discard the rest of the body for a while: otherwise a reset would drop our answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._reader.read(_READ_BYTES):
                    pass

    async def _send(self, response: Response, method: str, *, close: bool = False) -> None:
        policy = ("Content-Security-Policy", response.policy or POLICY)
        headers = [policy, *HEADERS, ("Content-Type", response.kind), *response.headers]
        if response.stream is None:
            headers.append(("Content-Length", str(len(response.body))))
        if close:
            headers.append(("Connection", "close"))
        head = self._http.send(h11.Response(status_code=response.status, headers=headers)) or b""
        if response.stream is not None and method == "GET":
            await self._write(head)
            async for piece in response.stream:
                await self._write(self._http.send(h11.Data(data=piece)))
        elif response.body:
            # In one write: without TCP_NODELAY the body would wait until the head is acknowledged.
            await self._write(head + (self._http.send(h11.Data(data=response.body)) or b""))
        else:
            await self._write(head)
        await self._write(self._http.send(h11.EndOfMessage()))

    async def _write(self, data: bytes | None) -> None:
        if data:
            self._writer.write(data)
            async with asyncio.timeout(SEND_SECONDS):
                await self._writer.drain()
