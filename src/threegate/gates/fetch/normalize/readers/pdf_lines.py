"""Lines of a PDF page: PDFium's own, with their places, the size of their letters and their gaps.

PDFium gives the characters of a page in the order they were painted, with a break after each
line.  The places of the first and the last character are enough for most lines; words are looked
at where a line may have a wide gap.

SECURITY
    Works on numbers and characters that PDFium read out of a hostile file; a number that is
    none, or absurd, is zero.  Pure.  If this module is wrong, lines are read in another order.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, isfinite
from typing import Final, NamedTuple

from threegate.gates.fetch.normalize.readers.pdf_boxes import Matrix
from threegate.gates.fetch.normalize.readers.pdfium import Page

MAX_LINE_GAPS: Final = 24  # of one line; further ones are ordinary spaces
_MAX_POINTS: Final = 1e6
_MIN_EM_POINTS: Final = 0.01
_MAX_EM_POINTS: Final = 2000.0
_WIDE_GAP_EMS: Final = 1.0  # ordinary spaces are narrower, also in justified text
_OVERLAP_EMS: Final = 0.3  # of two pieces of a line
_LETTER_GAP_EMS: Final = 0.15  # narrower than any space
_SAME_LINE_SHARE: Final = 0.6  # of the height of a line
_NO_SPACE_EMS: Final = 0.6  # between characters of a script that has no spaces
_MAX_PLAIN_SHARE: Final = 0.55  # of the page: a wider line may go across two columns
_EVERY: Final = 5  # of the wide lines: if one of these has a gap, all are looked at
_MAX_LETTER_EMS: Final = 0.57  # mean of letters and spaces: more means that there are gaps
# PDFium's own signs for a hyphen at the end of a line, where it leaves the break out.
_HYPHENS: Final = "\x02\ufffe"
_END: Final = rf"[^\s\0{_HYPHENS}]"
_LINE: Final = re.compile(rf"{_END}(?:[^\r\n{_HYPHENS}]*{_END})?[{_HYPHENS}]?")
_WORD: Final = re.compile(rf"{_END}+[{_HYPHENS}]?")
# Han, kana and their punctuation, which are written without spaces.
SPACELESS: Final = (
    "\u2e80-\u303f\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
)
_LEFTWARDS: Final = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
_SPACELESS: Final = re.compile(f"[{SPACELESS}]")
_FROM_THE_RIGHT: Final = re.compile(f"[{_LEFTWARDS}]")
_UNUSUAL: Final = re.compile(f"[{SPACELESS}{_LEFTWARDS}]")
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


class _Places(NamedTuple):
    """Where pieces of text lie, each at the same index of four lists."""

    lefts: list[float]
    bottoms: list[float]
    rights: list[float]
    tops: list[float]


class _Words(NamedTuple):
    """Words of a line: the first and last characters, and where they lie."""

    firsts: Sequence[int]
    lasts: Sequence[int]
    lefts: Sequence[float]
    rights: Sequence[float]


def lines_of(page: Page, text: str, width: float) -> list[Line]:
    """Return the lines of a page; `text` is one character for each that PDFium counts."""
    spans = [match.span() for match in _LINE.finditer(text)]
    if not spans:
        return []
    firsts, lasts = [start for start, _ in spans], [end - 1 for _, end in spans]
    # Of the middle: a line may begin with a heading, a large letter or a mark, and end with one.
    middles = [_middle(text, start, end) for start, end in spans]
    matrices, sizes = page.matrices(middles), page.sizes(middles)
    fonts = page.fonts(lasts)  # the last letters tell whether the whole line is bold
    bold = {name: _BOLD.search(name) is not None for name in set(fonts)}
    turns = list(map(_turn, matrices))
    most = _usual(turns, spans)
    heights, places = _places(page, middles, middles, most), _places(page, firsts, lasts, most)
    found = []
    for at, (start, end) in enumerate(spans):
        _, _, c, d, _, _ = matrices[at]
        em = abs(sizes[at]) * hypot(c, d)
        bottom, top = heights.bottoms[at], heights.tops[at]
        if not _MIN_EM_POINTS < em < _MAX_EM_POINTS:
            em = max(top - bottom, _MIN_EM_POINTS)
        box = (places.lefts[at], bottom, places.rights[at], top)
        found.append(Line(text[start:end], *box, em, bold[fonts[at]], turns[at] != most))
    _look_closer(page, found, spans, most, width)
    return _whole(found)


def _middle(text: str, start: int, end: int) -> int:
    """Return the place of a letter in the middle of a line."""
    middle = (start + end) // 2
    return middle if text[middle] != " " else middle - 1


def _usual(turns: Sequence[int], spans: Sequence[tuple[int, int]]) -> int:
    """Return how most of the text is turned."""
    weights: Counter[int] = Counter()
    for turn, (start, end) in zip(turns, spans, strict=True):
        weights[turn] += end - start
    return weights.most_common(1)[0][0]


def _turn(matrix: Matrix) -> int:
    """Return how many quarters a letter is turned, counterclockwise."""
    a, b, _, _, _, _ = matrix
    if abs(a) >= abs(b):
        return 0 if a >= 0 else 2
    return 1 if b > 0 else 3


def _look_closer(
    page: Page, lines: list[Line], spans: Sequence[tuple[int, int]], turn: int, width: float
) -> None:
    """Find the wide gaps of lines that may have some, and the whole extent of others."""
    chosen, wide = [], []
    for line, (start, _) in zip(lines, spans, strict=True):
        extent, text = line.right - line.left, line.text
        if extent >= _MAX_LETTER_EMS * line.em * len(text) or not (
            text.isascii() or not _UNUSUAL.search(text)
        ):
            chosen.append((line, start))
        elif extent >= width * _MAX_PLAIN_SHARE:
            wide.append((line, start))
    _take_words(page, chosen + wide[::_EVERY], turn)
    if any(line.gaps for line, _ in wide[::_EVERY]):
        _take_words(page, wide, turn)


def _take_words(page: Page, lines: Sequence[tuple[Line, int]], turn: int) -> None:
    """Look at the words of lines, given with the index of their first characters."""
    firsts: list[int] = []
    lasts: list[int] = []
    parts = []
    for line, start in lines:
        spans = [word.span() for word in _WORD.finditer(line.text)]
        parts.append(slice(len(firsts), len(firsts) + len(spans)))
        firsts += [start + first for first, _ in spans]
        lasts += [start + end - 1 for _, end in spans]
    places = _places(page, firsts, lasts, turn)
    for (line, start), part in zip(lines, parts, strict=True):
        words = _Words(
            [at - start for at in firsts[part]],
            [at - start for at in lasts[part]],
            places.lefts[part],
            places.rights[part],
        )
        _measure(line, words)


def _measure(line: Line, words: _Words) -> None:
    line.left, line.right = min(words.lefts), max(words.rights)
    text = line.text
    if text.isascii() or not _UNUSUAL.search(text):
        line.gaps = _gaps(words, _WIDE_GAP_EMS * line.em)
    elif _SPACELESS.search(text):
        line.text = _spaceless(text, words, _NO_SPACE_EMS * line.em)


def _gaps(words: _Words, least: float) -> tuple[Gap, ...]:
    firsts, lasts, lefts, rights = words
    wide = [at for at in range(len(firsts) - 1) if lefts[at + 1] - rights[at] > least]
    return tuple(
        Gap(lasts[at] + 1, firsts[at + 1], rights[at], lefts[at + 1]) for at in wide[:MAX_LINE_GAPS]
    )


def _spaceless(text: str, words: _Words, least: float) -> str:
    """Return a line without the spaces that the places of its characters suggest."""
    firsts, lasts, lefts, rights = words
    found = [text[firsts[0] : lasts[0] + 1]]
    for at in range(1, len(firsts)):
        word = text[firsts[at] : lasts[at] + 1]
        spaceless = _SPACELESS.match(found[-1][-1]) and _SPACELESS.match(word[0])
        if not (spaceless and lefts[at] - rights[at - 1] < least):
            found.append(" ")
        found.append(word)
    return "".join(found)


def _whole(lines: Sequence[Line]) -> list[Line]:
    """Return lines without PDFium's signs, those that it broke in two in one piece."""
    found: list[Line] = []
    for line in lines:
        if line.text[-1] in _HYPHENS:
            line.text = line.text[:-1] + "-"
        if "\0" in line.text:
            line.text = line.text.replace("\0", " ")  # gaps keep their places
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
    gaps = tuple(gap.moved(start) for gap in other.gaps)
    if apart > _WIDE_GAP_EMS * one.em:
        gaps = (Gap(len(one.text), start, one.right, other.left), *gaps)
    long = one if len(one.text) >= len(other.text) else other
    right = max(one.right, other.right)
    line = Line(one.text + space + other.text, one.left, long.bottom, right, long.top, long.em)
    line.bold, line.gaps = one.bold and other.bold, (*one.gaps, *gaps)[:MAX_LINE_GAPS]
    return line


def _places(page: Page, firsts: Sequence[int], lasts: Sequence[int], turn: int) -> _Places:
    """Return where pieces of text lie, turned as most of the page."""
    starts = _finite(page.boxes(firsts))
    ends = starts if lasts is firsts else _finite(page.boxes(lasts))
    lefts, rights = (
        list(map(min, starts[0::4], ends[0::4])),
        list(map(max, starts[2::4], ends[2::4])),
    )
    tops, bottoms = (
        list(map(max, starts[1::4], ends[1::4])),
        list(map(min, starts[3::4], ends[3::4])),
    )
    if turn == 1:  # read from the right side of the sheet
        return _Places(bottoms, _less(rights), tops, _less(lefts))
    if turn == 2:
        return _Places(_less(rights), _less(tops), _less(lefts), _less(bottoms))
    if turn == 3:
        return _Places(_less(tops), lefts, _less(bottoms), rights)
    return _Places(lefts, bottoms, rights, tops)


def _finite(numbers: list[float]) -> list[float]:
    if not numbers:
        return numbers
    if isfinite(sum(numbers)) and max(numbers) < _MAX_POINTS > -min(numbers):
        return numbers
    return [one if abs(one) < _MAX_POINTS else 0.0 for one in numbers]


def _less(numbers: list[float]) -> list[float]:
    return [-one for one in numbers]


def runs_from_the_right(text: str) -> bool:
    """Tell whether most letters of a text belong to a script that is written leftwards."""
    if text.isascii() or not _FROM_THE_RIGHT.search(text):
        return False
    return 2 * len(_FROM_THE_RIGHT.findall(text)) > sum(map(str.isalpha, text))
