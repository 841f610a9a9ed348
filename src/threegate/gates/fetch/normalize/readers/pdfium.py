"""PDFium, as few of its functions as reading text takes, with handles as plain numbers.

SECURITY
    Everything this module hands to PDFium is hostile, and PDFium is a large C++ library:
    whoever finds a hole in it runs code in the box of `fetch-pdf`, which has no network, no
    file, no other process, and ends after one document.  PDFium never calls back into
    Python, gets no file names, and looks for no fonts on the machine, so that a text does
    not depend on what is installed.  docs/decisions/0011-pdfium-and-lxml-in-boxes.md.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any, Final

import pypdfium2_raw.bindings as raw  # type: ignore[import-untyped]

from threegate.gates.fetch.normalize.readers.pdf_boxes import Box, Matrix

Handle = int


# FPDF_GetLastError, in words of our own.
ERRORS: Final = {2: "cannot be opened", 3: "is not a PDF or is broken", 4: "needs a password"}

HANDLE, INT = raw.c_void_p, raw.c_int


def function(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of the library with types of our own: handles are plain numbers."""
    found = raw._libs["pdfium"][name]  # noqa: SLF001 - the functions it names share their types
    found.restype, found.argtypes = result, arguments
    return found


_load = function("FPDF_LoadMemDocument64", HANDLE, raw.c_char_p, raw.c_size_t, raw.c_char_p)
_close = function("FPDF_CloseDocument", None, HANDLE)
_error = function("FPDF_GetLastError", raw.c_ulong)
_page_count = function("FPDF_GetPageCount", INT, HANDLE)
_meta = function("FPDF_GetMetaText", raw.c_ulong, HANDLE, raw.c_char_p, HANDLE, raw.c_ulong)
_label = function("FPDF_GetPageLabel", raw.c_ulong, HANDLE, INT, HANDLE, raw.c_ulong)
_load_page = function("FPDF_LoadPage", HANDLE, HANDLE, INT)
_close_page = function("FPDF_ClosePage", None, HANDLE)
_page_box = function("FPDF_GetPageBoundingBox", INT, HANDLE, HANDLE)
_text_page = function("FPDFText_LoadPage", HANDLE, HANDLE)
_close_text = function("FPDFText_ClosePage", None, HANDLE)
_chars = function("FPDFText_CountChars", INT, HANDLE)
_text = function("FPDFText_GetText", INT, HANDLE, INT, INT, HANDLE)
_unicode = function("FPDFText_GetUnicode", raw.c_uint, HANDLE, INT)
_char_object = function("FPDFText_GetTextObject", HANDLE, HANDLE, INT)
_char_box = function("FPDFText_GetCharBox", INT, HANDLE, INT, HANDLE, HANDLE, HANDLE, HANDLE)
_loose_box = function("FPDFText_GetLooseCharBox", INT, HANDLE, INT, HANDLE)
_char_matrix = function("FPDFText_GetMatrix", INT, HANDLE, INT, HANDLE)
_char_size = function("FPDFText_GetFontSize", raw.c_double, HANDLE, INT)
_char_font = function("FPDFText_GetFontInfo", raw.c_ulong, HANDLE, INT, HANDLE, raw.c_ulong, HANDLE)


def _start() -> None:
    no_fonts = (raw.POINTER(raw.c_char) * 1)()  # an empty list instead of the system's folders
    config = raw.FPDF_LIBRARY_CONFIG(version=2, m_pUserFontPaths=no_fonts)
    raw.FPDF_InitLibraryWithConfig(raw.byref(config))


_start()


class PdfNotOpened(Exception):
    """PDFium did not open the document; the text is our own."""


class Document:
    """An open document; use it as `with opened(data) as document`."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.pages: int = max(0, _page_count(handle))

    def info(self, key: bytes) -> str:
        """Return an entry of the document's own description, empty if there is none."""
        return _utf16(_meta, self._handle, key)

    def label(self, number: int) -> str:
        """Return what page `number`, counted from 0, calls itself, empty if it does not."""
        return _utf16(_label, self._handle, number)

    @contextmanager
    def page(self, number: int) -> Iterator["Page | None"]:
        """Give page `number`, counted from 0; None if it cannot be read."""
        page = _load_page(self._handle, number)
        text = _text_page(page) if page else None
        try:
            yield Page(page, text) if page and text else None
        finally:
            if text:
                _close_text(text)
            if page:
                _close_page(page)


def _utf16(function_: Any, handle: Handle, key: bytes | int) -> str:
    size: int = function_(handle, key, None, 0)
    if not 2 < size <= _MAX_INFO_BYTES:
        return ""
    buffer = raw.create_string_buffer(size)
    function_(handle, key, buffer, size)
    return bytes(buffer.raw[: size - 2]).decode("utf-16-le", "replace")


_MAX_INFO_BYTES: Final = 8192


@contextmanager
def opened(data: bytes) -> Iterator[Document]:
    """Open a document; raise `PdfNotOpened`."""
    handle = _load(data, len(data), None)
    if not handle:
        raise PdfNotOpened(f"the PDF {ERRORS.get(_error(), 'cannot be read')}")
    try:
        yield Document(handle)
    finally:
        _close(handle)  # `data` must live until here: PDFium reads on from it


class Page:
    """An open page and the characters on it.

    A page has thousands of characters, so most functions answer for many at once: PDFium is
    called by `map`, and writes into one array.
    """

    def __init__(self, page: Handle, text: Handle) -> None:
        self.handle, self._text = page, text
        self.chars: int = max(0, _chars(text))

    def box(self) -> Box:
        """Return what of the page is shown."""
        found = raw.FS_RECTF()
        _page_box(self.handle, raw.byref(found))
        left, right = sorted((found.left, found.right))
        bottom, top = sorted((found.bottom, found.top))
        return left, bottom, right, top

    def text(self, count: int) -> str:
        """Return the first `count` characters, one for each that PDFium counts."""
        buffer = (raw.c_ushort * (count + 1))()
        written: int = _text(self._text, 0, count, buffer)
        text = bytes(buffer)[: max(0, written - 1) * 2].decode("utf-16-le", "replace")
        if len(text) == count:
            return text
        # PDFium leaves out characters without a meaning; their places would shift.
        codes: Iterator[int] = map(_unicode, repeat(self._text), range(count))
        return "".join(chr(code) if code < _MAX_CODE else "\ufffd" for code in codes)

    def objects(self, count: int) -> list[Handle | None]:
        """Return what painted the first `count` characters; None for a space PDFium put in."""
        return list(map(_char_object, repeat(self._text), range(count)))

    def char_box(self, char: int) -> Box:
        """Return where the ink of a character lies."""
        found = (raw.c_double * 4)()
        _char_box(self._text, char, *(raw.byref(found, 8 * at) for at in range(4)))
        left, right, bottom, top = found
        return left, bottom, right, top

    def boxes(self, chars: Sequence[int]) -> list[float]:
        """Return left, top, right and bottom of each character's em, one after the other."""
        return self._filled(_loose_box, chars, 4)

    def matrices(self, chars: Sequence[int]) -> list[Matrix]:
        """Return how the em of each character is turned and scaled."""
        return list(zip(*[iter(self._filled(_char_matrix, chars, 6))] * 6, strict=True))

    def sizes(self, chars: Sequence[int]) -> list[float]:
        """Return the size of each character's font, before it is scaled."""
        return list(map(_char_size, repeat(self._text), chars))

    def fonts(self, chars: Sequence[int]) -> list[bytes]:
        """Return the beginning of the name of each character's font."""
        names = (raw.c_char * (_FONT_BYTES * len(chars)))()
        start = raw.addressof(names)
        places = range(start, start + _FONT_BYTES * len(chars), _FONT_BYTES)
        arguments = (repeat(self._text), chars, places, repeat(_FONT_BYTES), repeat(None))
        lengths = list(map(_char_font, *arguments))  # a longer name is not written at all
        found = bytes(names)
        return [
            found[at : at + length] if length <= _FONT_BYTES else b""
            for at, length in zip(range(0, len(found), _FONT_BYTES), lengths, strict=True)
        ]

    def _filled(self, function_: Any, chars: Sequence[int], width: int) -> list[float]:
        found = (raw.c_float * (width * len(chars)))()
        start = raw.addressof(found)
        places = range(start, start + 4 * width * len(chars), 4 * width)
        deque(map(function_, repeat(self._text), chars, places), maxlen=0)
        numbers: list[float] = found[:]
        return numbers


_MAX_CODE: Final = 0x110000
_FONT_BYTES: Final = 64
