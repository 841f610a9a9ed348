"""The text of a PDF in parts: sections by page, captions with their tables, footnotes.

A part is named by its page and what it is: `page iv: 2 Methods`, `page 7: Table 3`, `page 9:
footnotes`.  Captions, tables and footnotes come after the running text of their page.

SECURITY
    Characters of a hostile file; what is a heading is a guess from sizes, and only names a part.
    Pure.  If this module is wrong, a part has the wrong name; its page is PDFium's.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from threegate.artifacts.limits import MAX_EXCERPTS
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.readers.pdf_furniture import running_lines, spoken
from threegate.gates.fetch.normalize.readers.pdf_order import Block
from threegate.gates.fetch.normalize.readers.pdf_paragraphs import Words, paragraphs
from threegate.gates.fetch.normalize.readers.pdf_tables import CELL_MARK
from threegate.gates.fetch.normalize.text import Part

MAX_PARTS: Final = MAX_EXCERPTS * 3 // 4  # a long one becomes several excerpts
_MAX_LABEL_CHARS: Final = 160
_MAX_HEADING_LINES: Final = 3
_MAX_HEADING_CHARS: Final = 150
_LARGE: Final = 1.12  # times the size of most letters
_SMALL: Final = 0.93
_FAR_EMS: Final = 2.0  # below the block before; a sentence does not go on there
_HEADING: Final = re.compile(r"(?:(?:\d+|[A-Z]|[IVX]+)(?:\.\d+)*\.?\s+)?[^\W\d_]{2,}")
_CAPTION: Final = re.compile(
    r"((?:Fig(?:ure|ura|\.)?|Table|Tab\.|Abb(?:ildung|\.)|Tabelle|Tableau|Tabla|Scheme|Algorithm"
    r"|Listing|Supplementary (?:Fig(?:ure|\.)|Table)|FIG(?:URE|\.)|TABLE|图|表|図)\s?"
    r"(?:[A-Z]?\d+(?:[.-]\d+)?[a-z]?|[IVX]+))(?:\s*[.:|：—–]|\s*$|\s+(?=[A-Z][a-z]+ [a-z]))"
)
_TABLE: Final = re.compile(r"(?i)ta[bv]|list|alg|表|supplementary t")
_CAPITALS: Final = re.compile(r"(?:[IVX]+|\d+(?:\.\d+)*)\.?\s+[A-Z][A-Z\s:,-]{3,}$")
_FOOTNOTE: Final = re.compile(r"(?:\d{1,3}|[*†‡§¶∗])\s*(?=\S*[^\W\d_])")
_SENTENCE_END: Final = ".!?:;。！？"


@dataclass(frozen=True, slots=True)
class PageText:
    """The blocks of a page in the order in which they are read."""

    number: int
    label: str
    blocks: list[Block]


@dataclass(slots=True)
class _Piece:
    """A piece of text that is made into a part."""

    name: str
    paragraphs: list[str] = field(default_factory=list)
    bare: bool = True  # nothing but headings, or a caption, so far
    last: Block | None = None  # whose last paragraph may go on in the next one


def parts_of(pages: Sequence[PageText]) -> list[Part]:
    """Return the parts of a document."""
    words = Words([line.text for page in pages for block in page.blocks for line in block.lines])
    left_out = _without_furniture(pages)
    body, heading = _body_em(pages), ""
    found: list[list[_Piece]] = []
    for page in pages:
        maker = _Pieces(body, heading, words)
        maker.read(page.blocks)
        found.append(maker.pieces())
        heading = maker.heading
    return [*_fitted(pages, found), *left_out]


def _body_em(pages: Sequence[PageText]) -> float:
    """Return the size of most letters."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for block in page.blocks:
            sizes[round(block.em * 4) / 4] += sum(len(line.text) for line in block.lines)
    return max(sizes, key=lambda size: (sizes[size], size), default=0.0)


def _without_furniture(pages: Sequence[PageText]) -> list[Part]:
    """Take running heads and feet out of the pages; return a part with one of each."""
    kept: dict[str, str] = {}
    count = 0
    for page, lines in zip(pages, running_lines([page.blocks for page in pages]), strict=True):
        gone = {id(line) for line in lines}
        blocks = [replaced for block in page.blocks if (replaced := _without(block, gone))]
        if not gone or not blocks:
            continue
        page.blocks[:] = blocks
        count += len(lines)
        for line in lines:
            kept.setdefault(spoken(line.text), line.text)
    texts = [text for key, text in kept.items() if any(map(str.isalpha, key))]
    if not texts:
        return []
    label = f"running heads and feet, {count} lines left out of the pages"
    return [Part(Untrusted(label), Untrusted("\n".join(texts)))]


def _without(block: Block, gone: set[int]) -> Block | None:
    lines = [line for line in block.lines if id(line) not in gone]
    if len(lines) == len(block.lines):
        return block
    if not lines:
        return None
    left = Block(lines[:1])
    for line in lines[1:]:
        left.add(line)
    return left


class _Pieces:
    """The parts of one page while its blocks are read."""

    def __init__(self, body: float, heading: str, words: Words) -> None:
        self.heading = heading
        self._body, self._words = body, words
        self._flow = [_Piece(heading)]
        self._apart: list[_Piece] = []
        self._notes = _Piece("footnotes")

    def pieces(self) -> list[_Piece]:
        """Return what was found, the running text first."""
        return [piece for piece in (*self._flow, *self._apart, self._notes) if piece.paragraphs]

    def read(self, blocks: Sequence[Block]) -> None:
        """Put each block where it belongs."""
        caption: _Piece | None = None  # of the block before
        rows: list[str] = []  # of a table whose caption may follow
        for block in blocks:
            texts = paragraphs(block, self._words)
            if block.lines[0].is_row:
                (caption.paragraphs if caption and caption.bare else rows).extend(texts)
                continue
            match = _CAPTION.match(texts[0])
            if match is not None:
                is_table = _TABLE.match(match[1]) is not None
                caption = _Piece(match[1], [texts[0]], bare=is_table and not rows)
                self._apart.append(caption)
                if is_table:
                    caption.paragraphs += rows
                    rows = []
                texts = texts[1:]
            self._add(rows, None)
            rows = []
            if texts:
                caption = None
                self._place(block, texts)
        self._add(rows, None)

    def _place(self, block: Block, texts: list[str]) -> None:
        if self._is_heading(block, texts):
            self._head(" ".join(texts))
        elif block.em < _SMALL * self._body and self._is_footnote(texts[0]):
            self._notes.paragraphs += texts
        else:
            self._add(texts, block)

    def _is_footnote(self, text: str) -> bool:
        return _FOOTNOTE.match(text) is not None

    def _is_heading(self, block: Block, texts: Sequence[str]) -> bool:
        text = " ".join(texts)
        if len(block.lines) > _MAX_HEADING_LINES or len(text) > _MAX_HEADING_CHARS:
            return False
        if block.lines[0].turned or not _HEADING.match(text):
            return False
        if block.em >= _LARGE * self._body or _CAPITALS.match(text):
            return True
        return block.lines[0].bold and block.em > _SMALL * self._body and text[-1] not in ",;-"

    def _head(self, text: str) -> None:
        self.heading = text
        if self._flow[-1].bare and self._flow[-1].paragraphs:
            self._flow[-1].name = text
        else:
            self._flow.append(_Piece(text))
        self._flow[-1].paragraphs.append(text)

    def _add(self, texts: Sequence[str], block: Block | None) -> None:
        if not texts:
            return
        piece = self._flow[-1]
        if piece.last and block and _goes_on(piece.last, block):
            piece.paragraphs[-1] = self._words.joined(piece.paragraphs[-1], texts[0])
            texts = texts[1:]
        piece.paragraphs += texts
        piece.bare, piece.last = False, block


def _goes_on(block: Block, following: Block) -> bool:
    """Tell whether the last sentence of a block goes on in the next one."""
    text, then = block.lines[-1].text, following.lines[0].text
    if text[-1] in _SENTENCE_END or not (then[0].islower() or text[-1] == "-"):
        return False
    return not 0 <= block.bottom - following.top > _FAR_EMS * block.em


def _fitted(pages: Sequence[PageText], found: Sequence[Sequence[_Piece]]) -> Iterator[Part]:
    """Yield a part for each piece; for each page, or several, if there were too many."""
    together = -(-len(pages) // MAX_PARTS)
    if sum(map(len, found)) <= MAX_PARTS:
        for page, pieces in zip(pages, found, strict=True):
            for piece in pieces:
                name = f": {piece.name}" if piece.name else ""
                yield _part(f"page {page.label}{name}", piece.paragraphs, page.number)
        return
    for at in range(0, len(pages), together):
        first, last = pages[at], pages[at : at + together][-1]
        texts = [
            text
            for pieces in found[at : at + together]
            for piece in pieces
            for text in piece.paragraphs
        ]
        label = f"pages {first.label}-{last.label}" if together > 1 else f"page {first.label}"
        if texts:
            yield _part(label, texts, first.number)


def _part(label: str, texts: Sequence[str], number: int) -> Part:
    return Part(Untrusted(label[:_MAX_LABEL_CHARS]), Untrusted(_joined(texts)), number)


def _joined(texts: Sequence[str]) -> str:
    """Return paragraphs with blank lines between them; the rows of a table stay together.

    A blank line ends a sentence (`base/sentences.py`), so a heading is not quoted with the
    paragraph below it.
    """
    joined = texts[0]
    for before, text in pairwise(texts):
        rows = CELL_MARK in before and CELL_MARK in text
        joined += ("\n" if rows else "\n\n") + text
    return joined
