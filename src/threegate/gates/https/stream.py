"""Bytes of one connection, never more of them and never for longer than allowed.

SECURITY
    Reads bytes of web servers.  Each wait is bounded by what is left of the whole question's
    time: a server that sends a byte now and then gains nothing.
"""

import socket
import ssl
import time
from collections.abc import Callable

from threegate.gates.https.heads import END, Head, parse_head
from threegate.gates.https.limits import MAX_INTERIM, PIECE_BYTES, SLICE_SECONDS
from threegate.gates.https.refused import NotRetrieved, Stale, Why


class Deadline:
    """When a question must be answered, over all its hops."""

    def __init__(self, seconds: float, stopped: Callable[[], bool] = lambda: False) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds
        self._stopped = stopped

    def left(self) -> float:
        """Return the seconds left, or raise `NotRetrieved`."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.over()
        if self._stopped():
            raise NotRetrieved(Why.DEADLINE, "nobody waits for the answer any more")
        return left

    def slice(self) -> float:
        """Return how long to wait before looking up again, or raise `NotRetrieved`."""
        return min(self.left(), SLICE_SECONDS)

    def over(self) -> NotRetrieved:
        """Return the refusal for time that is up."""
        return NotRetrieved(
            Why.DEADLINE, f"no whole answer within {round(self._seconds, 1):g} seconds"
        )


class Stream:
    """What comes over a socket, held until somebody takes it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received = 0
        self._held = bytearray()

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing came that nobody asked for."""
        more = isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()
        return not self._held and not more

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of `data`; raises `Stale` if nobody is there."""
        view = memoryview(data)
        while view:
            self.sock.settimeout(deadline.slice())
            try:
                view = view[self.sock.send(view[:PIECE_BYTES]) :]
            except TimeoutError:
                continue
            except OSError as exc:
                raise Stale from exc

    def more(self, deadline: Deadline) -> bool:
        """Wait for bytes; False if the other side has ended well, `Stale` if it broke off."""
        data = self._received_piece(deadline)
        if not data:  # the proxy ends tunnels by the same clock; whose time is up is ours to say
            deadline.left()
        self._held += data
        self.received += len(data)
        return bool(data)

    def _received_piece(self, deadline: Deadline) -> bytes:
        while True:
            self.sock.settimeout(deadline.slice())
            try:
                return self.sock.recv(PIECE_BYTES)
            except TimeoutError:
                continue
            except OSError as exc:  # also TLS that ends without saying so
                deadline.left()
                raise Stale from exc

    def take(self, most: int) -> bytes:
        """Return what is there, at most `most` bytes."""
        piece = bytes(memoryview(self._held)[:most])
        del self._held[: len(piece)]
        return piece

    def line(self, end: bytes, most: int, deadline: Deadline) -> bytes | None:
        """Return what stands before `end`; None if it does not come within `most` bytes."""
        start = 0
        while (at := self._held.find(end, start, most)) < 0:
            if len(self._held) >= most:
                return None
            start = max(0, len(self._held) - len(end) + 1)
            if not self.more(deadline):
                raise Stale
        piece = self.take(at)
        self.take(len(end))
        return piece

    def head(self, most: int, deadline: Deadline) -> Head:
        """Return the head of the next answer; what servers say in between counts as well."""
        for _ in range(MAX_INTERIM + 1):
            raw = self.line(END, most, deadline)
            if raw is None:
                break
            most -= len(raw) + len(END)
            head = parse_head(raw)
            if head.status >= 200:
                return head
            if head.status == 101:
                raise NotRetrieved(Why.ANSWER, "the server wants to speak another protocol")
        message = "the answer's headers are longer than policy allows"
        raise NotRetrieved(Why.ANSWER, message)

    def close(self) -> None:
        """Be done with it; without a word, because nobody has to hear one."""
        self.sock.close()
