"""Scanned pages of a PDF: a picture that covers the page, and invisible text that was recognised.

Invisible text counts as recognised only on a page that shows almost nothing but a picture.  On
every other page it stays hidden text.

SECURITY
    Numbers that PDFium read out of a hostile file.  Pure.  Nobody compares the text with the
    picture: a reader of the page sees the picture, and the text may say something else.  The
    packet counts such pages.  If this module is wrong, text that nobody sees is quoted.
"""

from collections.abc import Callable, Sequence
from typing import Final

from threegate.gates.fetch.normalize.readers.hidden_pdf import (
    INKLESS_MODES,
    MIN_POINTS,
    Verdict,
    inside,
)
from threegate.gates.fetch.normalize.readers.pdf_boxes import Box, common
from threegate.gates.fetch.normalize.readers.pdf_objects import IMAGE, TEXT, Drawn
from threegate.gates.fetch.normalize.readers.pdfium import Handle

MIN_PICTURE_SHARE: Final = 0.6  # of a page
MAX_OTHER_SHARE: Final = 0.03  # of a page: a stamp, a line at the foot
MIN_PIXELS_PER_POINT: Final = 0.5  # a scan has two to eight

PixelsOf = Callable[[Handle], tuple[int, int]]


def recognised(
    things: Sequence[Drawn], verdict: Verdict, page: Box, pixels_of: PixelsOf
) -> set[Handle]:
    """Return the hidden text that a scanner recognised on its picture of the page."""
    found = [thing for thing in things if _is_inkless(thing, verdict, page)]
    if not found:
        return set()
    sheet, pictures, other = _area(page), [], 0.0
    for thing in things:
        if thing.kind == IMAGE and _is_picture(thing, pixels_of):
            pictures.append(common(thing.box, page))
        elif thing.handle not in verdict.hidden and (thing.kind == TEXT or pictures):
            other += _area(common(thing.box, page))  # it is seen beside or over a picture
    if sum(map(_area, pictures)) < MIN_PICTURE_SHARE * sheet or other > MAX_OTHER_SHARE * sheet:
        return set()
    lefts, bottoms, rights, tops = zip(*pictures, strict=True)
    covered = (min(lefts), min(bottoms), max(rights), max(tops))
    return {thing.handle for thing in found if inside(thing.box, covered)}


def _is_inkless(thing: Drawn, verdict: Verdict, page: Box) -> bool:
    """Tell whether a text is hidden for no other reason than that it is painted without ink."""
    if thing.kind != TEXT or thing.mode != INKLESS_MODES[0] or thing.handle not in verdict.hidden:
        return False
    plain = thing.size >= MIN_POINTS and not thing.odd
    clipped = thing.clip is not None and not inside(thing.box, thing.clip)
    return plain and not clipped and inside(thing.box, page)


def _is_picture(thing: Drawn, pixels_of: PixelsOf) -> bool:
    """Tell whether an image has enough points to show a page."""
    left, bottom, right, top = thing.box
    across, up = pixels_of(thing.handle)
    least = MIN_PIXELS_PER_POINT
    return (
        not thing.odd
        and max(across, up) >= least * max(right - left, top - bottom)
        and min(across, up) >= least * min(right - left, top - bottom)
    )


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])
