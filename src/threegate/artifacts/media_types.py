"""Media types of the documents that FETCH's readers read."""

import re
from collections.abc import Sequence
from typing import Final

from threegate.base.forms import OCR_LANGUAGE

HTML: Final = "text/html"
XHTML: Final = "application/xhtml+xml"
PDF: Final = "application/pdf"
TEXT: Final = "text/plain"
DIFF: Final = "text/x-diff"
MARKDOWN: Final = "text/markdown"
LATEX: Final = "text/x-tex"
XML: Final = "application/xml"
JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"
NOTEBOOK: Final = "application/x-ipynb+json"
CSV: Final = "text/csv"
TSV: Final = "text/tab-separated-values"
EPUB: Final = "application/epub+zip"
ODT: Final = "application/vnd.oasis.opendocument.text"
_OPENXML: Final = "application/vnd.openxmlformats-officedocument"
DOCX: Final = f"{_OPENXML}.wordprocessingml.document"
PPTX: Final = f"{_OPENXML}.presentationml.presentation"
XLSX: Final = f"{_OPENXML}.spreadsheetml.sheet"

OFFICE: Final = frozenset({DOCX, ODT, PPTX, XLSX})  # read in the sandbox `fetch-office`
PAGES: Final = frozenset({HTML, XHTML, EPUB})  # read in the sandbox `fetch-html`

# A PDF whose text was recognised: the languages and the digest of the engine with their data.
MAX_OCR_LANGUAGES: Final = 4
_RECOGNISED: Final = re.compile(r"application/x-tesseract-([a-z.-]+)-[0-9a-f]{16}\+pdf")


def recognised_pdf(languages: Sequence[str], engine: str) -> str:
    """Return the type of a PDF that is read by Tesseract; `engine` is a digest in hex."""
    named = "-".join(languages).replace("_", ".")
    kind = f"application/x-tesseract-{named}-{engine[:16]}+pdf"
    assert languages_of(kind) == tuple(languages), kind
    return kind


def languages_of(kind: str) -> tuple[str, ...]:
    """Return the languages of a PDF that is read by Tesseract; none for any other type."""
    found = _RECOGNISED.fullmatch(kind)
    named = () if found is None else tuple(found[1].replace(".", "_").split("-"))
    known = len(named) <= MAX_OCR_LANGUAGES and all(map(OCR_LANGUAGE.fullmatch, named))
    return named if known else ()


def is_pdf(kind: str) -> bool:
    """Tell whether the bytes are a PDF, however its text was read."""
    return kind == PDF or bool(languages_of(kind))
