"""The bytes of a PDF and of PNG images: pages of drawing commands, three fonts, an outline, images.

No scripts, links or attachments, and no compression except for the points of images: a reader can
inspect the file with any editor.

SECURITY
    Foreign text is in the file only as hexadecimal digits, so it cannot end a string or begin an
    object.  An image consists of its width, its height and a stream that the host packed.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from threegate.gates.image_reader.messages import POINT_BYTES, Pixels
from threegate.host.report.facts import ReportImage

# Standard PDF fonts: the width of their letters, and the letters they lack.
#
# Helvetica and Courier need not be in the file. Characters outside WinAnsi are spelled out like
# hidden characters: the reader sees which one it is, not how it looks.

# Of Helvetica, in thousandths of the size: the codes 32 to 255 of WinAnsi.
_HELVETICA: Final = (
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278),
    *(556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556),
    *(1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778),
    *(667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556),
    *(333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556),
    *(556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584, 350),
    *(556, 350, 222, 556, 333, 1000, 556, 556, 333, 1000, 667, 333, 1000, 350, 611, 350),
    *(350, 222, 222, 333, 333, 350, 556, 1000, 333, 1000, 500, 333, 944, 350, 500, 667),
    *(278, 333, 556, 556, 556, 556, 260, 556, 333, 737, 370, 556, 584, 333, 737, 333),
    *(400, 584, 333, 333, 333, 556, 537, 278, 333, 333, 365, 556, 834, 834, 834, 611),
    *(667, 667, 667, 667, 667, 667, 1000, 722, 667, 667, 667, 667, 278, 278, 278, 278),
    *(722, 722, 778, 778, 778, 778, 778, 584, 778, 722, 722, 722, 722, 667, 667, 611),
    *(556, 556, 556, 556, 556, 556, 889, 500, 556, 556, 556, 556, 278, 278, 278, 278),
    *(556, 556, 556, 556, 556, 556, 556, 584, 611, 556, 556, 556, 556, 500, 556, 500),
)
_COURIER: Final = 600
_BOLDER: Final = 1.12  # bold words are ours; in English they take 8 percent more room


class Font(Enum):
    """A face, by the name it has in the file."""

    BODY = "Helvetica"
    BOLD = "Helvetica-Bold"
    CODE = "Courier"

    def width(self, text: bytes, size: float) -> float:
        """Return how much room a text takes, in points."""
        if self is Font.CODE:
            return len(text) * _COURIER * size / 1000
        wide = sum(_HELVETICA[code - 32] for code in text) * size / 1000
        return wide * _BOLDER if self is Font.BOLD else wide


def encoded(text: str) -> bytes:
    """Return text in WinAnsi, with what it lacks spelled out."""
    try:
        return text.encode("cp1252")
    except UnicodeEncodeError:
        return b"".join(map(_one, text))


def _one(character: str) -> bytes:
    try:
        return character.encode("cp1252")
    except UnicodeEncodeError:
        return f"\\u{{{ord(character):x}}}".encode("ascii")


WIDTH: Final = 595  # A4, in points
HEIGHT: Final = 842
_CATALOG, _PAGES, _OUTLINE, _INFO, _FONTS = 1, 2, 3, 4, 5
_FIRST: Final = _FONTS + len(Font)


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry of the outline."""

    title: bytes
    page: int  # counted from 0
    top: float


def assemble(
    title: bytes, pages: Sequence[bytes], marks: Sequence[Mark], images: Sequence[ReportImage] = ()
) -> bytes:
    """Return a whole file of pages, each given by its drawing commands.

    Image `n` is drawn by the name `/Imn`.
    """
    objects = [*_frame(title, len(pages), len(marks))]
    after = _FIRST + 2 * len(pages)
    named = [f"/Im{place} {after + len(marks) + place} 0 R" for place in range(len(images))]
    shared = f" /XObject << {' '.join(named)} >>" if images else ""
    for number, content in enumerate(pages):
        objects += [_page(number, shared), _stream(content)]
    objects += _outline(marks, first=after)
    objects += map(_image, images)
    return _file(objects)


def hexadecimal(text: bytes) -> bytes:
    """Return a string that nothing in it can end."""
    return b"<" + text.hex().encode("ascii") + b">"


def _frame(title: bytes, pages: int, marks: int) -> Iterator[bytes]:
    opened = f" /Outlines {_OUTLINE} 0 R /PageMode /UseOutlines" if marks else ""
    yield f"<< /Type /Catalog /Pages {_PAGES} 0 R{opened} /Lang (en) >>".encode()
    kids = " ".join(f"{_FIRST + 2 * number} 0 R" for number in range(pages))
    box = f"/MediaBox [0 0 {WIDTH} {HEIGHT}]"
    yield f"<< /Type /Pages /Count {pages} /Kids [{kids}] {box} >>".encode()
    first = _FIRST + 2 * pages
    ends = f" /First {first} 0 R /Last {first + marks - 1} 0 R /Count {marks}" if marks else ""
    yield f"<< /Type /Outlines{ends} >>".encode()
    yield b"<< /Title " + hexadecimal(title) + b" /Producer (ThreeGate) >>"
    for font in Font:
        kind = f"/Type /Font /Subtype /Type1 /BaseFont /{font.value}"
        yield f"<< {kind} /Encoding /WinAnsiEncoding >>".encode()


def _page(number: int, shared: str) -> bytes:
    fonts = " ".join(f"/{font.name} {_FONTS + place} 0 R" for place, font in enumerate(Font))
    content = _FIRST + 2 * number + 1
    resources = f"/Resources << /Font << {fonts} >>{shared} >>"
    return f"<< /Type /Page /Parent {_PAGES} 0 R {resources} /Contents {content} 0 R >>".encode()


def _stream(content: bytes, about: str = "") -> bytes:
    head = f"<< {about}/Length {len(content)} >>\nstream\n".encode()
    return head + content + b"\nendstream"


def _image(image: ReportImage) -> bytes:
    sides = f"/Width {image.width} /Height {image.height}"
    rows = f"/Predictor 15 /Colors 3 /BitsPerComponent 8 /Columns {image.width}"
    kind = "/Type /XObject /Subtype /Image /ColorSpace /DeviceRGB /BitsPerComponent 8"
    packing = f"/Filter /FlateDecode /DecodeParms << {rows} >>"
    return _stream(image.packed, f"{kind} {sides} {packing} ")


def _outline(marks: Sequence[Mark], *, first: int) -> Iterator[bytes]:
    for number, mark in enumerate(marks):
        before = f" /Prev {first + number - 1} 0 R" if number else ""
        after = f" /Next {first + number + 1} 0 R" if number + 1 < len(marks) else ""
        page = _FIRST + 2 * mark.page
        place = f"/Parent {_OUTLINE} 0 R /Dest [{page} 0 R /XYZ 0 {mark.top:.0f} 0]"
        yield b"<< /Title " + hexadecimal(mark.title) + f" {place}{before}{after} >>".encode()


def _file(objects: Sequence[bytes]) -> bytes:
    parts = [b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"]
    size = len(parts[0])
    places = []
    for number, body in enumerate(objects, 1):
        places.append(size)
        parts.append(f"{number} 0 obj\n".encode() + body + b"\nendobj\n")
        size += len(parts[-1])
    name = hashlib.sha256(b"".join(parts)).hexdigest()[:32]
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(objects) + 1
    trailer = f"/Size {count} /Root {_CATALOG} 0 R /Info {_INFO} 0 R /ID [<{name}> <{name}>]"
    end = f"xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<< {trailer} >>\n"
    return b"".join([*parts, f"{end}startxref\n{size}\n%%EOF\n".encode()])


# Pixels as a PNG file: a head, one stream, an end, and nothing that came with the original.
#
# SECURITY: browsers and PDF readers decode these bytes. They hold only the pixels of a stranger's
# image: no text, no colour profile, no second format behind the end.

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_RGB_OF_8_BITS: Final = b"\x08\x02\x00\x00\x00"  # no palette, no interlacing
_AS_IT_IS: Final = b"\x00"  # before each row: not predicted from its neighbours


def image_of(pixels: Pixels) -> ReportImage:
    """Return points in the one stream that PNG and PDF both take."""
    sides = (pixels.width, pixels.height, pixels.file_width, pixels.file_height)
    return ReportImage(*sides, packed(pixels.width, pixels.points))


def packed(width: int, points: bytes) -> bytes:
    """Return rows of `width` points as that stream."""
    wide = POINT_BYTES * width
    starts = range(0, len(points), wide)
    return zlib.compress(b"".join(_AS_IT_IS + points[at : at + wide] for at in starts), 6)


def as_png(image: ReportImage) -> bytes:
    """Return a whole file."""
    head = struct.pack(">II", image.width, image.height) + _RGB_OF_8_BITS
    chunks = ((b"IHDR", head), (b"IDAT", image.packed), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
