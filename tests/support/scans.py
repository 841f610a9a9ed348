"""Scans written for tests: pictures of text in PDF files without a letter of text."""

import zlib

from tests.support import pdfs
from tests.support.pdfs import PdfWriter, _finish, _page
from threegate.artifacts.media_types import recognised_pdf
from threegate.gates.fetch.normalize.readers import pdfium
from threegate.gates.fetch.normalize.readers.pdf_pixels import Picture, draw
from threegate.sandbox.tesseract import Tesseract, find_tesseract

GATE = "threegate.gates.fetch.normalize.gate_ocr:serve"


def tesseract() -> Tesseract:
    """Return the installed Tesseract; tests of recognition need it."""
    found = find_tesseract()
    assert found is not None, "install it: scripts/setup.sh tests"
    return found


def read_as(*languages: str) -> str:
    """Return the type of a scan that this machine's Tesseract reads."""
    return recognised_pdf(languages, tesseract().digest(languages))


def picture_of(document: bytes) -> Picture:
    """Return the first page of a PDF as pixels."""
    with pdfium.opened(document) as opened, opened.page(0) as page:
        assert page is not None
        found = draw(page)
    assert found is not None
    return found


def scan(*pages: bytes, labels: bytes = b"", box: str = "0 0 612 792", times: int = 1) -> bytes:
    """Return a PDF that shows pictures of pages; each is the content stream of a page."""
    drawn = [picture_of(pdfs.pdf(page, box=box)) for page in pages]
    pictures = [(one.width, one.height, one.pixels) for one in drawn]
    return pictured(*pictures, labels=labels, box=box, times=times)


def pictured(
    *pictures: tuple[int, int, bytes],
    labels: bytes = b"",
    box: str = "0 0 612 792",
    times: int = 1,
) -> bytes:
    """Return a PDF with a picture on each page: width, height and grey pixels; all `times` over."""
    writer = PdfWriter()
    kids = []
    for width, height, pixels in pictures:
        entries = b"/Type/XObject/Subtype/Image/Width %d/Height %d" % (width, height)
        entries += b"/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/FlateDecode"
        image = writer.stream(zlib.compress(pixels), entries)
        across, up = box.encode().split()[2:]
        content = writer.stream(b"q %b 0 0 %b 0 0 cm /I Do Q" % (across, up))
        kids.append(_page(writer, b"<</XObject<</I %d 0 R>>>>" % image, content, box))
    _finish(writer, kids * times)
    if labels:
        writer.objects[1] = b"<</Type/Catalog/Pages 2 0 R/PageLabels<</Nums[%b]>>>>" % labels
    return writer.to_bytes()
