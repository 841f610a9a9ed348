"""Credentials that must not leave, known by their marks: length, first letter, keyed digest.

Whoever looks for them in what a guest wants to send is a box that reads hostile bytes.  It gets
marks and no credential: made with a key that is drawn for one run, they tell it when a piece of
a request is one, and of those that are not there their length and one letter, so that not every
piece has to be digested.

SECURITY
    Reads what a hostile guest wants to send.  It finds a credential as it is, and as URLs, JSON,
    HTML, base64 and hex write it; not in every way somebody could write it down.  A guest is
    never given one: what is caught here is a mistake of whoever put it into code or inputs.
"""

import hashlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

from threegate.https.secret import spelled

DIGEST_BYTES: Final = 16
LEAST_BYTES: Final = 8  # as the shortest credential; a shorter piece stands anywhere by chance


Mark = tuple[int, int, str]  # length, first byte, digest


def marks_of(credentials: Iterable[str], key: bytes) -> tuple[Mark, ...]:
    """Return the marks of every spelling of these credentials, sorted."""
    found = {text for credential in credentials for text in _spellings(credential)}
    return tuple(sorted((len(text), text[0], _digest(text, key).hex()) for text in found))


class Marks:
    """Finds whether something that left its mark stands in bytes."""

    def __init__(self, key: bytes, marks: Iterable[Mark]) -> None:
        self._key = key
        self._known: dict[tuple[int, int], set[bytes]] = {}
        for length, first, digest in marks:
            self._known.setdefault((length, first), set()).add(bytes.fromhex(digest))

    def stand_in(self, data: bytes) -> bool:
        """Tell whether any of them stands in `data`, percent-encoded or not."""
        plain = unquote_to_bytes(data)
        return self._found(data) or (plain != data and self._found(plain))

    def _found(self, data: bytes) -> bool:
        for (length, first), known in self._known.items():
            last = len(data) - length + 1
            at = data.find(first, 0, last)
            while at >= 0:
                if _digest(data[at : at + length], self._key) in known:
                    return True
                at = data.find(first, at + 1, last)
        return False


def _digest(piece: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(piece, key=key, digest_size=DIGEST_BYTES).digest()


def _spellings(credential: str) -> Iterator[bytes]:
    for text in spelled(credential):
        yield text.encode("ascii")
    raw = credential.encode("ascii")
    yield from (raw.hex().encode(), raw.hex().upper().encode())
    for before in range(3):  # where it begins within the three bytes that four letters stand for
        for encode in (b64encode, urlsafe_b64encode):
            whole = encode(bytes(before) + raw)
            ours = whole[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
            if len(ours) >= LEAST_BYTES:
                yield ours
