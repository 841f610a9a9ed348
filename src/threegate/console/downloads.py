"""Files on their way to a browser: sent piece by piece, and so many bytes at once."""

from collections.abc import AsyncIterator
from typing import Final
from weakref import WeakSet

from threegate.console.messages import Malformed

PIECE_BYTES: Final = 256 * 1024  # each has SEND_SECONDS, so a large file may take long
MAX_SENDING_BYTES: Final = 512 * 1024 * 1024  # twice the largest file


class Download(AsyncIterator[bytes]):
    """The rest of a file that is being sent."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data, self._at = data, 0

    async def __anext__(self) -> bytes:
        """Return the next piece."""
        piece = self._data[self._at : self._at + PIECE_BYTES]
        if not piece:
            raise StopAsyncIteration
        self._at += len(piece)
        return piece


class Downloads:
    """Every download under way; one that ended or was cut off is gone from the set."""

    def __init__(self) -> None:
        self._sending: WeakSet[Download] = WeakSet()

    def refuse_more(self, size: int) -> None:
        """Raise `Malformed` if there is no room for `size` bytes now."""
        if size + sum(one.size for one in self._sending) > MAX_SENDING_BYTES:
            raise Malformed("other files are being sent, wait for those")

    def send(self, data: bytes) -> Download:
        """Return a download of these bytes."""
        found = Download(data)
        self._sending.add(found)
        return found
