"""The body of an answer: exactly as long as it says, within its bound.

SECURITY
    Reads bytes of web servers.  A body that is shorter or longer than announced is refused:
    what is missing could be the retraction.  Nothing is decompressed here.  We ask for the
    bytes as they are; a server that compresses them anyway is refused, so that no hostile
    byte meets a decompressor in the process that holds a credential.
"""

import re
from typing import Final

from threegate.gates.https.heads import Head
from threegate.gates.https.limits import MAX_CHUNK_DIGITS, MAX_CHUNK_LINE_BYTES, PIECE_BYTES
from threegate.gates.https.refused import NotRetrieved, Stale, Why
from threegate.gates.https.stream import Deadline, Stream

_LINE: Final = b"\r\n"
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,%d})[\t ]*(?:;[\t -~\x80-\xff]*)?\Z" % MAX_CHUNK_DIGITS)


def read_body(stream: Stream, head: Head, *, most: int, deadline: Deadline) -> bytes:
    """Return the whole body, or raise `NotRetrieved`."""
    _check_encoding(head)
    body = _Body(stream, most, deadline)
    try:
        if head.chunked:
            body.chunks()
        elif head.length is None:
            body.rest()
        else:
            body.exactly(head.length)
    except Stale as exc:
        raise NotRetrieved(Why.CUT, f"the answer ends after {len(body.data)} bytes") from exc
    if head.keeps and not stream.is_empty:
        raise NotRetrieved(Why.CUT, "the answer is longer than it says")
    return bytes(body.data)


def _check_encoding(head: Head) -> None:
    encoding = head.header("content-encoding")
    if encoding is not None and encoding.lower() not in ("", "identity"):
        raise NotRetrieved(Why.ENCODED, "the answer is compressed, though asked for as it is")


class _Body:
    def __init__(self, stream: Stream, most: int, deadline: Deadline) -> None:
        self._stream, self._most, self._deadline = stream, most, deadline
        self.data = bytearray()

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise NotRetrieved(Why.TOO_LARGE, f"the answer is larger than {self._most} bytes")

    def exactly(self, size: int) -> None:
        """Read `size` more bytes."""
        end = len(self.data) + size
        self._check_size(end)
        while len(self.data) < end:
            piece = self._stream.take(end - len(self.data))
            self.data += piece
            if not piece and not self._stream.more(self._deadline):
                raise Stale

    def rest(self) -> None:
        """Read until the server ends the connection, and says so."""
        while True:
            piece = self._stream.take(PIECE_BYTES)
            self.data += piece
            self._check_size(len(self.data))
            if not piece and not self._stream.more(self._deadline):
                return

    def chunks(self) -> None:
        """Read chunks up to the last one, and drop what is said behind it."""
        while size := self._chunk_size():
            self.exactly(size)
            if self._line() != b"":
                raise _broken()
        budget = MAX_CHUNK_LINE_BYTES
        while line := self._line():
            budget -= len(line)
            if budget < 0:
                raise _broken()

    def _chunk_size(self) -> int:
        found = _SIZE.match(self._line())
        if found is None:
            raise _broken()
        return int(found[1], 16)

    def _line(self) -> bytes:
        line = self._stream.line(_LINE, MAX_CHUNK_LINE_BYTES, self._deadline)
        if line is None:
            raise _broken()
        return line


def _broken() -> NotRetrieved:
    return NotRetrieved(Why.ANSWER, "the answer's chunks are malformed")
