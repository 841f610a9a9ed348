"""Lines of a sheet printed as results, broken by us so that no terminal breaks them.

A line that a terminal breaks goes on in its first column, where our own lines begin: so
foreign text never reaches the edge, and what follows stands behind a gutter again.
"""

from collections.abc import Iterable, Iterator

from threegate.host.output import Output
from threegate.host.review.parts import StyledLine, StyledRow, StyledSpan, plain
from threegate.host.review.text_lines import breaks, part, spelling, width


def print_lines(out: Output, lines: Iterable[StyledLine], *, colour: bool) -> None:
    """Print every line, in as many rows as it takes."""
    for line in lines:
        for row in rows(out, line):
            out.styled([(span.text, span.style) for span in row], colour=colour)


def rows(out: Output, line: StyledLine) -> Iterator[StyledRow]:
    """Yield the rows of one line; what has a gutter from the start is broken to the letter."""
    # What the locale does not have must not look like the escape of a string literal.
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
