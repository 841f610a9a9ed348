"""PDF: the text of each page in reading order, without what nobody sees on it.

SECURITY
    Reads hostile bytes with PDFium, in the box of `fetch-pdf` (see `pdfium`).  Bounds below
    keep an ordinary document within the box's limits; a document made to break them meets
    the limits themselves, and the box ends without an answer.  If this module is wrong, a
    packet quotes text that is not on the page it names, or that nobody can see there.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers import pdfium
from threegate.gates.fetch.normalize.readers.hidden_pdf import Verdict, inside, is_seen, judge
from threegate.gates.fetch.normalize.readers.pdf_dictionaries import count_doubts
from threegate.gates.fetch.normalize.readers.pdf_lines import lines_of, runs_from_the_right
from threegate.gates.fetch.normalize.readers.pdf_objects import Painting, pixels_of
from threegate.gates.fetch.normalize.readers.pdf_order import blocks_of
from threegate.gates.fetch.normalize.readers.pdf_scans import recognised
from threegate.gates.fetch.normalize.readers.pdf_sections import PageText, parts_of
from threegate.gates.fetch.normalize.readers.pdf_tables import arranged
from threegate.gates.fetch.normalize.text import Document, Unread
from threegate.gates.fetch.sources.fields import Record
from threegate.gates.fetch.sources.metadata import Metadata

MAX_PDF_BYTES: Final = 64 * 2**20
MAX_PDF_PAGES: Final = 2_000
MAX_PDF_CHARS: Final = 2_500_000  # more than a packet holds
MAX_PAGE_CHARS: Final = 400_000
MAX_PAGE_OBJECTS: Final = 100_000
MAX_PAGE_NOTES: Final = 10_000  # annotations
MAX_FORM_DEPTH: Final = 16
MAX_UNREADABLE_PAGES: Final = 8  # one after the other, before the rest is given up

_LIST: Final = re.compile(rb"\[((?:[\s/A-Za-z0-9#]|%[^\r\n\[]*+)++)\]")
_ESCAPED: Final = re.compile(rb"#([0-9a-fA-F]{2})")
_PACKING: Final = re.compile(rb"/(?:FlateDecode|Fl|LZWDecode|LZW|RunLengthDecode|RL)\b")
_REASONS: Final = {"the PDF needs a password": "encrypted"}
_MAX_LABEL_CHARS: Final = 24


@dataclass(slots=True)
class _Found:
    pages: list[PageText] = field(default_factory=list)
    chars: int = 0
    hidden: int = 0
    undecided: int = 0
    recognised: int = 0  # pages
    truncated: int = 0

    def hazards(self) -> dict[str, int]:
        counts = {
            "hidden-text": self.hidden,
            "hidden-undecided": self.undecided,
            "recognised": self.recognised,
            "truncated": self.truncated,
        }
        return {name: count for name, count in counts.items() if count}


def read(raw: Untrusted[bytes], _answer: KeptAnswer) -> Document:
    """Return the text of a PDF in parts, none longer than a page; raise `Unread`."""
    untrusted = raw.open_for_validation()
    if len(untrusted) > MAX_PDF_BYTES:
        raise Unread("too-large", f"{len(untrusted)} bytes, limit {MAX_PDF_BYTES}")
    check_packing(untrusted)
    try:
        with pdfium.opened(untrusted) as document:
            return _read(document, count_doubts(untrusted))
    except pdfium.PdfNotOpened as exc:
        raise not_opened(exc) from exc


def not_opened(exc: pdfium.PdfNotOpened) -> Unread:
    """Return why PDFium did not open a document."""
    return Unread(_REASONS.get(str(exc), "damaged"), str(exc))


def check_packing(untrusted: bytes) -> None:
    """Refuse streams packed more than once: a few kilobytes unpack to a gigabyte."""
    for found in _LIST.finditer(untrusted):
        names = _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), found[1])
        if len(_PACKING.findall(names)) > 1:
            raise Unread("too-large", "more than one layer of packing in a stream")


def _read(document: pdfium.Document, doubts: int) -> Document:
    found, missing, in_a_row = _Found(undecided=doubts), 0, 0
    for number in range(min(document.pages, MAX_PDF_PAGES)):
        with document.page(number) as page:
            if page is None:
                missing, in_a_row = missing + 1, in_a_row + 1
            else:
                in_a_row = 0
                _read_page(page, number + 1, label_of(document, number), found)
        if found.chars >= MAX_PDF_CHARS or in_a_row >= MAX_UNREADABLE_PAGES:
            found.truncated += document.pages - number - 1
            break
    else:
        found.truncated += max(0, document.pages - MAX_PDF_PAGES)
    found.truncated += missing
    if not found.pages:
        raise _nothing(document.pages, missing, found)
    return Document(tuple(parts_of(found.pages)), about(document), found=found.hazards())


def label_of(document: pdfium.Document, number: int) -> str:
    """Return what a page is called; its number if it has no name of its own."""
    return document.label(number).strip()[:_MAX_LABEL_CHARS] or str(number + 1)


def _nothing(pages: int, missing: int, found: _Found) -> Unread:
    if not pages or missing == min(pages, MAX_PDF_PAGES) or found.truncated >= pages:
        return Unread("damaged", "no page of the PDF can be read")
    if found.hidden:
        return Unread("empty", f"no visible text; {found.hidden} characters are hidden")
    return Unread("scan", "no text on any page; a scan needs text recognition (OCR) first")


def _read_page(page: pdfium.Page, number: int, label: str, found: _Found) -> None:
    count = min(page.chars, MAX_PAGE_CHARS)
    found.truncated += int(page.chars > count)
    verdict = _judged(page, found)
    text, (left, _, right, _) = page.text(count), page.box()
    if verdict.hidden or verdict.partly:
        text, hidden = _visible(page, text, verdict)
        found.hidden += hidden
    found.chars += len(text)
    lines = arranged(lines_of(page, text, right - left))
    if lines:
        blocks = blocks_of(lines, leftwards=runs_from_the_right(text))
        found.pages.append(PageText(number, label, blocks))


def _judged(page: pdfium.Page, found: _Found) -> Verdict:
    """Return which text of a page is not seen, and count what is not known."""
    painting, area = Painting(page.handle), page.box()
    plain = painting.plain_text(MAX_PAGE_OBJECTS)
    if plain is not None and is_seen(plain, area):
        return Verdict()
    things = [*painting.things(MAX_PAGE_OBJECTS, MAX_FORM_DEPTH), *painting.notes(MAX_PAGE_NOTES)]
    verdict = judge(things, area)
    found.undecided += verdict.undecided + painting.cut
    scanned = recognised(things, verdict, area, pixels_of)
    verdict.hidden -= scanned
    found.recognised += bool(scanned)
    return verdict


def _visible(page: pdfium.Page, text: str, verdict: Verdict) -> tuple[str, int]:
    """Return the text of a page with breaks for what is hidden, and how many letters that is."""
    area, kept, hidden, gone = page.box(), list(text), 0, False
    for char, handle in enumerate(page.objects(len(text))):
        if handle is not None:  # a space that PDFium put in goes with what is before it
            gone = handle in verdict.hidden or (
                handle in verdict.partly and not inside(page.char_box(char), area)
            )
        if gone:
            hidden += not text[char].isspace()
            kept[char] = "\n"
    return "".join(kept), hidden


def about(document: pdfium.Document) -> Metadata:
    """Return what the document says of itself; anybody can write anything there."""
    record = Record("url")
    record.set_title(document.info(b"Title"))
    for name in document.info(b"Author").split(";"):  # a comma may be part of a name
        if name.strip():
            record.add_author(name)
    return record.finished()
