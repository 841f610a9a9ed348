"""Lines of a text file in parts that each become one excerpt, named by their line numbers.

A part begins and ends with a line that has text, and its label (`lines 41-80`) counts from its
first line. So the line of a quote is that number plus the line feeds before the quote. A line
ends with a line feed, as for git; other breaks inside a line become blanks.

SECURITY
    Works on foreign text.  If this module is wrong, a quote names another line than its own.
"""

import re
from collections.abc import Iterator
from typing import Final

from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.text import Part

MOST_LINES: Final = 200
MOST_CHARS: Final = 16_000  # as a packet spells them: less than an excerpt holds
_OTHER_BREAKS: Final = re.compile("[\r\x0b\x0c\x85\u2028\u2029]")
_SPELLED_CHARS: Final = 10  # of a character that is not seen: `\\u{10ffff}`
_MARKUP_CHARS: Final = 4  # of `<`


def numbered_lines(text: str) -> list[str]:
    """Return the lines of a text, counted as git counts them."""
    return [_OTHER_BREAKS.sub(" ", line) for line in text.replace("\r\n", "\n").split("\n")]


def parts_of_lines(lines: list[str], first: int = 1, before: str = "") -> tuple[Part, ...]:
    """Return parts of at most `MOST_LINES` lines, counted from `first`; `before` begins labels."""
    return tuple(_parts(lines, first, before))


def _parts(lines: list[str], first: int, before: str) -> Iterator[Part]:
    start = size = 0
    for number, line in enumerate(lines):
        long = _spelled(line) + 1
        if number > start and (size + long > MOST_CHARS or number - start >= MOST_LINES):
            yield from _part(lines, start, number, first, before)
            start, size = number, 0
        size += long
        if long > MOST_CHARS:
            # No excerpt holds it whole: each piece has the number of this one line.
            for piece in _pieces(line):
                yield from _part([piece], 0, 1, first + number, before)
            start, size = number + 1, 0
    yield from _part(lines, start, len(lines), first, before)


def _part(lines: list[str], start: int, end: int, first: int, before: str) -> Iterator[Part]:
    """Yield the part of some lines without the blank ones around it, if anything is left."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    if start < end:
        label = f"{before}{lines_label(first + start, first + end - 1)}"
        yield Part(Untrusted(label), Untrusted("\n".join(lines[start:end])))


def lines_label(first: int, last: int) -> str:
    """Return the label of some lines."""
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _spelled(line: str) -> int:
    """Return how many characters a line may take in a packet."""
    size = len(line) + (_MARKUP_CHARS - 1) * line.count("<")
    if not (line.isascii() and line.isprintable()):
        # Joiners and selectors are spelled out as well, though they are allowed in places.
        odd = sum(not char.isprintable() for char in line) + len(FORBIDDEN.findall(line))
        size += (_SPELLED_CHARS - 1) * (odd + sum("\ufe00" <= char <= "\ufe0f" for char in line))
    return size


def _pieces(line: str) -> Iterator[str]:
    most = MOST_CHARS // _SPELLED_CHARS
    if _spelled(line) == len(line):
        most = MOST_CHARS
    for at in range(0, len(line), most):
        yield line[at : at + most]
