"""Messages between the host and the sandbox that draws one page of a stored PDF.

`DrawnPage` holds three bytes for each pixel, row by row; the host writes the image file from them.

SECURITY
    The sandbox has just read a stranger's PDF with native code, so the host takes only numbers
    and points from it: sides within bounds, and exactly as many bytes as they need.  A compromised
    sandbox can send another picture, or claim that words were found.  It cannot send text.
"""

from typing import Final

from threegate.base.limits import MIB
from threegate.base.message_parts import RawPart, Utf8
from threegate.base.message_shapes import TextLine
from threegate.base.messages import Message, head, message, parser_of, part
from threegate.base.schema import Choice, Integer
from threegate.base.wire import need

PROTOCOL: Final = "page-drawer/1"
MAX_PDF_BYTES: Final = 64 * MIB  # as `fetch-pdf` reads
MAX_PAGES: Final = 1_000_000  # as a packet counts them
MAX_LABEL_CHARS: Final = 32
MAX_WORDS_BYTES: Final = 80_000  # the longest excerpt, four bytes for each character
MIN_SCALE_PERCENT: Final = 25
MAX_SCALE_PERCENT: Final = 400
MAX_DRAWN_SIDE: Final = 4_000
MAX_DRAWN_PIXELS: Final = 5_000_000  # three bytes each fit into the output of the sandbox
PIXEL_BYTES: Final = 3

ALL: Final = "all"
PART: Final = "part"
NONE: Final = "none"

DAMAGED: Final = "damaged"
ENCRYPTED: Final = "encrypted"
NO_SUCH_PAGE: Final = "no-such-page"


@message(PROTOCOL, "draw", sender="host", answer="`DrawnPage` or `PageNotDrawn`; the sandbox ends")
class DrawPage(Message):
    """A PDF, one of its pages, and words to mark there."""

    page: str = head(TextLine(MAX_LABEL_CHARS), "its number, counted from 1, or else its label")
    scale_percent: int = head(
        Integer(MIN_SCALE_PERCENT, MAX_SCALE_PERCENT), "100: one pixel for each point of 1/72 inch"
    )
    words: str = part(RawPart(MAX_WORDS_BYTES, Utf8()), "what to mark; empty: nothing")
    pdf: bytes = part(RawPart(MAX_PDF_BYTES), "the bytes of the file")


@message(PROTOCOL, "drawn", sender="sandbox")
class DrawnPage(Message):
    """A picture of `width` times `height` pixels."""

    page: int = head(Integer(1, MAX_PAGES), "its number, counted from 1")
    pages: int = head(Integer(1, MAX_PAGES), "of the document")
    marked: str = head(Choice(ALL, NONE, PART), "how many of the words were found and marked")
    width: int = head(Integer(1, MAX_DRAWN_SIDE), "pixels in a row")
    height: int = head(Integer(1, MAX_DRAWN_SIDE), "rows")
    points: bytes = part(RawPart(PIXEL_BYTES * MAX_DRAWN_PIXELS), "three bytes for each pixel")

    def check(self) -> None:
        need(self.page <= self.pages, "a page behind the last one")
        size = PIXEL_BYTES * self.width * self.height
        need(len(self.points) == size, "not as many points as said")


@message(PROTOCOL, "not-drawn", sender="sandbox")
class PageNotDrawn(Message):
    """There is no picture."""

    reason: str = head(Choice(DAMAGED, ENCRYPTED, NO_SUCH_PAGE), "why")
    pages: int = head(Integer(0, MAX_PAGES), "of the document, 0 if it cannot be opened")


parse_draw: Final = parser_of(DrawPage)
parse_drawn: Final = parser_of(DrawnPage, PageNotDrawn)
