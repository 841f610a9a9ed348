"""Lines of a PDF page: PDFium's own, with their places, the size of their letters and their gaps.

PDFium gives the characters of a page in the order they were painted, with a break after each
line.  The places of the first and last character of each word are enough to lay out a page.

SECURITY
    Works on numbers and characters that PDFium read out of a hostile file; a number that is
    none, or absurd, is zero.  Pure.  If this module is wrong, lines are read in another order.
"""

import re
from collections import Counter
from dataclasses import dataclass
from math import hypot, isfinite
from typing import Final, NamedTuple

from threegate.gates.fetch.normalize.readers.pdf_boxes import Matrix
from threegate.gates.fetch.normalize.readers.pdfium import Page

MAX_LINE_GAPS: Final = 24  # of one line; further ones are ordinary spaces
_MAX_POINTS: Final = 1e6
_MAX_EM_POINTS: Final = 2000.0
_WIDE_GAP_EMS: Final = 1.0  # ordinary spaces are narrower, also in justified text
_OVERLAP_EMS: Final = 0.3  # of two pieces of a line
_LETTER_GAP_EMS: Final = 0.15  # narrower than any space
_SAME_LINE_SHARE: Final = 0.6  # of the height of a line
_NO_SPACE_EMS: Final = 0.6  # between characters of a script that has no spaces
# PDFium's own signs for a hyphen at the end of a line, where it leaves the break out.
_HYPHENS: Final = "\x02\ufffe"
_LINE: Final = re.compile(f"[^\r\n{_HYPHENS}]+[{_HYPHENS}]?|[{_HYPHENS}]")
_WORD: Final = re.compile(rf"[^\s\0{_HYPHENS}]+[{_HYPHENS}]?")
# Han, kana and their punctuation, which are written without spaces.
SPACELESS: Final = (
    "\u2e80-\u303f\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
)
_SPACELESS: Final = re.compile(f"[{SPACELESS}]")
_FROM_THE_RIGHT: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_BOLD: Final = re.compile(rb"(?i)bold|black|heavy|demi|cmbx|sfbx|-bd|medi(?![a-z])")


class Gap(NamedTuple):
    """A wide space in a line: which characters of its text it is between, and where."""

    end: int
    start: int
    left: float
    right: float

    def moved(self, by: int) -> "Gap":
        """Return the gap as it is after `by` more characters."""
        return Gap(self.end + by, self.start + by, self.left, self.right)


@dataclass(slots=True, eq=False)
class Line:
    """A line of text, or a piece of one, upright."""

    text: str
    left: float
    bottom: float
    right: float
    top: float
    em: float
    bold: bool = False
    turned: bool = False  # it runs in another direction than most of its page
    gaps: tuple[Gap, ...] = ()
    is_row: bool = False  # of a table


class _Words(NamedTuple):
    firsts: list[int]  # index of each word's first character
    lasts: list[int]
    lines: list[tuple[int, int]]  # first word and the one after the last


def lines_of(page: Page, text: str) -> list[Line]:
    """Return the lines of a page; `text` is one character for each that PDFium counts."""
    words = _words(text)
    if not words.lines:
        return []
    middles = [words.firsts[(first + end) // 2] for first, end in words.lines]
    matrices, sizes = page.matrices(middles), page.sizes(middles)
    turns = list(map(_turn, matrices))
    weights: Counter[int] = Counter()
    for turn, (first, end) in zip(turns, words.lines, strict=True):
        weights[turn] += end - first
    most = weights.most_common(1)[0][0]
    places = _Places(page, words, most)
    # The last word tells, for a heading may stand at the beginning of a line of text.
    fonts = page.fonts([words.firsts[end - 1] for _, end in words.lines])
    bold = {name: _BOLD.search(name) is not None for name in set(fonts)}
    found: list[Line] = []
    for number, bounds in enumerate(words.lines):
        _, _, c, d, _, _ = matrices[number]
        em = abs(sizes[number]) * hypot(c, d)
        line = places.line(text, *bounds, em if 0 < em < _MAX_EM_POINTS else 0.0)
        line.bold, line.turned = bold[fonts[number]], turns[number] != most
        if found and _goes_on(found[-1], line):
            found[-1] = _joined(found[-1], line)
        else:
            found.append(line)
    return found


def _goes_on(one: Line, other: Line) -> bool:
    """Tell whether PDFium broke a line in two, as it does after an index or an exponent."""
    if other.left < one.right - _OVERLAP_EMS * one.em or one.turned or other.turned:
        return False
    shared = min(one.top, other.top) - max(one.bottom, other.bottom)
    return shared > _SAME_LINE_SHARE * max(one.top - one.bottom, other.top - other.bottom)


def _joined(one: Line, other: Line) -> Line:
    apart = other.left - one.right
    space = " " if apart > _LETTER_GAP_EMS * one.em else ""
    start = len(one.text) + len(space)
    gaps = one.gaps + tuple(gap.moved(start) for gap in other.gaps)
    if apart > _WIDE_GAP_EMS * one.em:
        gap = Gap(len(one.text), start, one.right, other.left)
        gaps = (*one.gaps, gap, *gaps[len(one.gaps) :])
    long = one if len(one.text) >= len(other.text) else other
    return Line(
        one.text + space + other.text,
        one.left,
        long.bottom,
        max(one.right, other.right),
        long.top,
        long.em,
        bold=one.bold and other.bold,
        gaps=gaps[:MAX_LINE_GAPS],
    )


def _words(text: str) -> _Words:
    firsts: list[int] = []
    lasts: list[int] = []
    lines = []
    for line in _LINE.finditer(text):
        first = len(firsts)
        for word in _WORD.finditer(text, line.start(), line.end()):
            firsts.append(word.start())
            lasts.append(word.end() - 1)
        if len(firsts) > first:
            lines.append((first, len(firsts)))
    return _Words(firsts, lasts, lines)


def _turn(matrix: Matrix) -> int:
    """Return how many quarters a letter is turned, counterclockwise."""
    a, b, _, _, _, _ = matrix
    if abs(a) >= abs(b):
        return 0 if a >= 0 else 2
    return 1 if b > 0 else 3


class _Places:
    """Where the words of a page lie, once most of them are upright."""

    def __init__(self, page: Page, words: _Words, turn: int) -> None:
        self._words = words
        firsts, lasts = _finite(page.boxes(words.firsts)), _finite(page.boxes(words.lasts))
        lefts, rights = _least(firsts, lasts, 0), _most(firsts, lasts, 2)
        tops, bottoms = _most(firsts, lasts, 1), _least(firsts, lasts, 3)
        if turn == 1:  # read from the right side of the sheet
            lefts, rights, bottoms, tops = bottoms, tops, _less(rights), _less(lefts)
        elif turn == 2:
            lefts, rights, bottoms, tops = (
                *map(_less, (rights, lefts)),
                *map(_less, (tops, bottoms)),
            )
        elif turn == 3:
            lefts, rights, bottoms, tops = _less(tops), _less(bottoms), lefts, rights
        self._lefts, self._rights, self._tops, self._bottoms = lefts, rights, tops, bottoms

    def line(self, text: str, first: int, end: int, em: float) -> Line:
        lefts, rights = self._lefts[first:end], self._rights[first:end]
        middle = (end - first) // 2
        tops, bottoms = sorted(self._tops[first:end]), sorted(self._bottoms[first:end])
        left, right = min(lefts), max(rights)
        box = (left, bottoms[middle], right, tops[middle])
        em = em or max(box[3] - box[1], 1.0)
        shown = text[self._words.firsts[first] : self._words.lasts[end - 1] + 1]
        gaps: tuple[Gap, ...] = ()
        if not shown.isascii() and _SPACELESS.search(shown):
            shown = self._spaceless(text, first, end, em)
        elif right - left > _WIDE_GAP_EMS * em:
            gaps = self._gaps(shown, first, end, em)
        for sign in _HYPHENS:
            shown = shown.replace(sign, "-")
        if "\0" in shown and not gaps:
            shown = shown.replace("\0", "")
        return Line(shown, *box, em, gaps=gaps)

    def _gaps(self, shown: str, first: int, end: int, em: float) -> tuple[Gap, ...]:
        lefts, rights, widest = self._lefts, self._rights, _WIDE_GAP_EMS * em
        wide = [at for at in range(first, end - 1) if lefts[at + 1] - rights[at] > widest]
        if not shown.isascii() and _FROM_THE_RIGHT.search(shown):
            return ()  # words go the other way
        start, firsts, lasts = self._words.firsts[first], self._words.firsts, self._words.lasts
        return tuple(
            Gap(lasts[at] + 1 - start, firsts[at + 1] - start, rights[at], lefts[at + 1])
            for at in wide[:MAX_LINE_GAPS]
        )

    def _spaceless(self, text: str, first: int, end: int, em: float) -> str:
        """Return a line without the spaces that the places of its characters suggest."""
        firsts, lasts = self._words.firsts, self._words.lasts
        found = text[firsts[first] : lasts[first] + 1]
        for at in range(first + 1, end):
            word = text[firsts[at] : lasts[at] + 1]
            near = self._lefts[at] - self._rights[at - 1] < _NO_SPACE_EMS * em
            spaceless = _SPACELESS.match(found[-1]) and _SPACELESS.match(word[0])
            found += word if near and spaceless else f" {word}"
        return found


def _finite(numbers: list[float]) -> list[float]:
    if isfinite(sum(numbers)) and abs(max(numbers)) < _MAX_POINTS > abs(min(numbers)):
        return numbers
    return [one if abs(one) < _MAX_POINTS else 0.0 for one in numbers]


def _least(one: list[float], other: list[float], at: int) -> list[float]:
    return list(map(min, one[at::4], other[at::4]))


def _most(one: list[float], other: list[float], at: int) -> list[float]:
    return list(map(max, one[at::4], other[at::4]))


def _less(numbers: list[float]) -> list[float]:
    return [-one for one in numbers]


def runs_from_the_right(text: str) -> bool:
    """Tell whether most letters of a text belong to a script that is written leftwards."""
    return not text.isascii() and 2 * len(_FROM_THE_RIGHT.findall(text)) > sum(
        map(str.isalpha, text)
    )
