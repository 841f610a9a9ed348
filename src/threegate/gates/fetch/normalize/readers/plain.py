"""Plain text in the encodings that can be told apart without guessing a language.

A byte order mark decides (UTF-8, UTF-16).  Without one it is UTF-8; if it is not, it is read
as windows-1252, as browsers read it, unless bytes are in it that no text in that encoding
has.  What is then still wrong is shown as it was read: raw bytes are kept beside the packet.

SECURITY
    Reads foreign bytes.  A wrong guess gives wrong letters, never letters that are hidden.
"""

import codecs
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers.numbered import numbered_lines, parts_of_lines
from threegate.gates.fetch.normalize.secrets import count_secrets
from threegate.gates.fetch.normalize.text import Document, Part, Unread

MAX_TEXT_BYTES: Final = 64 * 2**20
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_FALLBACK: Final = codecs.lookup("cp1252").name  # looked up now: the box is locked later
# Bytes of no text: NUL and the other controls without a place on a line.
_BINARY: Final = bytes(set(range(0x20)) - set(b"\t\n\x0b\x0c\r\x1a\x1b"))
_LABEL: Final = Untrusted("text")
_LOCAL: Final = ("file", "git")


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the text, or raise `Unread`; a text file of this machine has line numbers."""
    text = decode(raw)
    if answer.source not in _LOCAL:
        return Document((Part(_LABEL, Untrusted(text)),))
    found = count_secrets((text,))
    parts = parts_of_lines(numbered_lines(text))
    return Document(parts, found={"secret-like": found} if found else {})


def decode(raw: Untrusted[bytes]) -> str:
    """Return foreign bytes as text, or raise `Unread`."""
    return decode_named(raw)[0]


def decode_named(raw: Untrusted[bytes]) -> tuple[str, str]:
    """Return foreign bytes as text and the name of their encoding, or raise `Unread`."""
    untrusted = raw.open_for_validation()
    if len(untrusted) > MAX_TEXT_BYTES:
        raise Unread("too-large", f"{len(untrusted)} bytes of text, limit {MAX_TEXT_BYTES}")
    for mark, encoding in _MARKS:
        if untrusted.startswith(mark):
            return _decode(untrusted[len(mark) :], encoding), encoding.upper()
    if len(untrusted.translate(None, _BINARY)) != len(untrusted):
        raise Unread("encoding", "bytes that no text has")
    try:
        return untrusted.decode("utf-8"), "UTF-8"
    except UnicodeDecodeError:
        return _decode(untrusted, _FALLBACK), "windows-1252"


def _decode(untrusted: bytes, encoding: str) -> str:
    try:
        return untrusted.decode(encoding)
    except UnicodeDecodeError as exc:
        raise Unread("encoding", "neither UTF-8 nor another encoding that is known here") from exc
