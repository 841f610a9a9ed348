"""The media type of a file: by its content, with its name as a hint.

Bytes that begin like a binary format are that format, whatever the file is called.  Text is
read as its name says; a name that says nothing, or promises a binary format, leaves it to the
first words.  A file that two readers could take for their own is refused.

SECURITY
    Looks at bytes of unknown origin on the host: comparisons of fixed bytes, and one bounded walk
    over the list of names in a ZIP file.  Nothing is unpacked or decoded.  A wrong answer sends a
    file to a sandbox that refuses it.
"""

import re
from collections.abc import Iterator
from typing import Final

from threegate.artifacts import media_types as types
from threegate.base.errors import ArtifactRejected

HEAD_BYTES: Final = 65_536
PDF_HEAD_BYTES: Final = 1_024  # as many as may come before the header of a PDF
MAX_MEMBERS: Final = 10_000  # names in a ZIP file that are looked at
UNREAD_TYPE: Final = "TG-IMP-010"  # the format is not read here
TWO_TYPES: Final = "TG-IMP-011"  # two formats at once

_AS_DOCX: Final = "save it as DOCX, ODT or PDF"
_AS_PAGE: Final = "open it in a browser and save it as HTML, or print it to a PDF"
_UNPACK: Final = "unpack it and import the folder"
_PICTURE: Final = "a picture has no text; put it into a PDF to have it read by OCR"
_PROGRAM: Final = "only documents, data and text are imported"
_SOUND: Final = "import a transcript of it"

# How formats that are not read here begin: place, bytes, name, and what to do instead.
_REFUSED: Final = (
    (0, b"{\\rtf", "RTF", _AS_DOCX),
    (
        0,
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "an old Office file (DOC, XLS, PPT) or a password-protected one",
        "open it in an office program and save it as DOCX, XLSX, PPTX or PDF without a password",
    ),
    (60, b"BOOKMOBI", "MOBI", "convert it to EPUB, for example with Calibre"),
    (0, b"AT&TFORM", "DjVu", "convert it to PDF with `ddjvu -format=pdf`"),
    (0, b"%!PS", "PostScript", "convert it to PDF with `ps2pdf`"),
    (0, b"\xc5\xd0\xd3\xc6", "PostScript", "convert it to PDF with `ps2pdf`"),
    (0, b"bplist", "a Safari web archive or another property list", _AS_PAGE),
    (0, b"PAR1", "Parquet", "convert it to CSV, or give it to a run as it is: `--input NAME=FILE`"),
    (0, b"SQLite format 3\0", "an SQLite database", "export its tables as CSV"),
    (0, b"\x89PNG", "PNG", _PICTURE),
    (0, b"GIF8", "GIF", _PICTURE),
    (0, b"\xff\xd8\xff", "JPEG", _PICTURE),
    (0, b"II*\0", "TIFF", _PICTURE),
    (0, b"MM\0*", "TIFF", _PICTURE),
    (8, b"WEBP", "WebP", _PICTURE),
    (4, b"ftyp", "a film, a recording or a HEIC picture", _SOUND),
    (0, b"RIFF", "a film or a recording", _SOUND),
    (0, b"OggS", "a recording", _SOUND),
    (0, b"ID3", "a recording", _SOUND),
    *((0, start, "an archive", _UNPACK) for start in (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc")),
    *((0, start, "an archive", _UNPACK) for start in (b"Rar!", b"\x28\xb5\x2f\xfd", b"!<arch>")),
    (257, b"ustar", "an archive", _UNPACK),
    *(
        (0, start, "a program", _PROGRAM)
        for start in (b"\x7fELF", b"MZ", b"\0asm", b"\xca\xfe\xba")
    ),
)
_NOT_ARCHIVED: Final = {  # ZIP files that are not read, by the ending of their names
    "pages": ("Pages", "export it from Pages as DOCX or PDF"),
    "key": ("Keynote", "export it from Keynote as PPTX or PDF"),
    "numbers": ("Numbers", "export it from Numbers as XLSX or CSV"),
    "odp": ("ODP", "save it as PPTX or PDF"),
    "ods": ("ODS", "save it as XLSX or CSV"),
}
_OPENXML: Final = {"word/": types.DOCX, "ppt/": types.PPTX, "xl/": types.XLSX}
_OPENXML_LIST: Final = "[Content_Types].xml"
_BOOK_LIST: Final = "META-INF/container.xml"
_STATED: Final = {  # types that the first member of a file states
    b"application/epub+zip": types.EPUB,
    b"application/vnd.oasis.opendocument.text": types.ODT,
}
_NAMED: Final = {
    ending: kind
    for kind, endings in {
        types.MARKDOWN: "md markdown mdown mkd qmd rmd",
        types.LATEX: "tex latex ltx",
        types.HTML: "html htm xhtml xht",
        types.XML: "xml nxml jats tei",
        types.JSON: "json geojson",
        types.JSON_LINES: "jsonl ndjson",
        types.NOTEBOOK: "ipynb",
        types.CSV: "csv",
        types.TSV: "tsv tab",
        types.TEXT: """txt text log rst org adoc asc bib ris py r c h cc cpp hpp rs go java js ts sh
        bash sql toml ini cfg conf yaml yml css diff patch""",
    }.items()
    for ending in endings.split()
}
# What a text must begin with to be read as its name says.
_BEGINS: Final = {types.XML: b"<", types.JSON: b'{["-0123456789tfn', types.NOTEBOOK: b"{"}
_HTML: Final = re.compile(
    rb"<(?:!doctype[\t\n\f\r ]+html|html|head|body|title|script|style|iframe|h1|div|table|p)"
    rb"(?=[\t\n\f\r >/])",
    re.IGNORECASE,
)
_PROLOGUE: Final = re.compile(rb"(?:\s+|<\?[^>]{0,500}\?>|<!--.{0,500}?-->)*", re.DOTALL)
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File-")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x19\x1c-\x1f]")


def detect(name: str, data: bytes) -> str:
    """Return the media type that a file is read as; raise `ArtifactRejected`."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    if not data.strip():
        raise _refused("the file is empty", "only files with text or data are imported")
    has_pdf = b"%PDF-" in data[:PDF_HEAD_BYTES]
    if data.startswith(b"%PDF-"):
        return types.PDF
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        if has_pdf:
            raise _two("a ZIP file and a PDF")
        return _archive(ending, data)
    for place, start, kind, advice in _REFUSED:
        if data.startswith(start, place):
            raise _refused(f"{kind} is not read", advice)
    return _text(ending, data[:HEAD_BYTES], has_pdf=has_pdf)


def _text(ending: str, head: bytes, *, has_pdf: bool) -> str:
    """Return the type of a file that begins like no binary format."""
    text = _without_mark(head).lstrip()
    root = text[_PROLOGUE.match(text).end() :]  # type: ignore[union-attr]  # it matches nothing too
    is_page = _HTML.match(root) is not None
    if has_pdf and ending == "pdf":  # readers of PDF skip what comes before the header
        if is_page:
            raise _two("a web page and a PDF")
        return types.PDF
    if _PRIVATE_KEY.match(text):  # its packet could be shown to a model
        raise _refused("a private key is not imported", "keep keys outside of such folders")
    if _CONTROL.search(text):
        raise _refused("the format is not known here", "save it as PDF, DOCX or plain text")
    if ending in ("mht", "mhtml") or text.startswith(b"From: <Saved by "):
        raise _refused("a web archive (MHT) is not read", _AS_PAGE)
    named = _NAMED.get(ending, "")
    if named == types.XML and is_page:
        return types.HTML
    if named and text.startswith(tuple(bytes([byte]) for byte in _BEGINS.get(named, b""))):
        return named
    return named if named and named not in _BEGINS else _sniffed(text, root, is_page=is_page)


def _sniffed(text: bytes, root: bytes, *, is_page: bool) -> str:
    """Return the type of a text whose name does not help."""
    if is_page:
        return types.HTML
    if text.startswith(b"<?xml") or root.startswith(b"<!DOCTYPE"):
        return types.XML
    if re.match(rb'\{\s*["}]|\[\s*[\[\]{"0-9tfn-]', text):
        return types.NOTEBOOK if b'"nbformat"' in text and text[:1] == b"{" else types.JSON
    # Blanks of one line only: with `\s*` 65 kB of line breaks took 15 seconds.
    if re.search(rb"(?m)^[ \t]*\\documentclass", text):
        return types.LATEX
    return types.TEXT


def _archive(ending: str, data: bytes) -> str:
    """Return the type of a ZIP file; only the list of its names is looked at."""
    stated = _stated(data)
    if stated in _STATED:
        return _STATED[stated]
    names = list(_members(data))
    if not names:
        raise _refused("the file is damaged: its end is missing", "copy or download it again")
    if ending in _NOT_ARCHIVED or any(name.endswith(".iwa") for name in names):
        kind, advice = _NOT_ARCHIVED.get(ending, _NOT_ARCHIVED["pages"])
        raise _refused(f"{kind} is not read", advice)
    found = [kind for folder, kind in _OPENXML.items() if any(n.startswith(folder) for n in names)]
    if _OPENXML_LIST in names and len(found) == 1:
        return found[0]
    if len(found) > 1:
        raise _two("two kinds of Office file")
    if not found and _BOOK_LIST in names:  # packed by a program that does not state the type first
        return types.EPUB
    if not found and ending == "odt" and "content.xml" in names:
        return types.ODT
    raise _refused("an archive is not read", _UNPACK)


def _stated(data: bytes) -> bytes:
    """Return the type that a file states in its first member, stored as it is."""
    if data[30:38] != b"mimetype" or data[8:10] != b"\0\0":
        return b""
    start = 38 + int.from_bytes(data[28:30], "little")
    size = int.from_bytes(data[22:26], "little")
    return data[start : start + min(size, 100)].strip()


def _members(data: bytes) -> Iterator[str]:
    """Yield the names in the list at the end of a ZIP file."""
    end = data.rfind(b"PK\x05\x06", max(0, len(data) - 65_557))
    if end < 0:
        return
    at = int.from_bytes(data[end + 16 : end + 20], "little")
    for _ in range(MAX_MEMBERS):
        if data[at : at + 4] != b"PK\x01\x02":
            return
        name, extra, comment = (
            int.from_bytes(data[at + place : at + place + 2], "little") for place in (28, 30, 32)
        )
        yield data[at + 46 : at + 46 + name].decode("utf-8", "replace")
        at += 46 + name + extra + comment


def _without_mark(head: bytes) -> bytes:
    """Return a text without its byte order mark; UTF-16 becomes UTF-8."""
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if head.startswith(mark):
            return head[2:].decode(encoding, "replace").encode("utf-8", "replace")
    return head.removeprefix(b"\xef\xbb\xbf")


def _refused(what: str, advice: str) -> ArtifactRejected:
    return ArtifactRejected(what, code=UNREAD_TYPE, hint=advice)


def _two(what: str) -> ArtifactRejected:
    hint = "open it in the program it is meant for and save it again"
    return ArtifactRejected(f"the file is {what} at once", code=TWO_TYPES, hint=hint)
