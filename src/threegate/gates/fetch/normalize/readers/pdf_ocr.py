"""PDF files of scanned pages: PDFium draws each page, Tesseract recognises its text.

The text layer of the file is not read at all: what is quoted is what the pages show.  The type of
the answer names the languages and the engine (`artifacts.media_types.recognised_pdf`).

SECURITY
    Hostile bytes, in the sandbox `fetch-ocr` (see `pdfium` and `tesseract`).  Pages and pixels are
    bounded, so an ordinary scan stays within the sandbox's time; a picture made to take longer
    ends the sandbox without an answer.  Recognised text contains errors, and faint text that a
    person overlooks may be recognised; each part states the confidence of its page.
"""

from collections.abc import Sequence
from statistics import median
from typing import Final

from threegate.artifacts.media_types import languages_of
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers import pdf, pdfium, tesseract
from threegate.gates.fetch.normalize.readers.pdf_lines import Line
from threegate.gates.fetch.normalize.readers.pdf_order import Block
from threegate.gates.fetch.normalize.readers.pdf_pixels import (
    MAX_OCR_PAGES,
    POINTS_PER_INCH,
    Picture,
    draw,
)
from threegate.gates.fetch.normalize.readers.pdf_sections import PageText, parts_of
from threegate.gates.fetch.normalize.readers.tesseract import RecognisedLine, Recogniser
from threegate.gates.fetch.normalize.text import Document, Unread

NOTHING: Final = "no text was recognised on any page"


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the recognised text of a PDF; raise `Unread`."""
    untrusted = raw.open_for_validation()
    if len(untrusted) > pdf.MAX_PDF_BYTES:
        raise Unread("too-large", f"{len(untrusted)} bytes, limit {pdf.MAX_PDF_BYTES}")
    pdf.check_packing(untrusted)
    try:
        with (
            tesseract.opened(languages_of(answer.read_as)) as recogniser,
            pdfium.opened(untrusted) as document,
        ):
            return _read(document, recogniser)
    except tesseract.NoLanguage as exc:
        raise Unread("other-kind", str(exc)) from exc
    except pdfium.PdfNotOpened as exc:
        raise pdf.not_opened(exc) from exc


def _read(document: pdfium.Document, recogniser: Recogniser) -> Document:
    pages: list[PageText] = []
    drawn = min(document.pages, MAX_OCR_PAGES)
    truncated = document.pages - drawn
    for number in range(drawn):
        with document.page(number) as page:
            picture = None if page is None else draw(page)
        if picture is None:
            truncated += 1
            continue
        found = recogniser.read(picture)
        if found.lines:
            label = f"{pdf.label_of(document, number)}, OCR {found.confidence} %"
            pages.append(PageText(number + 1, label, _blocks(found.lines, picture)))
    if not pages:
        raise Unread("empty", NOTHING if truncated < document.pages else "no page can be drawn")
    counts = {"recognised": len(pages), "truncated": truncated}
    hazards = {name: count for name, count in counts.items() if count}
    return Document(tuple(parts_of(pages)), pdf.about(document), found=hazards)


def _blocks(lines: Sequence[RecognisedLine], picture: Picture) -> list[Block]:
    """Return the paragraphs that Tesseract found, in its order, with places in points."""
    scale = POINTS_PER_INCH / picture.dots_per_inch
    usual = median(line.bottom - line.top for line in lines) * scale
    blocks: list[Block] = []
    for one in lines:
        line = Line(
            one.text,
            one.left * scale,
            (picture.height - one.bottom) * scale,
            one.right * scale,
            (picture.height - one.top) * scale,
            one.points or usual,
        )
        if one.starts or not blocks:
            blocks.append(Block([line]))
        else:
            blocks[-1].add(line)
    return blocks
