"""Media types of the documents that FETCH's readers read."""

from typing import Final

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
