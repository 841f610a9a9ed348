"""Running heads, feet and page numbers of a PDF: lines that come back at the same place.

SECURITY
    Characters of a hostile file.  Pure.  A line is taken out of a page only if it is among the
    outermost of at least three pages, and one of each kind is kept, so that no words are lost.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from threegate.gates.fetch.normalize.readers.pdf_lines import Line
from threegate.gates.fetch.normalize.readers.pdf_order import Block

MIN_PAGES: Final = 3  # that say it
_OUTERMOST: Final = 2  # rows from the top and from the bottom
_SAME_PLACE_POINTS: Final = 6.0
_MAX_CHARS: Final = 160
_NUMBER: Final = re.compile(r"\d+|\b[ivxlcIVXLC]+\b")


def spoken(text: str) -> str:
    """Return what a line says on every page: its text without numbers."""
    return _NUMBER.sub("#", text)


def running_lines(pages: Sequence[Sequence[Block]]) -> list[list[Line]]:
    """Return for each page the lines that are no part of its text."""
    if len(pages) < MIN_PAGES:
        return [[] for _ in pages]
    found = [dict(_outermost(blocks)) for blocks in pages]
    places: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for lines in found:
        for key, line in lines.items():
            places[key].append(line.bottom)
    running = {key: sorted(at) for key, at in places.items() if len(at) >= MIN_PAGES}
    return [
        [
            line
            for key, line in lines.items()
            if key in running and _is_usual(line.bottom, running[key])
        ]
        for lines in found
    ]


def _outermost(blocks: Sequence[Block]) -> Iterator[tuple[tuple[str, str], Line]]:
    """Yield the outermost lines of a page by what they say, numbers aside."""
    lines = [line for block in blocks for line in block.lines if not line.turned]
    lines.sort(key=attrgetter("bottom"))
    for side, ordered in (("foot", lines), ("head", lines[::-1])):
        rows, last = 0, None
        for line in ordered:
            if last is None or abs(line.bottom - last) > line.em / 2:
                rows, last = rows + 1, line.bottom
            if rows > _OUTERMOST:
                break
            if len(line.text) <= _MAX_CHARS:
                yield (side, spoken(line.text)), line


def _is_usual(place: float, places: Sequence[float]) -> bool:
    near = [at for at in places if abs(at - place) <= _SAME_PLACE_POINTS]
    return len(near) >= MIN_PAGES
