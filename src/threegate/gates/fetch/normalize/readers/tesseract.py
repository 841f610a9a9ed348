"""Tesseract: the lines of text in a grey picture, with their places and its confidence.

SECURITY
    Tesseract and Leptonica are large C++ and C libraries, and the pixels come from a hostile file.
    Code that takes them over runs in the sandbox `fetch-ocr`, which has no network, no other
    process and one directory with language data, and ends after one document.  Tesseract decodes
    no picture format here: it gets plain pixels of bounded size.  If this module is wrong, a
    packet quotes words that are not on the page.  docs/decisions/0049-tesseract-in-process.md.
"""

import ctypes  # noqa: TID251 - Tesseract has no Python module; decision 0049
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from threegate.gates.fetch.normalize.readers.pdf_pixels import Picture
from threegate.sandbox.payload import TESSDATA, TESSERACT, answer_once

_LSTM_ONLY: Final = 1
_AUTO: Final = 3  # find columns and lines; the page is upright
_PARAGRAPH, _LINE = 1, 2  # levels of its results

# One thread: the order of additions would change results, and the sandbox has few processes.
os.environ["OMP_THREAD_LIMIT"] = "1"
_library = ctypes.CDLL(TESSERACT)
_HANDLE, _INT, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p


def _function(name: str, result: Any, *arguments: Any) -> Any:
    found = getattr(_library, name)
    found.restype, found.argtypes = result, arguments
    return found


_create = _function("TessBaseAPICreate", _HANDLE)
_delete = _function("TessBaseAPIDelete", None, _HANDLE)
_init = _function("TessBaseAPIInit2", _INT, _HANDLE, _TEXT, _TEXT, _INT)
_set_mode = _function("TessBaseAPISetPageSegMode", None, _HANDLE, _INT)
_set_image = _function("TessBaseAPISetImage", None, _HANDLE, _TEXT, _INT, _INT, _INT, _INT)
_set_resolution = _function("TessBaseAPISetSourceResolution", None, _HANDLE, _INT)
_recognize = _function("TessBaseAPIRecognize", _INT, _HANDLE, _HANDLE)
_confidence = _function("TessBaseAPIMeanTextConf", _INT, _HANDLE)
_clear = _function("TessBaseAPIClear", None, _HANDLE)
_iterator = _function("TessBaseAPIGetIterator", _HANDLE, _HANDLE)
_delete_iterator = _function("TessResultIteratorDelete", None, _HANDLE)
_places = _function("TessResultIteratorGetPageIteratorConst", _HANDLE, _HANDLE)
_next = _function("TessResultIteratorNext", _INT, _HANDLE, _INT)
_begins = _function("TessPageIteratorIsAtBeginningOf", _INT, _HANDLE, _INT)
_box = _function(
    "TessPageIteratorBoundingBox", _INT, _HANDLE, _INT, _HANDLE, _HANDLE, _HANDLE, _HANDLE
)
_utf8 = _function("TessResultIteratorGetUTF8Text", _HANDLE, _HANDLE, _INT)
_delete_text = _function("TessDeleteText", None, _HANDLE)
_font = _function("TessResultIteratorWordFontAttributes", _TEXT, _HANDLE, *[_HANDLE] * 8)
_version = _function("TessVersion", _TEXT)


@dataclass(frozen=True, slots=True)
class RecognisedLine:
    """A line of text; places are pixels from the upper left corner."""

    text: str
    left: int
    top: int
    right: int
    bottom: int
    points: int  # size of the letters; 0 if it is not known
    starts: bool  # a paragraph


@dataclass(frozen=True, slots=True)
class RecognisedPage:
    """The lines of a page in reading order, and the mean confidence of its words in percent."""

    lines: tuple[RecognisedLine, ...]
    confidence: int


class NoLanguage(Exception):
    """Tesseract does not start with these languages; the text is our own."""


class Recogniser:
    """An engine with its languages; use it as `with opened(languages) as recogniser`."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def read(self, picture: Picture) -> RecognisedPage:
        """Return the text of a picture."""
        width, height = picture.width, picture.height
        assert len(picture.pixels) == width * height
        _set_image(self._handle, picture.pixels, width, height, 1, width)
        _set_resolution(self._handle, picture.dots_per_inch)
        try:
            if _recognize(self._handle, None):
                return RecognisedPage((), 0)
            lines = tuple(self._lines())
            return RecognisedPage(lines, min(100, max(0, _confidence(self._handle))))
        finally:
            _clear(self._handle)

    def _lines(self) -> Iterator[RecognisedLine]:
        iterator = _iterator(self._handle)
        if not iterator:
            return
        try:
            line = _line(iterator)
            while line is not None:
                if line.text:
                    yield line
                line = _line(iterator) if _next(iterator, _LINE) else None
        finally:
            _delete_iterator(iterator)


def _line(iterator: int) -> RecognisedLine | None:
    places, found = _places(iterator), (_INT * 4)()
    if not _box(places, _LINE, *(ctypes.byref(found, 4 * at) for at in range(4))):
        return None
    text = _utf8(iterator, _LINE)
    read = ctypes.string_at(text).decode("utf-8", "replace") if text else ""
    if text:
        _delete_text(text)
    left, top, right, bottom = found
    starts = bool(_begins(places, _PARAGRAPH))
    return RecognisedLine(
        " ".join(read.split()), left, top, right, bottom, _points(iterator), starts
    )


def _points(iterator: int) -> int:
    flags, numbers = (_INT * 6)(), (_INT * 2)()
    pointers = [ctypes.byref(flags, 4 * at) for at in range(6)]
    _font(iterator, *pointers, ctypes.byref(numbers, 0), ctypes.byref(numbers, 4))
    return max(0, numbers[0])


@contextmanager
def opened(languages: Sequence[str]) -> Iterator[Recogniser]:
    """Start an engine; raise `NoLanguage`."""
    handle = _create()
    try:
        if _init(handle, TESSDATA.encode(), "+".join(languages).encode(), _LSTM_ONLY):
            raise NoLanguage(f"Tesseract has no usable data for {' and '.join(languages)}")
        _set_mode(handle, _AUTO)
        yield Recogniser(handle)
    finally:
        _delete(handle)


def tell_version() -> None:
    """Answer one message with the version of the library; a payload of `threegate doctor`."""
    answer_once(lambda _: bytes(_version()), 0)
