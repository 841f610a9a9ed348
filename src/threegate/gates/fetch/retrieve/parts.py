"""A part of a file: the one that was asked for, to the byte, or nothing.

SECURITY
    Reads what web servers say about a part.  What counts in the end is the digest of the
    whole, which the host takes; here a server is kept from making it longer, or from putting
    a part where another one belongs.
"""

import re
import time
from dataclasses import dataclass
from typing import Final

from threegate.base.limits import MAX_DOWNLOAD_BYTES
from threegate.gates.fetch.retrieve.messages import PART, Ask
from threegate.gates.fetch.retrieve.statuses import OK, refuse_status
from threegate.gates.http_library.client import Failure, NotRetrieved, ResponseHead

_RANGE: Final = re.compile(r"bytes (0|[1-9][0-9]{0,12})-(0|[1-9][0-9]{0,12})/([1-9][0-9]{0,12})")


@dataclass(frozen=True, slots=True)
class FilePart:
    """How many bytes are to come, and of how many; without a total it is the whole."""

    size: int
    total: int | None

    def refuse_other(self, body: bytes) -> None:
        """Raise `NotRetrieved` if a part is not as long as it was called."""
        if self.total is not None and len(body) != self.size:
            raise NotRetrieved(
                Failure.CUT, f"a part of {len(body)} bytes that was called {self.size}"
            )


def part_of(ask: Ask, head: ResponseHead) -> FilePart:
    """Return what comes with an answer to a question for a part; raise `NotRetrieved`."""
    assert ask.first_byte is not None
    if head.status == OK:
        if ask.first_byte:
            raise NotRetrieved(Failure.STATUS, "the server sends no parts", status=head.status)
        return FilePart(ask.most_bytes, None)
    if head.status != PART:
        refuse_status(head, now=time.time())
    found = _RANGE.fullmatch(head.header("content-range") or "")
    if found is None:
        raise NotRetrieved(Failure.ANSWER, "a part that does not say which one it is")
    first, last, total = (int(text) for text in found.groups())
    wanted = min(ask.first_byte + ask.most_bytes, total) - 1
    if (first, last) != (ask.first_byte, wanted) or not first <= last < total:
        raise NotRetrieved(Failure.ANSWER, "another part than the one that was asked for")
    if total > MAX_DOWNLOAD_BYTES:
        raise NotRetrieved(Failure.TOO_LARGE, f"the file is larger than {MAX_DOWNLOAD_BYTES} bytes")
    return FilePart(last - first + 1, total)
