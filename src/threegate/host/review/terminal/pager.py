"""A long document on a small screen, and which part of it was on screen.

An approval covers what was shown.  So a character counts as seen when a row with it was drawn, and
the reviewer is told how much was not.  Positions are kept in characters, not in rows: a change of
the terminal's width moves rows and loses neither the place nor what was seen.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from threegate.base.text import visible
from threegate.host.review.parts import StyledLine, StyledSpan, plain
from threegate.host.review.terminal.cells import Spell, breaks, width

_LEAST_ROOM: Final = 8  # cells for text beside a gutter


@dataclass(frozen=True, slots=True, eq=False)
class PagedDocument:
    """Lines to look at; `starts` has the place of each in the whole text."""

    lines: tuple[StyledLine, ...]
    starts: tuple[int, ...]

    @property
    def end(self) -> int:
        """The place after the last line."""
        return self.starts[-1]


@dataclass(frozen=True, slots=True)
class ScreenRow:
    """One row on the screen: characters `start` to `end` of a line."""

    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PagerView:
    """A document, the character at the top of the screen, and what was shown of it so far."""

    document: PagedDocument
    top: int = 0
    seen: tuple[tuple[int, int], ...] = ()
    needle: str = ""


@dataclass(frozen=True, slots=True)
class Unseen:
    """The part of a document that was never on the screen: number of lines, and the first."""

    lines: int
    at: int


def document(lines: Iterable[StyledLine], spell: Spell = visible) -> PagedDocument:
    """Return a document of lines, spelled as the terminal will get them."""
    found = tuple(_spelled(line, spell) for line in lines) or (StyledLine(),)
    starts = [0]
    for line in found:
        starts.append(starts[-1] + len(plain(line.spans)) + 1)
    return PagedDocument(found, tuple(starts))


@lru_cache(maxsize=4)
def layout(found: PagedDocument, columns: int) -> tuple[ScreenRow, ...]:
    """Return the rows of a document in so many columns."""
    places = []
    for number, line in enumerate(found.lines):
        rows = breaks(plain(line.spans), columns - gutter(line, columns))
        places += [ScreenRow(number, start, end) for start, end in rows]
    return tuple(places)


def gutter(line: StyledLine, columns: int) -> int:
    """Return the cells of a line's gutter; none where it would leave too few for the text."""
    found = max(width(line.head.text), width(line.again.text))
    return found if columns - found >= _LEAST_ROOM else 0


def row_at(view: PagerView, columns: int) -> int:
    """Return the number of the row that holds the top."""
    return _row_of(view.document, columns, view.top)


def shown(view: PagerView, columns: int, rows: int) -> tuple[ScreenRow, ...]:
    """Return the rows that are on the screen."""
    top = row_at(view, columns)
    return layout(view.document, columns)[top : top + rows]


def scrolled(view: PagerView, columns: int, rows: int, by: int) -> PagerView:
    """Return the view moved by some rows, as far as there are any."""
    return _to_row(view, columns, rows, row_at(view, columns) + by)


def at_place(view: PagerView, columns: int, rows: int, place: int) -> PagerView:
    """Return the view with a character of the text on its first row, if the end allows it."""
    return _to_row(view, columns, rows, _row_of(view.document, columns, place))


def looked(view: PagerView, columns: int, rows: int) -> PagerView:
    """Return the view with the rows on the screen marked as seen."""
    found = shown(view, columns, rows)
    if not found:
        return view
    begin, end = _position(view.document, found[0]), _after(view.document, found[-1])
    return replace(view, seen=_joined(view.seen, begin, end))


def unseen(view: PagerView) -> Unseen | None:
    """Return what was never on the screen; None if everything was."""
    starts, lines, first = view.document.starts, 0, -1
    for begin, end in _gaps(view.seen, view.document.end):
        first = begin if first < 0 else first
        lines += bisect_left(starts, end) - bisect_right(starts, begin) + 1
    return None if first < 0 else Unseen(lines, first)


def hits(text: str, needle: str) -> list[tuple[int, int]]:
    """Return the places of `needle` in a line, without regard to case."""
    folded, wanted = text.lower(), needle.lower()
    # A few letters change their length in lower case: places would then be wrong.
    if len(folded) != len(text):
        folded, wanted = text, needle
    found, at = [], folded.find(wanted) if wanted else -1
    while at >= 0:
        found.append((at, at + len(wanted)))
        at = folded.find(wanted, at + len(wanted))
    return found


def sought(view: PagerView, columns: int, rows: int, *, back: bool = False) -> PagerView | None:
    """Return the view at the next line with the needle, around the end; None without any."""
    lines = view.document.lines
    here = layout(view.document, columns)[row_at(view, columns)].line
    step = -1 if back else 1
    for distance in range(1, len(lines) + 1):
        number = (here + step * distance) % len(lines)
        found = hits(plain(lines[number].spans), view.needle)
        if found:
            place = view.document.starts[number] + found[0][0]
            return at_place(view, columns, rows, place)
    return None


def _spelled(line: StyledLine, spell: Spell) -> StyledLine:
    spans = tuple(StyledSpan(spell(span.text), span.style) for span in line.spans)
    return replace(line, spans=spans)


def _row_of(found: PagedDocument, columns: int, place: int) -> int:
    rows = layout(found, columns)
    return bisect_right(rows, place, key=lambda row: _position(found, row)) - 1


def _to_row(view: PagerView, columns: int, rows: int, row: int) -> PagerView:
    places = layout(view.document, columns)
    last = max(len(places) - max(rows, 1), 0)
    return replace(view, top=_position(view.document, places[min(max(row, 0), last)]))


def _position(found: PagedDocument, place: ScreenRow) -> int:
    return found.starts[place.line] + place.start


def _after(found: PagedDocument, place: ScreenRow) -> int:
    """Return the place after a row; the end of a line counts as one character."""
    end = found.starts[place.line] + place.end
    return end + 1 if end + 1 == found.starts[place.line + 1] else end


def _joined(seen: tuple[tuple[int, int], ...], begin: int, end: int) -> tuple[tuple[int, int], ...]:
    apart = [part for part in seen if part[1] < begin or part[0] > end]
    touching = [part for part in seen if not (part[1] < begin or part[0] > end)]
    begin = min([begin, *(part[0] for part in touching)])
    end = max([end, *(part[1] for part in touching)])
    return tuple(sorted([*apart, (begin, end)]))


def _gaps(seen: tuple[tuple[int, int], ...], end: int) -> Iterable[tuple[int, int]]:
    at = 0
    for start, stop in seen:
        if start > at:
            yield at, start
        at = stop
    if at < end:
        yield at, end
