"""Which text of a PDF page nobody sees: decided from what the page paints, first to last.

Text is hidden when it is painted in no ink, too small to read, outside the page or what is
shown of it, in the colour of what lies beneath it, or under something that was painted
later.  What lies on a picture or on a shape that is no rectangle cannot be decided here and is
counted as such; so is text on a layer, in a pattern, under a mask or a blend, and text that
replaces the letters of the page.

SECURITY
    Works on numbers PDFium read out of a hostile file; they may be anything, and a place
    that is not a number counts as outside the page.  If this module is wrong, a packet quotes
    text that a reader of the PDF would not have seen.  It cannot know what a font shows:
    letters may look like others than they are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from threegate.gates.fetch.normalize.readers.pdf_boxes import Box
from threegate.gates.fetch.normalize.readers.pdf_objects import (
    FORM,
    MIN_COVER_POINTS,
    PATH,
    TEXT,
    Drawn,
    PlainText,
)
from threegate.gates.fetch.normalize.readers.pdfium import Handle

MIN_POINTS: Final = 2.0  # below this nobody reads, and nobody prints
MAX_CLEAR_ALPHA: Final = 12  # of 255
MIN_OPAQUE_ALPHA: Final = 243
MAX_SAME_COLOUR: Final = 16  # difference of a channel that an eye does not see
MAX_NEAR_COLOUR: Final = 40  # that some eyes do not see
MAX_COMPARISONS: Final = 1_000_000  # of texts with what lies under or over them, per page
INKLESS_MODES: Final = (3, 7)  # painted not at all, or only used to clip
WHITE: Final = (255, 255, 255)

MIN_WHOLE_SHARE: Final = 0.999
MIN_PART_SHARE: Final = 0.25  # of a text, under something else
_SLACK_POINTS: Final = 1.0
_Colour = tuple[int, int, int]


@dataclass(slots=True)
class Verdict:
    """What of a page's text is hidden."""

    hidden: set[Handle] = field(default_factory=set)
    partly: set[Handle] = field(default_factory=set)  # ask for each character where it lies
    undecided: int = 0  # pieces of text on something whose look is not known


def judge(things: Iterable[Drawn], page: Box) -> Verdict:
    """Return which of the `things` a page paints are text that is not seen."""
    sheet = _Sheet(page)
    for thing in things:
        if thing.kind == TEXT:
            sheet.text(thing)
        elif thing.kind == FORM:  # nested too deeply to be taken apart
            sheet.verdict.undecided += 1
        else:
            sheet.cover(thing)
    return sheet.verdict


def is_seen(plain: PlainText, page: Box) -> bool:
    """Tell whether everybody sees all of the text of a page that has nothing else on it.

    The answer is that of `judge`: no if anything is hidden or undecided, or may be.
    """
    on_paper = all(_alike(colour, WHITE) is False for colour in plain.colours)
    return on_paper and plain.size >= MIN_POINTS and inside(plain.box, page)


class _Sheet:
    """The page while it is painted."""

    def __init__(self, page: Box) -> None:
        self.verdict = Verdict()
        self._page = page
        self._grounds: list[Drawn] = []
        self._unknown = 0  # grounds whose look is not known
        self._colours: set[_Colour] = set()  # of the others
        self._suspect: dict[_Colour, bool] = {}
        self._texts: list[Drawn] = []
        self._comparisons = 0

    def text(self, text: Drawn) -> None:
        hidden, handle = self.verdict.hidden, text.handle
        if text.mode in INKLESS_MODES or text.alpha <= MAX_CLEAR_ALPHA or text.size < MIN_POINTS:
            hidden.add(handle)
            return
        if text.clip is not None and not _overlap(text.box, text.clip):
            hidden.add(handle)
            return
        if not inside(text.box, self._page):
            if not _overlap(text.box, self._page):
                hidden.add(handle)
                return
            self.verdict.partly.add(handle)
        suspect = self._unknown or self._is_suspect(text.colour)
        gone = self._on_its_own_colour(text) if suspect else False
        if gone:
            hidden.add(handle)
            return
        cut = text.clip is not None and not inside(text.box, text.clip)
        self.verdict.undecided += text.odd or gone is None or cut
        self._texts.append(text)

    def _is_suspect(self, colour: _Colour) -> bool:
        """Tell whether anything on the page, or the paper, has this colour."""
        known = self._suspect.get(colour)
        if known is None:
            known = any(_alike(colour, other) is not False for other in (WHITE, *self._colours))
            self._suspect[colour] = known
        return known

    def _on_its_own_colour(self, text: Drawn) -> bool | None:
        left, bottom, right, top = text.box
        across, up = (left + right) / 2, (bottom + top) / 2
        self._comparisons += len(self._grounds)
        if self._comparisons > MAX_COMPARISONS:
            return None
        beneath = [
            thing
            for thing in self._grounds
            if thing.box[1] <= up <= thing.box[3] and thing.box[0] <= across <= thing.box[2]
        ]
        for thing in reversed(beneath):
            if _is_sheet(thing):
                return _alike(text.colour, thing.colour)
            # A frame or a half-transparent shape may leave bare what its box covers.
            likes = [_alike(text.colour, colour) for colour in (thing.colour, WHITE)]
            if thing.kind != PATH or likes != [False, False]:
                return None
        return _alike(text.colour, WHITE)

    def cover(self, thing: Drawn) -> None:
        left, bottom, right, top = thing.box
        if right - left < MIN_COVER_POINTS or top - bottom < MIN_COVER_POINTS:
            return
        sheet = _is_sheet(thing)
        if thing.kind == PATH and thing.alpha <= MAX_CLEAR_ALPHA:
            return
        self._cover_texts(thing, sheet=sheet)
        if sheet and thing.colour == WHITE and inside(self._page, thing.box):
            self._grounds.clear()  # fresh paper
            self._unknown = 0
            return
        self._grounds.append(thing)
        if not sheet:
            self._unknown += 1
        elif thing.colour not in self._colours:
            self._colours.add(thing.colour)
            self._suspect.clear()

    def _cover_texts(self, thing: Drawn, *, sheet: bool) -> None:
        self._comparisons += len(self._texts)
        if self._comparisons > MAX_COMPARISONS:
            self.verdict.undecided += 1
            return
        over = [text for text in self._texts if _overlap(text.box, thing.box)]
        under = [text for text in over if _share(text.box, thing.box) >= MIN_WHOLE_SHARE]
        partly = [text for text in over if _share(text.box, thing.box) >= MIN_PART_SHARE]
        if sheet:
            gone = {text.handle for text in under}
            self.verdict.hidden |= gone
            self.verdict.undecided += len(partly) - len(under)
            self._texts = [text for text in self._texts if text.handle not in gone]
        else:
            self.verdict.undecided += len(partly)  # a picture may be a mask with holes


def _is_sheet(thing: Drawn) -> bool:
    """Tell whether a thing is a plain rectangle that nothing shines through."""
    return thing.kind == PATH and thing.simple and thing.alpha >= MIN_OPAQUE_ALPHA


def _alike(one: _Colour, other: _Colour) -> bool | None:
    """Tell whether nobody sees a difference; None if only some do."""
    apart = max(abs(one[0] - other[0]), abs(one[1] - other[1]), abs(one[2] - other[2]))
    return True if apart <= MAX_SAME_COLOUR else None if apart <= MAX_NEAR_COLOUR else False


def _share(text: Box, thing: Box) -> float:
    """Return how much of a text lies under a thing, 0 to 1."""
    across = min(text[2], thing[2]) - max(text[0], thing[0])
    up = min(text[3], thing[3]) - max(text[1], thing[1])
    whole = (text[2] - text[0]) * (text[3] - text[1])
    return across * up / whole if whole > 0.0 else 1.0


def inside(inner: Box, outer: Box) -> bool:
    """Tell whether a box lies in another, a little slack allowed."""
    return (
        inner[0] >= outer[0] - _SLACK_POINTS
        and inner[1] >= outer[1] - _SLACK_POINTS
        and inner[2] <= outer[2] + _SLACK_POINTS
        and inner[3] <= outer[3] + _SLACK_POINTS
    )


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
