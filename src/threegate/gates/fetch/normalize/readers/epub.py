"""EPUB: the chapters of a book in the order of its spine, in parts by heading.

Each chapter is a page: `hidden_html` takes out what a reader would not see.  Sheets that lie in
the book are applied; others are counted as `hidden-undecided`.

SECURITY
    Reads hostile bytes with zlib and lexbor, in the box of `fetch-html`.  Bounds of an archive, of
    XML and of a page all apply.  Scripts, media and references to outside are never loaded.
"""

import posixpath
import re
from typing import Final
from urllib.parse import unquote

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.excerpts import MAX_RAW_CHARS
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers.archive import Archive
from threegate.gates.fetch.normalize.readers.charset import decoded
from threegate.gates.fetch.normalize.readers.hidden_html import remove_hidden
from threegate.gates.fetch.normalize.readers.html import MAX_HTML_BYTES
from threegate.gates.fetch.normalize.readers.html_bounds import check_bounds
from threegate.gates.fetch.normalize.readers.opc import read_dublin_core, tree
from threegate.gates.fetch.normalize.readers.sections import Sections
from threegate.gates.fetch.normalize.text import Document, Part, Unread
from threegate.gates.fetch.sources import dates
from threegate.gates.fetch.sources.fields import Record
from threegate.gates.fetch.xml import Element

MAX_CHAPTERS: Final = 2_000
MAX_BOOK_BYTES: Final = 32 * 2**20  # of all chapters
MAX_SHEET_BYTES: Final = 200_000  # of a chapter's sheets together
CONTAINER, ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_PAGES: Final = ("application/xhtml+xml", "text/html")
_FONTS: Final = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
_BLOCKS: Final = frozenset(
    """address article aside blockquote body br dd div dl dt figcaption figure footer header hr li
    main nav ol p pre section table tr ul""".split()  # noqa: SIM905
)
_CELLS: Final = ("td", "th")
# XML may close an element in its first tag; for HTML it would go on, a `<title/>` to the end.
_SELF_CLOSED: Final = re.compile(r"<([A-Za-z][A-Za-z0-9]{0,20})((?:\s[^<>]{0,2000})?)/>")
# XHTML is read by the standard, whatever its document type says.
_PROLOGUE: Final = re.compile(
    r"\A\s*(?:<\?xml[^>]{0,500}>\s*)?(?:<!DOCTYPE[^>\[]{0,500}>)?", re.IGNORECASE
)
_VOID: Final = frozenset(
    {*("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"), "wbr"}
)


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the chapters of a book, or raise `Unread`."""
    book, record = _Book(Archive(raw)), Record(answer.source)
    book.read_claims(record)
    return Document(book.read_chapters(), record.finished(), found=book.found())


def _closed(match: re.Match[str]) -> str:
    name = match[1]
    return match.group() if name.lower() in _VOID else f"<{name}{match[2]}></{name}>"


class _Book:
    """A book that is open."""

    def __init__(self, archive: Archive) -> None:
        self._archive, self._names = archive, frozenset(archive.names())
        root = tree(archive.read(CONTAINER)).first("rootfiles", "rootfile")
        if root is None:
            raise Unread("damaged", "the book does not say what it consists of")
        self._opf = root.attributes.get("full-path", "")
        self._package = tree(archive.read(self._opf))
        self._encrypted = self._locked()
        self._counts = {"hidden-text": 0, "hidden-undecided": 0, "truncated": 0}

    def read_claims(self, record: Record) -> None:
        """Copy what the book says of itself into `record`."""
        metadata = self._package.first("metadata") or Element("metadata")
        read_dublin_core(metadata, record)
        for date in metadata.children("date"):
            record.set_published(dates.from_text(date.text()))
        for rights in metadata.children("rights"):
            record.set_licence(rights.text())

    def read_chapters(self) -> tuple[Part, ...]:
        """Return the text of the spine."""
        parts: list[Part] = []
        names, left, room = self._spine(), MAX_BOOK_BYTES, MAX_RAW_CHARS
        for number, name in enumerate(names, 1):
            if name in self._encrypted:
                raise Unread("encrypted", "its chapters are encrypted")
            raw = self._archive.read(name)
            size = len(raw.open_for_validation())
            left -= size
            if left < 0 or room < 0 or number > MAX_CHAPTERS:
                self._counts["truncated"] += 1
                break
            made = self._chapter(raw, name, f"chapter {number}")
            room -= sum(len(part.text.open_for_validation()) for part in made)
            parts += made
        return tuple(parts)

    def found(self) -> dict[str, int]:
        """Return what was counted."""
        return {name: count for name, count in self._counts.items() if count}

    def _locked(self) -> frozenset[str]:
        """Return the members that are encrypted; fonts may be."""
        if ENCRYPTION not in self._names:
            return frozenset()
        found = set()
        for data in tree(self._archive.read(ENCRYPTION)).children("EncryptedData"):
            method = data.first("EncryptionMethod") or Element("EncryptionMethod")
            target = data.first("CipherData", "CipherReference")
            if target is not None and method.attributes.get("Algorithm") not in _FONTS:
                found.add(unquote(target.attributes.get("URI", "")))
        return frozenset(found)

    def _spine(self) -> list[str]:
        """Return the names of the chapters."""
        pages = {
            item.attributes.get("id", ""): self._place(self._opf, item.attributes.get("href", ""))
            for item in self._package.every("manifest", "item")
            if item.attributes.get("media-type") in _PAGES
        }
        named = [
            item.attributes.get("idref", "") for item in self._package.every("spine", "itemref")
        ]
        found = [pages[name] for name in dict.fromkeys(named) if name in pages]
        if not found:
            raise Unread("damaged", "the book has no chapters")
        return found

    def _place(self, base: str, href: str) -> str:
        path = unquote(href.partition("#")[0])
        return posixpath.normpath(posixpath.join("/", posixpath.dirname(base), path)).lstrip("/")

    def _chapter(self, raw: Untrusted[bytes], name: str, label: str) -> list[Part]:
        untrusted = raw.open_for_validation()
        if len(untrusted) > MAX_HTML_BYTES:
            raise Unread("too-large", f"{len(untrusted)} bytes, limit {MAX_HTML_BYTES}")
        text = _SELF_CLOSED.sub(_closed, _PROLOGUE.sub("<!DOCTYPE html>", decoded(untrusted)))
        page = self._parsed(text, name)
        removed = remove_hidden(page)
        self._counts["hidden-text"] += removed.hidden
        self._counts["hidden-undecided"] += removed.undecided
        chapter = _Chapter(label)
        if page.body is not None:
            chapter.walk(page.body)
        return list(chapter.parts())

    def _parsed(self, text: str, name: str) -> LexborHTMLParser:
        """Return a chapter with the sheets of the book in place of the links to them."""
        check_bounds(text)
        try:
            page = LexborHTMLParser(text)
            hrefs = [
                link.attributes.get("href") or "" for link in page.css('link[rel~="stylesheet" i]')
            ]
            sheets = [self._sheet(self._place(name, href)) for href in hrefs]
            head, found, rest = text.partition("</head>")
            if not hrefs or None in sheets or not found:
                return page
            styles = "".join(f"<style>{sheet}</style>" for sheet in sheets)
            if len(styles) > MAX_SHEET_BYTES:
                return page
            page = LexborHTMLParser(f"{head}{styles}{found}{rest}")
        except SelectolaxError as exc:
            raise Unread("damaged", "a chapter cannot be parsed") from exc
        for link in page.css('link[rel~="stylesheet" i]'):
            link.decompose()
        return page

    def _sheet(self, name: str) -> str | None:
        if name not in self._names or not name.endswith(".css"):
            return None
        text = self._archive.read(name).open_for_validation().decode("utf-8", "replace")
        return None if "</style" in text.lower() else text


class _Chapter:
    """The text of one chapter in the making."""

    def __init__(self, label: str) -> None:
        self._sections = Sections(label)
        self._text: list[str] = []

    def parts(self) -> tuple[Part, ...]:
        self._flush()
        return self._sections.parts()

    def walk(self, node: LexborNode) -> None:
        """Read an element; the page has bounds, so the depth has one."""
        for child in node.iter(include_text=True):
            tag = child.tag or ""
            if tag == "-text":
                self._text.append((child.text(deep=False) or "").replace("\n", " "))
            elif tag in _HEADINGS:
                self._flush()
                self._sections.begin(child.text(deep=True) or "")
            elif tag in _BLOCKS:
                self._text.append("\n")
                self.walk(child)
                self._text.append("\n")
            else:
                self.walk(child)
                self._text.append(" | " if tag in _CELLS else "")

    def _flush(self) -> None:
        lines = "".join(self._text).split("\n")
        self._text = []
        for line in lines:
            if line := " ".join(line.split()):
                self._sections.add(line)
