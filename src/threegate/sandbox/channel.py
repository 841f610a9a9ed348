"""Framed messages between host and gate: a kind, a length, bytes; nothing else.

SECURITY
    The host reads frames written by a process that may be owned.  Lengths are checked
    before anything is read or kept; one frame holds at most a chunk, a message is a
    sequence of chunks bounded by the profile's output limit.
"""

import os
import struct

HEADER = struct.Struct(">BI")
MAX_CHUNK_BYTES = 256 * 1024
READY = b"TG1\n"

CHUNK = 1  # part of a message
END = 2  # the message is whole
NOTE = 3  # progress, for people


class ChannelBroken(Exception):
    """The other side does not speak the protocol."""


class MessageTooLong(ChannelBroken):
    """A message is longer than the reader accepts."""


def frames(message: bytes) -> bytes:
    """Return a whole message as frames."""
    parts = [
        HEADER.pack(CHUNK, len(piece)) + piece
        for piece in (
            message[at : at + MAX_CHUNK_BYTES] for at in range(0, len(message), MAX_CHUNK_BYTES)
        )
    ]
    return b"".join([*parts, HEADER.pack(END, 0)])


def write_message(fd: int, message: bytes) -> None:
    """Write a whole message; used inside a gate."""
    _write_all(fd, frames(message))


def write_note(fd: int, data: bytes) -> None:
    """Write one note, of a chunk at most; used inside a gate."""
    _write_all(fd, HEADER.pack(NOTE, len(data)) + data)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_message(fd: int, max_bytes: int) -> bytes | None:
    """Read a whole message from a blocking descriptor, or None if no more come; inside a gate."""
    message = bytearray()
    head = _read_up_to(fd, HEADER.size)
    if not head:
        return None  # the other side is done; inside a message that would be a broken one
    while True:
        if len(head) < HEADER.size:
            raise ChannelBroken("the channel ended inside a message")
        kind, length = HEADER.unpack(head)
        if kind == END and length == 0:
            return bytes(message)
        if kind != CHUNK or length > MAX_CHUNK_BYTES or len(message) + length > max_bytes:
            raise ChannelBroken("not a frame of this protocol")
        piece = _read_up_to(fd, length)
        if len(piece) < length:
            raise ChannelBroken("the channel ended inside a frame")
        message += piece
        head = _read_up_to(fd, HEADER.size)


def _read_up_to(fd: int, size: int) -> bytes:
    """Return `size` bytes, or fewer where the channel ends."""
    data = bytearray()
    while len(data) < size and (piece := os.read(fd, size - len(data))):
        data += piece
    return bytes(data)


class FrameReader:
    """Splits a stream of bytes into frames; used by the host."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the frames completed by `data`; raise `ChannelBroken`."""
        self._held += data
        found: list[tuple[int, bytes]] = []
        while self._held:
            if self._held[0] not in (CHUNK, END, NOTE):  # before the rest is awaited
                raise ChannelBroken("not a frame of this protocol")
            if len(self._held) < HEADER.size:
                break
            kind, length = HEADER.unpack_from(self._held)
            if length > MAX_CHUNK_BYTES:
                raise ChannelBroken("not a frame of this protocol")
            if kind == END and length:
                raise ChannelBroken("an end with something in it")
            if len(self._held) < HEADER.size + length:
                break
            found.append((kind, bytes(self._held[HEADER.size : HEADER.size + length])))
            del self._held[: HEADER.size + length]
        return found

    @property
    def mid_frame(self) -> bool:
        """Tell whether bytes of an unfinished frame are held."""
        return bool(self._held)


class MessageReader:
    """Joins the frames of a stream to whole messages; notes are refused."""

    def __init__(self, max_bytes: int) -> None:
        self._frames, self._held, self._max_bytes = FrameReader(), bytearray(), max_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages completed by `data`; raise `ChannelBroken`."""
        found: list[bytes] = []
        for kind, piece in self._frames.feed(data):
            if kind == NOTE:
                raise ChannelBroken("not a frame of this protocol")
            self._held += piece
            if len(self._held) > self._max_bytes:
                raise MessageTooLong(f"limit {self._max_bytes} bytes")
            if kind == END:
                found.append(bytes(self._held))
                self._held.clear()
        return found

    @property
    def mid_message(self) -> bool:
        """Tell whether bytes of an unfinished message are held."""
        return bool(self._held) or self._frames.mid_frame


def echo() -> None:
    """Answer each request with itself: the smallest payload, for the doctor and benchmarks."""
    while (request := read_message(0, 16 * 1024 * 1024)) is not None:
        write_message(3, request)
