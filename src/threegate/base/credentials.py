"""Credentials in text: found as they are, as servers spell them, and by marks alone.

A sandbox that searches a guest's outgoing bytes for credentials reads hostile input.  So it gets
marks (length, first letter, keyed digest) instead of credentials.  The key is drawn for one run.
Length and first letter are there so that not every piece has to be digested.

SECURITY
    Reads bytes of web servers and of hostile guests.  It finds a credential as it is, and as
    URLs, JSON, HTML, base64 and hex write it; other encodings are not found.  A guest is never
    given a credential: this catches the
    mistake of a person who put one into code or inputs.
"""

import hashlib
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final
from urllib.parse import quote, quote_plus, unquote, unquote_to_bytes

DIGEST_BYTES: Final = 16
LEAST_BYTES: Final = 8  # as the shortest credential; a shorter piece occurs anywhere by chance


class Secret:
    """Finds a credential in what a server says, in the spellings that servers have for text."""

    def __init__(self, credential: str | None) -> None:
        self._found = [text.encode("ascii") for text in spelled(credential or "")]

    def stands_in(self, data: bytes) -> bool:
        """True if `data` contains the credential."""
        return any(text in data for text in self._found)

    def stands_in_text(self, text: str) -> bool:
        """True if `text` contains the credential, percent-encoded or not, in any case."""
        plain = text.encode("utf-8", "replace")
        ways = (plain, plain.lower(), unquote(text).encode("utf-8", "replace"))
        return any(self.stands_in(data) for data in ways)


def spelled(credential: str) -> set[str]:
    """Return a credential as it is, and as URLs, JSON and HTML write it."""
    quoted = {quote(credential, safe=""), quote(credential), quote_plus(credential)}
    lower = {re.sub("%..", lambda found: found[0].lower(), text) for text in quoted}
    in_json = json.dumps(credential)[1:-1]
    others = {in_json, in_json.replace("/", "\\/"), escape(credential), credential.lower()}
    return {credential, *quoted, *lower, *others} - {""}


Mark = tuple[int, int, str]  # length, first byte, digest


def marks_of(credentials: Iterable[str], key: bytes) -> tuple[Mark, ...]:
    """Return the marks of every spelling of these credentials, sorted."""
    found = {text for credential in credentials for text in _spellings(credential)}
    return tuple(sorted((len(text), text[0], _digest(text, key).hex()) for text in found))


class Marks:
    """Searches bytes for credentials of which only the marks are known."""

    def __init__(self, key: bytes, marks: Iterable[Mark]) -> None:
        self._key = key
        self._known: dict[tuple[int, int], set[bytes]] = {}
        for length, first, digest in marks:
            self._known.setdefault((length, first), set()).add(bytes.fromhex(digest))

    def stand_in(self, data: bytes) -> bool:
        """True if `data` contains any of them, percent-encoded or not."""
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
