"""PDF files in columns whose words are known in reading order, for tests and measurements.

The font is Courier: every letter is as wide as the next, so a line ends where it should.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.pdfs import _FONT, PdfWriter, _finish, _page, line, pdf

SIZE = 9.0
LETTER = 0.6 * SIZE
PITCH = 11.0
LEFT, RIGHT, TOP = 54.0, 558.0, 700.0
GUTTER = 18.0
LINES = 50  # of a column


@dataclass(frozen=True, slots=True)
class Typeset:
    """A PDF, and the words a reader reads in it."""

    raw: bytes
    words: tuple[str, ...]


def broken(text: str, letters: int) -> list[str]:
    """Return lines of at most `letters` characters; long words are broken with a hyphen."""
    lines = [""]
    for word in text.split():
        room = letters - len(lines[-1]) - bool(lines[-1])
        if len(word) <= room:
            lines[-1] = f"{lines[-1]} {word}".strip()
        elif room >= 5 and len(word) >= 9 and word.isalpha():
            lines[-1] = f"{lines[-1]} {word[: room - 2]}-".strip()
            lines.append(word[room - 2 :])
        else:
            lines.append(word)
    return lines


def written(texts: Sequence[str], x: float, y: float, *, size: float = SIZE) -> list[bytes]:
    """Return operators for lines under each other."""
    return [line(text, x=x, y=y - PITCH * row, size=size) for row, text in enumerate(texts)]


def in_columns(
    text: str, columns: int = 2, *, by_row: bool = False, backwards: bool = False, title: str = ""
) -> Typeset:
    """Return pages of `columns` columns with running heads, a title and page numbers.

    The columns are painted one after the other, or line by line with `by_row`, or the last
    first with `backwards`.
    """
    width = (RIGHT - LEFT - GUTTER * (columns - 1)) / columns
    lines = broken(text, int(width / LETTER))
    pages, at, number = [], 0, 0
    while at < len(lines):
        number += 1
        top = TOP - (3 * PITCH if title and number == 1 else 0)
        stacks = []
        for column in range(columns):
            part, at = lines[at : at + LINES], at + LINES
            stacks.append(written(part, LEFT + column * (width + GUTTER), top))
        painted = [row for stack in (stacks[::-1] if backwards else stacks) for row in stack]
        if by_row:
            rows = max(map(len, stacks))
            painted = [stack[row] for row in range(rows) for stack in stacks if row < len(stack)]
        head = [line(f"A journal of gates, volume {number // 2}", x=LEFT, y=750, size=8)]
        foot = [line(str(number + 40), x=300, y=40, size=8)]
        name = [line(title, x=LEFT, y=TOP, size=16)] if title and number == 1 else []
        pages.append(b"".join([*foot, *head, *name, *painted]))
    return Typeset(pdf(*pages, font=b"Courier"), tuple(f"{title} {text}".split()))


def scan(
    shown: bytes,
    *,
    pixels: tuple[int, int] = (612, 792),
    place: tuple[float, float, float, float] = (0, 0, 612, 792),
    over: bytes = b"",
    state: bytes = b"",
) -> bytes:
    """Return a page with a picture at `place`, painted in `state`, then `over` it, then `shown`."""
    writer = PdfWriter()
    across, up = pixels
    grey = zlib.compress(b"\xc8" * (across * up))
    picture = writer.stream(
        grey,
        b"/Type/XObject/Subtype/Image/Width %d/Height %d/BitsPerComponent 8"
        b"/ColorSpace/DeviceGray/Filter/FlateDecode" % pixels,
    )
    left, bottom, width, height = place
    content = b"q /G gs %g 0 0 %g %g %g cm /P Do Q\n" % (width, height, left, bottom)
    content += over + shown
    resources = b"<</Font<</F1 %d 0 R>>/XObject<</P %d 0 R>>/ExtGState<</G<<%b>>>>>>" % (
        writer.add(_FONT),
        picture,
        state,
    )
    _finish(writer, [_page(writer, resources, writer.stream(content))])
    return writer.to_bytes()
