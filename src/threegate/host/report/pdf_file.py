"""The bytes of a PDF: pages of drawing commands, three fonts, an outline, images, nothing else.

No scripts, no links, no attachments, and no compression but of the points of images: a reader can
look into the file with any editor.

SECURITY
    Foreign text is in the file as hexadecimal digits only, so none of it can end a string or
    begin an object.  Of an image there are the numbers of its sides and a stream that the host
    packed.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.host.report.facts import Image
from threegate.host.report.pdf_fonts import Font

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
    title: bytes, pages: Sequence[bytes], marks: Sequence[Mark], images: Sequence[Image] = ()
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


def _image(image: Image) -> bytes:
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
