"""Text measured in the cells of a terminal, broken into rows, and printed.

Terminals disagree about the width of many characters.  Each counts here as wide as any terminal
makes it: a row may end early, but no part of it can be pushed past the edge, where nobody would
see it.  For the same reason long lines are broken, never scrolled sideways.  A line that the
terminal breaks continues in its first column, where our own lines begin; so foreign text never
reaches the edge, and its continuation has a gutter.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from threegate.base.text import visible
from threegate.host.output import Output
from threegate.host.review.parts import StyledLine, StyledRow, StyledSpan, plain

Spell = Callable[[str], str]

_MORE: Final = "..."


def spelling(encoding: str) -> Spell:
    """Return how a terminal of this encoding is sent a text, to be measured as it will be.

    Characters outside the encoding are spelled like hidden characters: an author cannot imitate
    that spelling with the escape of a string literal.
    """

    def spell(text: str) -> str:
        shown = visible(text)
        if shown.isascii() or encoding == "utf-8":
            return shown
        return "".join(c if _has(encoding, c) else f"\\u{{{ord(c):x}}}" for c in shown)

    return spell


def _has(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@lru_cache(maxsize=4096)
def cells(character: str) -> int:
    """Return the most cells a terminal gives to one printable character."""
    if character.isascii():
        return 1
    wide = unicodedata.east_asian_width(character) in "WFA"
    # Some terminals draw pictographs wide, against the Unicode tables.
    return 2 if wide or unicodedata.category(character) in ("So", "Sk") else 1


def width(text: str) -> int:
    """Return the most cells a terminal needs for `text`."""
    return len(text) if text.isascii() else sum(map(cells, text))


def cut(text: str, room: int) -> str:
    """Return as much of `text` as `room` cells hold; dots say that there is more."""
    if width(text) <= room:
        return text
    if room <= len(_MORE):
        return _MORE[: max(room, 0)]
    return text[: _fitting(text, 0, room - len(_MORE))] + _MORE


def pad(text: str, room: int) -> str:
    """Return `text` cut or filled to `room` cells."""
    shown = cut(text, room)
    return shown + " " * (room - width(shown))


def breaks(text: str, room: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of every row that `text` takes; the last may be empty.

    A row ends after a blank where one is near, and every blank stays in its row.
    """
    room, start = max(room, 2), 0
    while True:
        end = start + _fitting(text, start, room)
        if end >= len(text):
            yield start, end
            return
        blank = text.rfind(" ", start + (end - start) * 2 // 3, end)
        if blank >= 0 and text[end] != " ":
            end = blank + 1
        yield start, end
        start = end


def broken(text: str, room: int) -> list[str]:
    """Return our own words in rows, broken at blanks where there are any."""
    rows, row = [], ""
    for word in text.split(" "):
        joined = f"{row} {word}" if row else word
        if row and width(joined) > room:
            rows.append(row)
            joined = word
        *full, row = (joined[start:end] for start, end in breaks(joined, room))
        rows += full
    return [*rows, row]


def part(spans: Iterable[StyledSpan], start: int, end: int) -> StyledRow:
    """Return the characters from `start` to `end` of a line."""
    found, at = [], 0
    for span in spans:
        piece = span.text[max(start - at, 0) : max(end - at, 0)]
        if piece:
            found.append(StyledSpan(piece, span.style))
        at += len(span.text)
    return tuple(found)


def marked(spans: Sequence[StyledSpan], places: Iterable[tuple[int, int]], style: str) -> StyledRow:
    """Return a line with the characters at `places` (in order, apart) in another style."""
    found: list[StyledSpan] = []
    at, whole = 0, sum(len(span.text) for span in spans)
    for start, end in places:
        found += part(spans, at, start)
        found += (StyledSpan(span.text, style) for span in part(spans, start, end))
        at = end
    return (*found, *part(spans, at, whole))


def _fitting(text: str, start: int, room: int) -> int:
    """Return how many characters from `start` on fit into `room` cells."""
    piece = text[start : start + room]
    if piece.isascii():
        return len(piece)
    used = 0
    for number, character in enumerate(piece):
        used += cells(character)
        if used > room:
            return number
    return len(piece)


# -- printing --------------------------------------------------------------------------------


def print_lines(out: Output, lines: Iterable[StyledLine], *, colour: bool) -> None:
    """Print every line, in as many rows as it takes."""
    for line in lines:
        for row in rows(out, line):
            out.styled([(span.text, span.style) for span in row], colour=colour)


def rows(out: Output, line: StyledLine) -> Iterator[StyledRow]:
    """Yield the rows of one line; a line with a gutter may be broken inside a word."""
    # A character outside the locale must not look like the escape of a string literal.
    spell = spelling(out.encoding)
    spans = tuple(StyledSpan(spell(span.text), span.style) for span in line.spans)
    if width(line.head.text) + width(plain(spans)) <= out.room:
        yield (line.head, *spans)
        return
    room = out.room - max(width(line.head.text), width(line.again.text))
    places = breaks if line.head.text.strip() else _at_blanks
    for number, (start, end) in enumerate(places(plain(spans), room)):
        yield (line.again if number else line.head, *part(spans, start, end))


def _at_blanks(text: str, room: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of every row, broken after a blank where there is one near its end."""
    start = 0
    while True:
        end = start + next(breaks(text[start:], room))[1]
        if end >= len(text):
            yield start, end
            return
        blank = text.rfind(" ", start + room // 2, end)
        end = end if blank < 0 else blank + 1
        yield start, end
        start = end
