"""PDF files written for tests: small ones that say exactly what they say, and bombs."""

import textwrap
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

_FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"


@dataclass(slots=True)
class PdfWriter:
    """Objects by number, written in order; object 1 is the catalogue."""

    objects: dict[int, bytes] = field(default_factory=dict)
    trailer: bytes = b""

    def add(self, body: bytes) -> int:
        number = max(self.objects, default=3) + 1
        self.objects[number] = body
        return number

    def stream(self, data: bytes, entries: bytes = b"") -> int:
        return self.add(b"<<%b/Length %d>>stream\n%b\nendstream" % (entries, len(data), data))

    def to_bytes(self) -> bytes:
        made, places = bytearray(b"%PDF-1.7\n"), {}
        for number, body in sorted(self.objects.items()):
            places[number] = len(made)
            made += b"%d 0 obj\n%b\nendobj\n" % (number, body)
        start, size = len(made), max(self.objects) + 1
        made += b"xref\n0 %d\n0000000000 65535 f \n" % size
        for number in range(1, size):
            used = number in places
            made += b"%010d %05d %b \n" % (places.get(number, 0), 0, b"n" if used else b"f")
        made += b"trailer<</Size %d/Root 1 0 R%b>>\nstartxref\n%d\n%%%%EOF" % (
            size,
            self.trailer,
            start,
        )
        return bytes(made)


def pdf(
    *contents: bytes,
    title: str = "",
    author: str = "",
    box: str = "0 0 612 792",
    font: bytes = b"Helvetica",
    labels: bytes = b"",
) -> bytes:
    """Return a PDF with one page for each content stream; `/F1` is `font`, `/F2` its bold."""
    writer = PdfWriter()
    plain = writer.add(_FONT.replace(b"Helvetica", font))
    bold = writer.add(_FONT.replace(b"Helvetica", font + b"-Bold"))
    kids = []
    for content in contents:
        stream = writer.stream(content)
        fonts = b"<</Font<</F1 %d 0 R/F2 %d 0 R>>>>" % (plain, bold)
        kids.append(_page(writer, fonts, stream, box))
    _finish(writer, kids)
    if labels:
        writer.objects[1] = b"<</Type/Catalog/Pages 2 0 R/PageLabels<</Nums[%b]>>>>" % labels
    if title or author:
        info = b"<</Title %b/Author %b>>" % (_utf16(title), _utf16(author))
        writer.trailer = b"/Info %d 0 R" % writer.add(info)
    return writer.to_bytes()


def _page(writer: PdfWriter, resources: bytes, stream: int, box: str = "0 0 612 792") -> int:
    return writer.add(
        b"<</Type/Page/Parent 2 0 R/MediaBox[%b]/Resources%b/Contents %d 0 R>>"
        % (box.encode(), resources, stream)
    )


def _finish(writer: PdfWriter, kids: Sequence[int]) -> None:
    listed = b" ".join(b"%d 0 R" % kid for kid in kids)
    writer.objects[1] = b"<</Type/Catalog/Pages 2 0 R>>"
    writer.objects[2] = b"<</Type/Pages/Kids[%b]/Count %d>>" % (listed, len(kids))


def _utf16(text: str) -> bytes:
    return b"<" + ("\ufeff" + text).encode("utf-16-be").hex().encode() + b">"


def line(text: str, *, x: float = 72, y: float = 700, size: float = 12, before: str = "") -> bytes:
    """Return operators that write one line; `before` stands inside its text object."""
    shown = text.encode("cp1252", "replace").replace(b"\\", b"\\\\")
    shown = shown.replace(b"(", b"\\(").replace(b")", b"\\)")
    return b"q BT /F1 %g Tf %b %g %g Td (%b) Tj ET Q\n" % (size, before.encode(), x, y, shown)


def rectangle(colour: str, x: float, y: float, width: float, height: float) -> bytes:
    """Return operators that fill a rectangle; `colour` is three numbers."""
    return f"q {colour} rg {x} {y} {width} {height} re f Q\n".encode()


def written(text: str, *, lines_per_page: int = 50) -> bytes:
    """Return a PDF that shows `text`, lines broken where the page ends."""
    lines = [part for full in text.split("\n") for part in textwrap.wrap(full, 60)] or ["-"]
    pages = [
        b"".join(
            line(part, y=760 - 14 * row, x=36, size=10)
            for row, part in enumerate(lines[at : at + lines_per_page])
        )
        for at in range(0, len(lines), lines_per_page)
    ]
    return pdf(*pages)


def flate_bomb(size: int = 600 * 2**20) -> bytes:
    """Return a PDF whose page's content unpacks to `size` bytes."""
    writer = PdfWriter()
    packer = zlib.compressobj(9)
    block = b"0 0 m " * 2**18
    packed = b"".join(packer.compress(block) for _ in range(size // len(block))) + packer.flush()
    stream = writer.add(
        b"<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(packed), packed)
    )
    _finish(writer, [_page(writer, b"<<>>", stream)])
    return writer.to_bytes()


def packed_twice(content: bytes, filters: bytes = b"/FlateDecode/FlateDecode") -> bytes:
    """Return a PDF whose page's content is packed once for each of `filters`."""
    writer = PdfWriter()
    packed = content
    for _ in range(filters.count(b"/")):
        packed = zlib.compress(packed, 9)
    font = writer.add(_FONT)
    stream = writer.stream(packed, b"/Filter[%b]" % filters)
    _finish(writer, [_page(writer, b"<</Font<</F1 %d 0 R>>>>" % font, stream)])
    return writer.to_bytes()


def form_bomb(levels: int, each: int = 4) -> bytes:
    """Return a PDF in which a form draws another `each` times, `levels` deep: each**levels."""
    writer = PdfWriter()
    inner = writer.stream(
        b"BT /F1 12 Tf 72 700 Td (again) Tj ET",
        b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<</Font<</F1 %d 0 R>>>>"
        % writer.add(_FONT),
    )
    for _ in range(levels):
        inner = writer.stream(
            b"/X Do " * each,
            b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<</XObject<</X %d 0 R>>>>"
            % inner,
        )
    stream = writer.stream(b"/X Do")
    _finish(writer, [_page(writer, b"<</XObject<</X %d 0 R>>>>" % inner, stream)])
    return writer.to_bytes()


def form_loop() -> bytes:
    """Return a PDF with a form that finds itself among the names of its page, twice."""
    writer = PdfWriter()
    form = writer.stream(b"/X Do /X Do", b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]")
    stream = writer.stream(b"/X Do")
    _finish(writer, [_page(writer, b"<</XObject<</X %d 0 R>>>>" % form, stream)])
    return writer.to_bytes()


def cycle() -> bytes:
    """Return a PDF whose tree of pages has no end."""
    writer = PdfWriter()
    writer.objects[1] = b"<</Type/Catalog/Pages 2 0 R>>"
    writer.objects[2] = b"<</Type/Pages/Kids[3 0 R]/Count 2>>"
    writer.objects[3] = b"<</Type/Pages/Parent 2 0 R/Kids[2 0 R 2 0 R]/Count 2>>"
    return writer.to_bytes()


def many_pages(count: int) -> bytes:
    """Return a PDF of `count` pages that all say the same."""
    writer = PdfWriter()
    stream = writer.stream(line("the same on every page"))
    page = _page(writer, b"<</Font<</F1 %d 0 R>>>>" % writer.add(_FONT), stream)
    _finish(writer, [page] * count)
    return writer.to_bytes()


def encrypted() -> bytes:
    """Return a PDF that wants a password nobody knows."""
    writer = PdfWriter()
    _finish(writer, [_page(writer, b"<<>>", writer.stream(b""))])
    lock = writer.add(
        b"<</Filter/Standard/V 1/R 2/P -4/Length 40/O<%b>/U<%b>>>" % (b"11" * 32, b"22" * 32)
    )
    writer.trailer = b"/Encrypt %d 0 R/ID[<00><00>]" % lock
    return writer.to_bytes()
