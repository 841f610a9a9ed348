"""Credentials that must not leave, known by their marks: lengths and keyed digests.

Whoever looks for them in what a guest wants to send is a box that reads hostile bytes.  It gets
marks and no credential: made with a key that is drawn for one run, they tell it when a piece of
a request is one, and nothing about those that are not there.

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


def marks_of(credentials: Iterable[str], key: bytes) -> tuple[tuple[int, str], ...]:
    """Return length and digest of every spelling of these credentials, sorted."""
    found = {text for credential in credentials for text in _spellings(credential)}
    return tuple(sorted((len(text), _digest(text, key).hex()) for text in found))


class Marks:
    """Finds whether something that left its mark stands in bytes."""

    def __init__(self, key: bytes, marks: Iterable[tuple[int, str]]) -> None:
        self._key = key
        self._by_length: dict[int, set[bytes]] = {}
        for length, digest in marks:
            self._by_length.setdefault(length, set()).add(bytes.fromhex(digest))

    def stand_in(self, data: bytes) -> bool:
        """Tell whether any of them stands in `data`, percent-encoded or not."""
        plain = unquote_to_bytes(data)
        return self._found(data) or (plain != data and self._found(plain))

    def _found(self, data: bytes) -> bool:
        for length, known in self._by_length.items():
            for at in range(len(data) - length + 1):
                if _digest(data[at : at + length], self._key) in known:
                    return True
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
