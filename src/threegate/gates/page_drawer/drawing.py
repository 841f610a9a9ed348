"""One page of a PDF as pixels, with words marked on it.

SECURITY
    Hands a hostile PDF to PDFium, a large C++ library.  Code that takes it over runs in the
    sandbox `page-drawer`, which has no network, no file and no other process, and ends after one
    page.  PDFium never calls back into Python, gets no file names, and is built without scripts
    and without forms of XFA.  The number of pixels is bounded before any memory is taken.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import isfinite, sqrt
from typing import Any, Final

import pypdfium2_raw.bindings as raw  # type: ignore[import-untyped]

from threegate.gates.page_drawer.messages import (
    ALL,
    DAMAGED,
    ENCRYPTED,
    MAX_DRAWN_PIXELS,
    MAX_DRAWN_SIDE,
    MAX_LABEL_CHARS,
    MAX_PAGES,
    NO_SUCH_PAGE,
    NONE,
    PART,
    PIXEL_BYTES,
    DrawnPage,
    DrawPage,
    PageNotDrawn,
)
from threegate.gates.page_drawer.words import find_words

MAX_PAGE_CHARS: Final = 400_000  # as `fetch-pdf` reads
MAX_LABELLED_PAGES: Final = 10_000
MAX_BOXES: Final = 1_000  # that are marked
_PASSWORD: Final = 4  # of FPDF_GetLastError
_WHITE: Final = 0xFFFFFFFF
_MARKER: Final = (255, 226, 92)  # yellow
_OPAQUE_INK: Final = 0.2  # shows on a dark page; the rest lets dark letters through


def _under_marker(old: int, new: int) -> int:
    return round(old * new / 255 * (1 - _OPAQUE_INK) + new * _OPAQUE_INK)


_TABLES: Final = tuple(bytes(_under_marker(old, new) for old in range(256)) for new in _MARKER)

Rectangle = tuple[int, int, int, int]  # left, top, right, bottom, in pixels

_V, _I = raw.c_void_p, raw.c_int


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of the library with types of our own: handles are plain numbers."""
    found = raw._libs["pdfium"][name]  # noqa: SLF001 - the functions it names share their types
    found.restype, found.argtypes = result, arguments
    return found


_load = _function("FPDF_LoadMemDocument64", _V, raw.c_char_p, raw.c_size_t, raw.c_char_p)
_close = _function("FPDF_CloseDocument", None, _V)
_error = _function("FPDF_GetLastError", raw.c_ulong)
_page_count = _function("FPDF_GetPageCount", _I, _V)
_label = _function("FPDF_GetPageLabel", raw.c_ulong, _V, _I, _V, raw.c_ulong)
_load_page = _function("FPDF_LoadPage", _V, _V, _I)
_close_page = _function("FPDF_ClosePage", None, _V)
_width = _function("FPDF_GetPageWidthF", raw.c_float, _V)
_height = _function("FPDF_GetPageHeightF", raw.c_float, _V)
_to_pixels = _function(
    "FPDF_PageToDevice", _I, _V, _I, _I, _I, _I, _I, raw.c_double, raw.c_double, _V, _V
)
_bitmap = _function("FPDFBitmap_CreateEx", _V, _I, _I, _I, _V, _I)
_fill = _function("FPDFBitmap_FillRect", _I, _V, _I, _I, _I, _I, raw.c_ulong)
_close_bitmap = _function("FPDFBitmap_Destroy", None, _V)
_render = _function("FPDF_RenderPageBitmap", None, _V, _V, _I, _I, _I, _I, _I, _I)
_text_page = _function("FPDFText_LoadPage", _V, _V)
_close_text = _function("FPDFText_ClosePage", None, _V)
_chars = _function("FPDFText_CountChars", _I, _V)
_unicode = _function("FPDFText_GetUnicode", raw.c_uint, _V, _I)
_count_boxes = _function("FPDFText_CountRects", _I, _V, _I, _I)
_box = _function("FPDFText_GetRect", _I, _V, _I, _V, _V, _V, _V)


def _start() -> None:
    no_fonts = (raw.POINTER(raw.c_char) * 1)()  # an empty list instead of the system's folders
    config = raw.FPDF_LIBRARY_CONFIG(version=2, m_pUserFontPaths=no_fonts)
    raw.FPDF_InitLibraryWithConfig(raw.byref(config))


_start()


def draw(asked: DrawPage) -> DrawnPage | PageNotDrawn:
    """Return the picture of a page, or why there is none."""
    document = _load(asked.pdf, len(asked.pdf), None)
    if not document:
        return PageNotDrawn(ENCRYPTED if _error() == _PASSWORD else DAMAGED, 0)
    try:
        pages = min(MAX_PAGES, max(0, _page_count(document)))
        number = _number_of(document, pages, asked.page)
        if number is None:
            return PageNotDrawn(NO_SUCH_PAGE if pages else DAMAGED, pages)
        page = _load_page(document, number - 1)
        if not page:
            return PageNotDrawn(DAMAGED, pages)
        try:
            return _drawn(asked, page, number, pages)
        finally:
            _close_page(page)
    finally:
        _close(document)  # the bytes must live until here: PDFium reads on from them


def _number_of(document: int, pages: int, name: str) -> int | None:
    """Return the number of a page that is named by its number, or else by its label."""
    if name.isascii() and name.isdigit() and 1 <= int(name) <= pages:
        return int(name)
    buffer = raw.create_string_buffer(2 * MAX_LABEL_CHARS + 2)
    for at in range(min(pages, MAX_LABELLED_PAGES)):
        size = _label(document, at, buffer, len(buffer))
        if not 2 < size <= len(buffer):
            continue
        label = bytes(buffer.raw[: size - 2]).decode("utf-16-le", "replace")
        if label.strip() == name.strip():
            return at + 1
    return None


def _drawn(asked: DrawPage, page: int, number: int, pages: int) -> DrawnPage | PageNotDrawn:
    sides = _sides(_width(page), _height(page), asked.scale_percent / 100)
    if sides is None:
        return PageNotDrawn(DAMAGED, pages)
    width, height = sides
    points = _rendered(page, width, height)
    marked = NONE
    if points is None:
        return PageNotDrawn(DAMAGED, pages)
    if asked.words:
        boxes, whole = _places(page, asked.words, width, height)
        _mark(points, boxes, width)
        marked = NONE if not boxes else ALL if whole else PART
    return DrawnPage(number, pages, marked, width, height, bytes(points))


def _sides(wide: float, high: float, scale: float) -> tuple[int, int] | None:
    """Return the sides of the picture: a large page is drawn smaller."""
    if not (isfinite(wide) and isfinite(high) and wide > 0 and high > 0):
        return None
    scale = min(scale, MAX_DRAWN_SIDE / wide, MAX_DRAWN_SIDE / high)
    scale = min(scale, sqrt(MAX_DRAWN_PIXELS / (wide * high)))
    return max(1, int(wide * scale)), max(1, int(high * scale))


def _rendered(page: int, width: int, height: int) -> bytearray | None:
    """Return the pixels of a page on white, red first."""
    buffer = (raw.c_char * (PIXEL_BYTES * width * height))()
    bitmap = _bitmap(width, height, raw.FPDFBitmap_BGR, buffer, PIXEL_BYTES * width)
    if not bitmap:
        return None
    try:
        _fill(bitmap, 0, 0, width, height, _WHITE)
        flags = raw.FPDF_ANNOT | raw.FPDF_REVERSE_BYTE_ORDER
        _render(bitmap, page, 0, 0, width, height, 0, flags)
    finally:
        _close_bitmap(bitmap)
    return bytearray(buffer)


def _places(page: int, words: str, width: int, height: int) -> tuple[list[Rectangle], bool]:
    """Return the rectangles that hold the words, and whether all of these were found."""
    text = _text_page(page)
    if not text:
        return [], False
    try:
        count = min(MAX_PAGE_CHARS, max(0, _chars(text)))
        read = _characters([_unicode(text, at) for at in range(count)])
        spans, whole = find_words(read, words)
        boxes = (box for span in spans for box in _boxes(page, text, span, width, height))
        return list(islice(boxes, MAX_BOXES)), whole
    finally:
        _close_text(text)


def _characters(codes: Sequence[int]) -> str:
    """Return exactly one character for each code, so that places in the text are PDFium's own."""
    found = [chr(code) if 0 < code <= 0x10FFFF else " " for code in codes]
    for at, code in enumerate(codes):
        if 0xD800 <= code < 0xE000:  # half of a character beyond 16 bits
            after = codes[at + 1] if at + 1 < len(codes) else 0
            pair = code < 0xDC00 <= after < 0xE000
            whole = 0x10000 + ((code - 0xD800) << 10) + (after - 0xDC00)
            found[at] = chr(whole) if pair else " "
    return "".join(found)


def _boxes(
    page: int, text: int, span: tuple[int, int], width: int, height: int
) -> Iterator[Rectangle]:
    start, end = span
    found, pixel = (raw.c_double * 4)(), (raw.c_int * 2)()
    numbers = [raw.byref(found, 8 * at) for at in range(4)]
    at_x, at_y = raw.byref(pixel, 0), raw.byref(pixel, 4)
    for box in range(max(0, _count_boxes(text, start, end - start))):
        if not _box(text, box, *numbers):
            continue
        left, top, right, bottom = found
        corners = []
        for x, y in ((left, top), (right, bottom)):
            # It knows the page's crop box and its rotation.
            _to_pixels(page, 0, 0, width, height, 0, x, y, at_x, at_y)
            corners.append((pixel[0], pixel[1]))
        across, down = zip(*corners, strict=True)
        shown = (
            *(max(0, min(across) - 1), max(0, min(down) - 1)),
            *(min(width, max(across) + 2), min(height, max(down) + 2)),
        )
        if shown[0] < shown[2] and shown[1] < shown[3]:
            yield shown


def _mark(points: bytearray, boxes: Sequence[Rectangle], width: int) -> None:
    """Lay the marker over rectangles, row by row, and over each pixel once."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for left, top, right, bottom in boxes:
        for row in range(top, bottom):
            rows.setdefault(row, []).append((left, right))
    for row, spans in rows.items():
        reached = 0
        for left, right in sorted(spans):
            left, reached = max(left, reached), max(right, reached)
            first, last = (PIXEL_BYTES * (row * width + x) for x in (left, reached))
            for channel, table in enumerate(_TABLES):
                part = slice(first + channel, last, PIXEL_BYTES)
                points[part] = points[part].translate(table)
