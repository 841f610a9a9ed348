"""A page of a PDF as grey pixels, for text recognition.

SECURITY
    PDFium draws a page of a hostile file (see `pdfium`).  The number of pixels is bounded before
    memory is taken for them.  Ink that hardly differs from white, and marks that hardly differ
    from black, are drawn as white and black: nobody sees such text on the page.
"""

from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Final

import pypdfium2_raw.bindings as raw  # type: ignore[import-untyped]

from threegate.gates.fetch.normalize.readers.pdfium import HANDLE, INT, Page, function

DOTS_PER_INCH: Final = 300  # the size of letters that Tesseract was trained for
MAX_OCR_PAGES: Final = 150  # each takes one to four seconds
MAX_PAGE_PIXELS: Final = 10_000_000  # A4 has 8.7 million
MAX_PAGE_SIDE: Final = 20_000  # pixels; Tesseract refuses more than 32,767
POINTS_PER_INCH: Final = 72
_MIN_DOTS_PER_INCH: Final = 70  # below this Tesseract guesses
_WHITE: Final = 0xFFFFFFFF
_BLACK_BELOW: Final = 40
_WHITE_ABOVE: Final = 215
_CONTRAST: Final = bytes(
    min(255, max(0, (grey - _BLACK_BELOW) * 255 // (_WHITE_ABOVE - _BLACK_BELOW)))
    for grey in range(256)
)

_width = function("FPDF_GetPageWidthF", raw.c_float, HANDLE)
_height = function("FPDF_GetPageHeightF", raw.c_float, HANDLE)
_bitmap = function("FPDFBitmap_CreateEx", HANDLE, INT, INT, INT, HANDLE, INT)
_fill = function("FPDFBitmap_FillRect", INT, HANDLE, INT, INT, INT, INT, raw.c_ulong)
_close = function("FPDFBitmap_Destroy", None, HANDLE)
_render = function("FPDF_RenderPageBitmap", None, HANDLE, HANDLE, INT, INT, INT, INT, INT, INT)


@dataclass(frozen=True, slots=True)
class Picture:
    """Grey pixels, row by row from the top."""

    pixels: bytes
    width: int
    height: int
    dots_per_inch: int


def draw(page: Page) -> Picture | None:
    """Return the picture of a page; None if it has no size or cannot be drawn."""
    wide, high = _width(page.handle), _height(page.handle)
    if not (isfinite(wide) and isfinite(high) and wide >= 1 and high >= 1):
        return None
    scale = min(DOTS_PER_INCH / POINTS_PER_INCH, MAX_PAGE_SIDE / max(wide, high))
    scale = min(scale, sqrt(MAX_PAGE_PIXELS / (wide * high)))
    width, height = max(1, int(wide * scale)), max(1, int(high * scale))
    buffer = (raw.c_char * (width * height))()
    bitmap = _bitmap(width, height, raw.FPDFBitmap_Gray, buffer, width)
    if not bitmap:
        return None
    try:
        _fill(bitmap, 0, 0, width, height, _WHITE)
        _render(bitmap, page.handle, 0, 0, width, height, 0, raw.FPDF_ANNOT | raw.FPDF_GRAYSCALE)
    finally:
        _close(bitmap)
    dots = max(_MIN_DOTS_PER_INCH, round(scale * POINTS_PER_INCH))
    return Picture(bytes(buffer).translate(_CONTRAST), width, height, dots)
