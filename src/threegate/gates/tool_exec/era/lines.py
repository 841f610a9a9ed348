"""What the gate hears from its machine: two byte streams, with one clock over both.

SECURITY
    Reads bytes of a guest and of an engine that may both be owned.  Nothing is kept beyond
    its bound, nothing waits beyond its deadline, and a write never waits for a reader that
    does not read.
"""

import os
import select
import time
from collections.abc import Callable
from typing import Final

PIECE_BYTES: Final = 64 * 1024


class Gone(Exception):
    """The other side closed its channel."""


class Late(Exception):
    """The deadline has passed."""


class Lines:
    """Two descriptors that are waited for together; whoever has bytes is called."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._takers: dict[int, Callable[[bytes], None]] = {}

    def listen(self, fd: int, take: Callable[[bytes], None]) -> None:
        """Call `take` with what comes from a descriptor; with nothing when it ends."""
        os.set_blocking(fd, False)
        self._takers[fd] = take
        self._poll.register(fd, select.POLLIN)

    def wait(self, deadline: float) -> None:
        """Wait until something came and was taken, or raise `Late`."""
        for fd, _ in self._poll.poll(_left_ms(deadline)):
            piece = _read(fd)
            if piece is None:
                continue
            if not piece:
                self._poll.unregister(fd)
            self._takers[fd](piece)

    def send(self, fd: int, data: bytes, deadline: float) -> None:
        """Write everything while listening, or raise `Late` or `Gone`."""
        left = memoryview(data)
        writable = select.poll()
        writable.register(fd, select.POLLOUT)
        while left:
            try:
                left = left[os.write(fd, left[:PIECE_BYTES]) :]
            except BlockingIOError:
                writable.poll(_left_ms(deadline))
            except OSError as exc:
                raise Gone from exc


def _read(fd: int) -> bytes | None:
    try:
        return os.read(fd, PIECE_BYTES)
    except BlockingIOError:
        return None
    except OSError:  # reset by a process that died
        return b""


def _left_ms(deadline: float) -> int:
    left = deadline - time.monotonic()
    if left <= 0:
        raise Late
    return max(1, int(left * 1000))
