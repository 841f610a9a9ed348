"""A report as PDF: lines broken and drawn here, in plain Python.

SECURITY
    Draws foreign text without any native code: nothing that a source wrote is parsed, it is
    measured byte by byte and written as digits.  An image comes as points, packed by the host.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from threegate.base.text import visible
from threegate.host.provenance.graph import as_text
from threegate.host.report.facts import (
    Block,
    Cells,
    Command,
    DrawnPicture,
    Foreign,
    Heading,
    Picture,
    ReportImage,
    ReportLine,
    ReportList,
    Span,
    Title,
)
from threegate.host.report.pdf_file import HEIGHT, WIDTH, Font, Mark, assemble, encoded, hexadecimal
from threegate.host.review.characters import in_columns, in_lines, on_one_line

_LEFT, _TOP, _BOTTOM, _ROOM = 56.0, 786.0, 64.0, WIDTH - 112.0
_BODY, _CODE, _SMALL = 9.5, 8.5, 7.5
_POINT, _TALLEST = 0.75, 480.0  # a point of an image as on a screen; no page of image alone
_TITLE: Final = 15.0
_HEADINGS: Final = {2: 13.0, 3: 10.5}
_BLACK, _BROWN, _RED, _GREY = b"0 g", b"0.16 0.11 0 rg", b"0.65 0 0 rg", b"0.4 g"
_GROUND, _BAR = b"0.957 0.945 0.91 rg", b"0.71 0.61 0.23 rg"
_WORD: Final = re.compile(rb"[^ ]+ *| +")


@dataclass(frozen=True, slots=True)
class Run:
    """Bytes in one look."""

    text: bytes
    font: Font = Font.BODY
    size: float = _BODY
    colour: bytes = _BLACK

    @property
    def width(self) -> float:
        """Its room in points; blanks at the end of a line need none."""
        return self.font.width(self.text.rstrip(b" "), self.size)


@dataclass(slots=True)
class _PageSheet:
    """Pages while they are filled from top to bottom."""

    pages: list[list[bytes]] = field(default_factory=lambda: [[]])
    marks: list[Mark] = field(default_factory=list)
    images: list[ReportImage] = field(default_factory=list)
    y: float = _TOP

    def down(self, by: float, *, keep: float = 0.0) -> None:
        """Go down to the next line, on a new page where this one has no room."""
        self.y -= by
        if self.y < _BOTTOM + keep:
            self.pages.append([])
            self.y = _TOP - by

    def put(self, command: bytes) -> None:
        """Draw on the page that is being filled."""
        self.pages[-1].append(command)


def as_pdf(blocks: list[Block]) -> bytes:
    """Return a report as PDF."""
    title = encoded(visible(next(one.text for one in blocks if isinstance(one, Title))))
    sheet = _PageSheet()
    for block in blocks:
        _draw(sheet, block)
    total = len(sheet.pages)
    pages = [
        b"\n".join([*page, _footer(title, number, total)])
        for number, page in enumerate(sheet.pages, 1)
    ]
    return assemble(title, pages, sheet.marks, sheet.images)


def _draw(sheet: _PageSheet, block: Block) -> None:
    match block:
        case Title() | Heading():
            _heading(sheet, block)
        case ReportLine():
            _lines(sheet, [*map(_run, block.spans)], gap=4)
        case ReportList(lines):
            for one in lines:
                _lines(sheet, [Run(b"- "), *map(_run, one.spans)], indent=8)
            sheet.down(4)
        case Foreign(text):
            _foreign(sheet, in_lines(text))
        case Cells(rows):
            _foreign(sheet, in_columns(rows))
        case DrawnPicture(image):
            _image(sheet, image)
        case Command(text):
            _lines(sheet, [Run(encoded(visible(text)), Font.CODE, _CODE)], indent=8)
        case Picture(graph):
            _tree(sheet, as_text(graph).split("\n"))


def _run(span: Span) -> Run:
    match span.style:
        case "foreign":
            return Run(encoded(on_one_line(span.text)), Font.CODE, _CODE, _BROWN)
        case "mono":
            return Run(encoded(visible(span.text)), Font.CODE, _CODE)
        case "loud":
            return Run(encoded(visible(span.text)), Font.BOLD, _BODY, _RED)
        case "cite":
            return Run(b"[%d]" % int(span.text))
        case "plain":
            return Run(encoded(visible(span.text)))


def _title(sheet: _PageSheet, title: Title) -> None:
    text = encoded(visible(title.text))
    sheet.marks.append(Mark(text, len(sheet.pages) - 1, sheet.y + _TITLE))
    _foreign_line(sheet, on_one_line(title.foreign), Font.BOLD, _TITLE)
    sheet.down(8)


def _heading(sheet: _PageSheet, heading: Title | Heading) -> None:
    if isinstance(heading, Title):
        _title(sheet, heading)
        return
    size = _HEADINGS[heading.level]
    text = encoded(visible(heading.text))
    sheet.down(size * 0.6, keep=4 * size)  # never the last line of a page
    runs = [Run(text, Font.BOLD, size)]
    if heading.foreign:
        last = encoded(on_one_line(heading.foreign))
        runs += [Run(b" ", Font.BOLD, size), Run(last, Font.CODE, size - 1, _BROWN)]
    _lines(sheet, runs, gap=3)
    if heading.level <= 2:
        sheet.marks.append(Mark(text, len(sheet.pages) - 1, sheet.y + 2 * size))


def _lines(sheet: _PageSheet, runs: Sequence[Run], *, indent: float = 0, gap: float = 0) -> None:
    for one in broken(runs, _ROOM - indent):
        sheet.down(1.35 * max(run.size for run in one))
        sheet.put(_text(one, _LEFT + indent, sheet.y))
    sheet.down(gap)


def _tree(sheet: _PageSheet, lines: Sequence[str]) -> None:
    for words in lines:
        _lines(sheet, [Run(encoded(words), Font.CODE, _SMALL, _BROWN)], indent=8)
    sheet.down(4)


def _foreign(sheet: _PageSheet, lines: Sequence[str]) -> None:
    for words in lines:
        _foreign_line(sheet, words)
    sheet.down(4)


def _foreign_line(
    sheet: _PageSheet, text: str, font: Font = Font.CODE, size: float = _CODE
) -> None:
    run = Run(encoded(text), font, size, _BROWN)
    height = 1.35 * size
    for one in broken([run], _ROOM - 12):
        sheet.down(height)
        low = sheet.y - 2.6
        sheet.put(b"%s %.2f %.2f %.2f %.2f re f" % (_GROUND, _LEFT, low, _ROOM, height))
        sheet.put(b"%s %.2f %.2f 2.5 %.2f re f" % (_BAR, _LEFT, low, height))
        sheet.put(_text(one, _LEFT + 8, sheet.y))


def _image(sheet: _PageSheet, image: ReportImage) -> None:
    scale = min(_POINT, (_ROOM - 8) / image.width, _TALLEST / image.height)
    wide, high = image.width * scale, image.height * scale
    sheet.down(high + 4)
    sheet.put(b"%s %.2f %.2f 2.5 %.2f re f" % (_BAR, _LEFT, sheet.y, high))
    place = (wide, high, _LEFT + 8, sheet.y, len(sheet.images))
    sheet.put(b"q %.2f 0 0 %.2f %.2f %.2f cm /Im%d Do Q" % place)
    sheet.images.append(image)
    sheet.down(4)


def _text(runs: Sequence[Run], x: float, y: float) -> bytes:
    shown = b" ".join(
        b"/%s %.1f Tf %s %s Tj" % (run.font.name.encode(), run.size, run.colour, _string(run))
        for run in runs
    )
    return b"BT %.2f %.2f Td %s ET" % (x, y, shown)


def _string(run: Run) -> bytes:
    return hexadecimal(run.text)


def _footer(title: bytes, number: int, total: int) -> bytes:
    words = title + b", page %d of %d" % (number, total)
    return _text([Run(words, Font.BODY, _SMALL, _GREY)], _LEFT, HEIGHT - 806.0)


def broken(runs: Sequence[Run], room: float) -> Iterator[list[Run]]:
    """Yield lines that fit; a word longer than a line is broken anywhere, and nothing is lost."""
    row: list[Run] = []
    left = room
    for run in runs:
        for piece in _pieces(run, room):
            if row and piece.width > left:
                yield _joined(row)
                row, left = [], room
            row.append(piece)
            left -= piece.font.width(piece.text, piece.size)
    yield _joined(row or [Run(b"", size=runs[0].size)])


def _pieces(run: Run, room: float) -> Iterator[Run]:
    # As many letters as fit in any case, however wide they are.
    most = max(1, int(room / run.font.width(b"@", run.size)))
    for found in _WORD.finditer(run.text):
        word = found.group()
        cut = [word] if len(word) <= most else _parts(word, most)
        for part in cut:
            yield Run(part, run.font, run.size, run.colour)


def _parts(word: bytes, most: int) -> list[bytes]:
    return [word[start : start + most] for start in range(0, len(word), most)]


def _joined(row: Sequence[Run]) -> list[Run]:
    """Return a line with neighbours of one look in one string."""
    found: list[Run] = []
    for run in row:
        last = found[-1] if found else None
        if last and (last.font, last.size, last.colour) == (run.font, run.size, run.colour):
            found[-1] = Run(last.text + run.text, run.font, run.size, run.colour)
        else:
            found.append(run)
    return found
