"""What the dictionaries of a PDF say that PDFium's functions do not tell about a page.

PDFium has no function for the dictionaries themselves.  They are either in the file as they are
or in object streams, and a few names in them mean that text may not be seen: a layer of a form,
an uncoloured pattern, an ink without a colour, a transfer function, a soft mask.

SECURITY
    Hostile bytes.  Linear scans of the file and of at most `MAX_UNPACKED_BYTES` of object
    streams; a stream that cannot be unpacked here counts as one more doubt.  Names may be
    escaped.  A name in a place where it means nothing is a doubt too many, never one too few.
"""

import re
import zlib
from collections.abc import Iterator
from typing import Final

MAX_UNPACKED_BYTES: Final = 64 * 2**20  # of all object streams
MAX_HEAD_BYTES: Final = 4_096  # of the dictionary of an object stream
MAX_INKS_BYTES: Final = 2_000  # of the names of one ink; more is a doubt

_PIECE_BYTES: Final = 4 * 2**10
# More comments, or a longer one, stay, and are a value that is not known.  Atomic, because Python
# before 3.11.5 skips text that a possessive group did not match (gh-100061, gh-106052).
_GAP: Final = rb"[\s\0]*+(?>(?:%[^\r\n]{0,200}+[\r\n][\s\0]*+){0,100})"


def _name(text: str) -> bytes:
    """Return a pattern for a name, each of its letters escaped or not."""
    letters = (f"(?:{one}|#(?i:{ord(one):02x}))" for one in text)
    return f"/{''.join(letters)}(?![^\\s\\0/<>\\[\\](){{}}%])".encode() + _GAP


_VALUE: Final = rb"(?:[0-9]++" + _GAP + rb"(?:[0-9]++" + _GAP + rb"[R%]|%)|\[|<<|%)"
_PLAIN_INKS: Final = rb"\[(?>(?:(?!%b)[^\[\]]){0,%d})\]" % (_name("None"), MAX_INKS_BYTES)
_DOUBTS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        _name("OC") + _VALUE,
        _name("PaintType") + rb"(?!1[\s\0/>%])",
        _name("DeviceN") + rb"(?!" + _PLAIN_INKS + rb")",
        rb"(?:" + _name("TR") + rb"|" + _name("TR2") + rb")" + _VALUE,
        rb"(?:" + _name("Luminosity") + rb"|" + _name("Alpha") + rb")",
    )
)
_PACKED: Final = re.compile(_name("ObjStm") + rb"|endstream|stream(?:\r\n|\n|\r)?")
_INDIRECT: Final = re.compile(_name("Type") + rb"[0-9%]")
_PARAMETERS: Final = re.compile(rb"Parms|/DP|#")  # of how it is packed
_NUMBERS: Final = re.compile(rb"\s*[0-9]+\s+[0-9]+\s")


def count_doubts(untrusted: bytes) -> int:
    """Return how many kinds of what cannot be decided are in a PDF."""
    found = {number for number, doubt in enumerate(_DOUBTS) if doubt.search(untrusted)}
    closed = _INDIRECT.search(untrusted) is not None
    for unpacked in _object_streams(untrusted):
        if unpacked is None:
            closed = True
            break
        found |= {number for number, doubt in enumerate(_DOUBTS) if doubt.search(unpacked)}
    return len(found) + closed


def _object_streams(untrusted: bytes) -> Iterator[bytes | None]:
    """Yield the object streams of a file; None for one that cannot be read here."""
    room, named, before = MAX_UNPACKED_BYTES, False, 0
    for match in _PACKED.finditer(untrusted):
        if match[0] == b"endstream":
            before = match.end()
        elif not match[0].startswith(b"stream"):
            named = True
        elif named:
            head = untrusted[max(before, match.start() - MAX_HEAD_BYTES) : match.start()]
            unpacked = _unpacked(untrusted, match.end(), room)
            room, named = room - len(unpacked), False
            plain = not _PARAMETERS.search(head) and len(head) < MAX_HEAD_BYTES and room > 0
            yield unpacked if plain and _NUMBERS.match(unpacked) else None
            if room <= 0:
                return


def _unpacked(untrusted: bytes, at: int, room: int) -> bytes:
    """Return at most `room` bytes of a stream; what was unpacked before an error counts too."""
    if _NUMBERS.match(untrusted, at):
        return b"0 0 "  # not packed, and seen with the file
    unpacker, found = zlib.decompressobj(), bytearray()
    try:
        while not unpacker.eof and at < len(untrusted) and len(found) < room:
            # In small pieces: what lies behind the stream is copied with the last of them.
            piece = unpacker.unconsumed_tail or untrusted[at : at + _PIECE_BYTES]
            at += 0 if unpacker.unconsumed_tail else _PIECE_BYTES
            found += unpacker.decompress(piece, room - len(found))
    except zlib.error:
        found.clear()
    return bytes(found)
