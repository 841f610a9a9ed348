"""Points as a PNG file: a head, one stream, an end, and nothing that came with the original.

SECURITY
    Writes the bytes that browsers and readers of PDF decode.  Of a stranger's image they hold
    the points alone, so nothing but a picture can be in them: no text, no colour profile, no
    second format behind the end.
"""

import struct
import zlib
from typing import Final

from threegate.gates.image_reader.messages import POINT_BYTES, Pixels
from threegate.host.report.facts import Image

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_RGB_OF_8_BITS: Final = b"\x08\x02\x00\x00\x00"  # no palette, no interlacing
_AS_IT_IS: Final = b"\x00"  # before each row: not predicted from its neighbours


def image_of(pixels: Pixels) -> Image:
    """Return points in the one stream that PNG and PDF both take."""
    wide = POINT_BYTES * pixels.width
    starts = range(0, len(pixels.points), wide)
    rows = b"".join(_AS_IT_IS + pixels.points[at : at + wide] for at in starts)
    sides = (pixels.width, pixels.height, pixels.file_width, pixels.file_height)
    return Image(*sides, zlib.compress(rows, 6))


def as_png(image: Image) -> bytes:
    """Return a whole file."""
    head = struct.pack(">II", image.width, image.height) + _RGB_OF_8_BITS
    chunks = ((b"IHDR", head), (b"IDAT", image.packed), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
