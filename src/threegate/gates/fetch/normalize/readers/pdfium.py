"""PDFium, as few of its functions as reading text takes, with handles as plain numbers.

SECURITY
    Everything this module hands to PDFium is hostile, and PDFium is a large C++ library:
    whoever finds a hole in it runs code in the box of `fetch-pdf`, which has no network, no
    file, no other process, and ends after one document.  PDFium never calls back into
    Python, gets no file names, and looks for no fonts on the machine, so that a text does
    not depend on what is installed.  docs/decisions/0011-pdfium-and-lxml-in-boxes.md.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import hypot
from typing import Any, Final, NamedTuple

import pypdfium2_raw.bindings as raw  # type: ignore[import-untyped]

from threegate.gates.fetch.normalize.readers.pdf_boxes import (
    UPRIGHT,
    Box,
    Matrix,
    common,
    is_rectangle,
    moved,
    multiplied,
)

Handle = int

TEXT: Final = 1
PATH: Final = 2
IMAGE: Final = 3
SHADING: Final = 4
FORM: Final = 5

# FPDF_GetLastError, in words of our own.
ERRORS: Final = {2: "cannot be opened", 3: "is not a PDF or is broken", 4: "needs a password"}

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
_meta = _function("FPDF_GetMetaText", raw.c_ulong, _V, raw.c_char_p, _V, raw.c_ulong)
_load_page = _function("FPDF_LoadPage", _V, _V, _I)
_close_page = _function("FPDF_ClosePage", None, _V)
_page_box = _function("FPDF_GetPageBoundingBox", _I, _V, _V)
_objects = _function("FPDFPage_CountObjects", _I, _V)
_object = _function("FPDFPage_GetObject", _V, _V, _I)
_form_objects = _function("FPDFFormObj_CountObjects", _I, _V)
_form_object = _function("FPDFFormObj_GetObject", _V, _V, raw.c_ulong)
_kind = _function("FPDFPageObj_GetType", _I, _V)
_bounds = _function("FPDFPageObj_GetBounds", _I, _V, _V, _V, _V, _V)
_fill = _function("FPDFPageObj_GetFillColor", _I, _V, _V, _V, _V, _V)
_stroke = _function("FPDFPageObj_GetStrokeColor", _I, _V, _V, _V, _V, _V)
_matrix = _function("FPDFPageObj_GetMatrix", _I, _V, _V)
_mode = _function("FPDFTextObj_GetTextRenderMode", _I, _V)
_font_size = _function("FPDFTextObj_GetFontSize", _I, _V, _V)
_draw_mode = _function("FPDFPath_GetDrawMode", _I, _V, _V, _V)
_segments = _function("FPDFPath_CountSegments", _I, _V)
_clip = _function("FPDFPageObj_GetClipPath", _V, _V)
_clips = _function("FPDFClipPath_CountPaths", _I, _V)
_clip_segments = _function("FPDFClipPath_CountPathSegments", _I, _V, _I)
_clip_segment = _function("FPDFClipPath_GetPathSegment", _V, _V, _I, _I)
_point = _function("FPDFPathSegment_GetPoint", _I, _V, _V, _V)
_transparent = _function("FPDFPageObj_HasTransparency", _I, _V)
_marks = _function("FPDFPageObj_CountMarks", _I, _V)
_mark = _function("FPDFPageObj_GetMark", _V, _V, raw.c_ulong)
_mark_name = _function("FPDFPageObjMark_GetName", _I, _V, _V, raw.c_ulong, _V)
_mark_text = _function(
    "FPDFPageObjMark_GetParamStringValue", _I, _V, raw.c_char_p, _V, raw.c_ulong, _V
)
_stroke_width = _function("FPDFPageObj_GetStrokeWidth", _I, _V, _V)
_notes = _function("FPDFPage_GetAnnotCount", _I, _V)
_note = _function("FPDFPage_GetAnnot", _V, _V, _I)
_note_has = _function("FPDFAnnot_HasKey", _I, _V, raw.c_char_p)
_note_box = _function("FPDFAnnot_GetRect", _I, _V, _V)
_close_note = _function("FPDFPage_CloseAnnot", None, _V)
_text_page = _function("FPDFText_LoadPage", _V, _V)
_close_text = _function("FPDFText_ClosePage", None, _V)
_chars = _function("FPDFText_CountChars", _I, _V)
_text = _function("FPDFText_GetText", _I, _V, _I, _I, _V)
_char_object = _function("FPDFText_GetTextObject", _V, _V, _I)
_char_box = _function("FPDFText_GetCharBox", _I, _V, _I, _V, _V, _V, _V)


def _start() -> None:
    no_fonts = (raw.POINTER(raw.c_char) * 1)()  # an empty list instead of the system's folders
    config = raw.FPDF_LIBRARY_CONFIG(version=2, m_pUserFontPaths=no_fonts)
    raw.FPDF_InitLibraryWithConfig(raw.byref(config))


_start()


class Drawn(NamedTuple):
    """One thing a page paints, in the page's own coordinates."""

    kind: int
    handle: Handle
    box: Box
    colour: tuple[int, int, int]
    alpha: int  # 0 nothing to 255 everything
    mode: int = 0  # how text is painted
    simple: bool = False  # a path that is no more than a rectangle
    size: float = 0.0  # smallest extent of a letter's em in points; text only
    clip: Box | None = None  # nothing outside is painted; text only
    odd: bool = False  # a mask, a blend, a pattern, a layer or a replacement text; text only


class PdfNotOpened(Exception):
    """PDFium did not open the document; the text is our own."""


class Document:
    """An open document; use it as `with opened(data) as document`."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.pages: int = max(0, _page_count(handle))

    def info(self, key: bytes) -> str:
        """Return an entry of the document's own description, empty if there is none."""
        size: int = _meta(self._handle, key, None, 0)
        if not 2 < size <= _MAX_INFO_BYTES:
            return ""
        buffer = raw.create_string_buffer(size)
        _meta(self._handle, key, buffer, size)
        return bytes(buffer.raw[: size - 2]).decode("utf-16-le", "replace")

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
    """An open page and the characters on it."""

    def __init__(self, page: Handle, text: Handle) -> None:
        self._page, self._text = page, text
        self.chars: int = max(0, _chars(text))
        self.cut = False  # whether there is more on the page than was looked at
        self._lettered = False  # whether letters clip what comes later; it is not told until when
        # Written by PDFium again and again: a page has thousands of things on it.
        self._numbers, self._doubles = (raw.c_float * 4)(), (raw.c_double * 4)()
        self._words, self._flags = (raw.c_uint * 4)(), (raw.c_int * 2)()
        self._number_at = tuple(raw.byref(self._numbers, 4 * at) for at in range(4))
        self._double_at = tuple(raw.byref(self._doubles, 8 * at) for at in range(4))
        self._word_at = tuple(raw.byref(self._words, 4 * at) for at in range(4))
        self._name = (raw.c_char * _MAX_NAME_BYTES)()
        self._flag_at = tuple(raw.byref(self._flags, 4 * at) for at in range(2))

    def box(self) -> Box:
        """Return what of the page is shown."""
        found = raw.FS_RECTF()
        _page_box(self._page, raw.byref(found))
        left, right = sorted((found.left, found.right))
        bottom, top = sorted((found.bottom, found.top))
        return left, bottom, right, top

    def text(self, start: int, count: int) -> str:
        """Return `count` characters from `start` on."""
        if count <= 0:
            return ""
        buffer = (raw.c_ushort * (count + 1))()
        written: int = _text(self._text, start, count, buffer)
        return bytes(buffer)[: max(0, written - 1) * 2].decode("utf-16-le", "replace")

    def object_of(self, char: int) -> Handle | None:
        """Return what painted a character; None for a space that PDFium put in."""
        found: Handle | None = _char_object(self._text, char)
        return found

    def char_box(self, char: int) -> Box:
        """Return where a character lies."""
        _char_box(self._text, char, *self._double_at)
        left, right, bottom, top = self._doubles[:]
        return left, bottom, right, top

    def drawn(self, most: int, deepest: int) -> Iterator[Drawn]:
        """Yield what the page paints, first to last, forms taken apart.

        At most `most` things are looked at; if there are more, `cut` is set.
        """
        stack: list[tuple[Any, int, int, Handle, Matrix, bool]] = []
        at, count, holder, matrix, getter = 0, _objects(self._page), self._page, UPRIGHT, _object
        seen, odd = 0, False
        while seen < most:
            if at >= count:
                if not stack:
                    return
                getter, at, count, holder, matrix, odd = stack.pop()
                continue
            handle = getter(holder, at)
            at, seen = at + 1, seen + 1
            kind = _kind(handle) if handle else 0
            if kind == FORM and len(stack) < deepest:
                stack.append((getter, at, count, holder, matrix, odd))
                odd = odd or self._is_odd_form(handle)
                matrix = multiplied(self._matrix(handle), matrix)
                getter, at, count, holder = _form_object, 0, _form_objects(handle), handle
            elif kind == TEXT:
                yield self._text_of(handle, matrix, odd=odd)
            elif kind == PATH:
                _draw_mode(handle, *self._flag_at)
                if self._flags[0]:
                    simple = _segments(handle) <= _RECTANGLE_SEGMENTS
                    yield self._shape_of(kind, handle, matrix, simple=simple)
                elif self._flags[1] and self._is_thick(handle):  # a thin outline covers nothing
                    yield self._shape_of(kind, handle, matrix, colour=_stroke)
            elif kind:
                yield self._shape_of(kind, handle, matrix)
        self.cut = True

    def notes(self, most: int) -> Iterator[Drawn]:
        """Yield the annotations with a look of their own, which lie over the page."""
        count = _notes(self._page)
        self.cut = self.cut or count > most
        found = raw.FS_RECTF()
        for number in range(min(count, most)):
            note = _note(self._page, number)
            if note and _note_has(note, b"AP") and _note_box(note, raw.byref(found)):
                left, right = sorted((found.left, found.right))
                bottom, top = sorted((found.bottom, found.top))
                yield Drawn(IMAGE, note, (left, bottom, right, top), (0, 0, 0), _OPAQUE)
            if note:
                _close_note(note)

    def _is_thick(self, handle: Handle) -> bool:
        _stroke_width(handle, self._number_at[0])
        width: float = self._numbers[0]
        return width >= _MIN_THICK_POINTS

    def _text_of(self, handle: Handle, matrix: Matrix, *, odd: bool) -> Drawn:
        box = self._box_of(handle, matrix)
        # The box of a letter is smaller than its em, so a tall one needs no second look.
        size = box[3] - box[1]
        if size < _LOOK_CLOSER_POINTS or box[2] - box[0] < _LOOK_CLOSER_POINTS:
            size = self._em(handle, matrix)
        mode: int = _mode(handle)
        (_stroke if mode in _STROKED else _fill)(handle, *self._word_at)
        red, green, blue, alpha = self._words
        colour = (red, green, blue)
        odd = odd or colour == _PATTERN or self._is_marked(handle)
        odd = odd or (alpha == _OPAQUE and bool(_transparent(handle)))  # a mask or a blend
        if mode in _BOTH:  # an outline of another colour may cover the letters
            _stroke(handle, *self._word_at)
            odd = odd or tuple(self._words[:3]) != colour
        clip, strange = self._clip_of(handle, matrix)
        odd = odd or strange or self._lettered
        self._lettered = self._lettered or mode >= _CLIPS_FROM
        return Drawn(TEXT, handle, box, colour, alpha, mode, size=size, clip=clip, odd=odd)

    def _is_odd_form(self, handle: Handle) -> bool:
        """Tell whether a form is painted in less than full ink, or on a layer."""
        _fill(handle, *self._word_at)
        return self._words[3] < _OPAQUE or self._is_marked(handle)

    def _is_marked(self, handle: Handle) -> bool:
        """Tell whether a thing is on a layer, or has a text that replaces its letters."""
        count: int = _marks(handle)
        for number in range(min(count, _MAX_MARKS)):
            mark = _mark(handle, number)
            _mark_name(mark, self._name, _MAX_NAME_BYTES, self._flag_at[0])
            if bytes(self._name)[: self._flags[0]] == _LAYER:
                return True
            self._flags[0] = 0
            _mark_text(mark, b"ActualText", None, 0, self._flag_at[0])
            if self._flags[0] > 2:  # bytes, with the end of the text
                return True
        return bool(count > _MAX_MARKS)

    def _shape_of(
        self,
        kind: int,
        handle: Handle,
        matrix: Matrix,
        *,
        simple: bool = False,
        colour: Any = _fill,
    ) -> Drawn:
        box = self._box_of(handle, matrix)
        colour(handle, *self._word_at)
        red, green, blue, alpha = self._words
        kind = SHADING if (red, green, blue) == _PATTERN else kind
        return Drawn(kind, handle, box, (red, green, blue), alpha, simple=simple)

    def _box_of(self, handle: Handle, matrix: Matrix) -> Box:
        _bounds(handle, *self._number_at)
        left, bottom, right, top = self._numbers
        box = (left, bottom, right, top)
        return box if matrix is UPRIGHT else moved(box, matrix)

    def _clip_of(self, handle: Handle, matrix: Matrix) -> tuple[Box | None, bool]:
        """Return the box around what may be painted, and whether there is more to it."""
        clip = _clip(handle)
        count = _clips(clip) if clip else -1  # 0: letters alone
        found: Box | None = None
        odd = count == 0 or count > _MAX_CLIPS
        for number in range(min(count, _MAX_CLIPS)):
            points = []
            segments = _clip_segments(clip, number)
            for at in range(segments if segments <= _MAX_CLIP_POINTS else 0):
                _point(_clip_segment(clip, number, at), *self._number_at[:2])
                points.append((self._numbers[0], self._numbers[1]))
            if points:
                across, up = [x for x, _ in points], [y for _, y in points]
                box = (min(across), min(up), max(across), max(up))
                found = box if found is None else common(found, box)
            odd = odd or not is_rectangle(points)
        return found if found is None or matrix is UPRIGHT else moved(found, matrix), odd

    def _em(self, handle: Handle, matrix: Matrix) -> float:
        _font_size(handle, self._number_at[0])
        a, b, c, d, _, _ = multiplied(self._matrix(handle), matrix)
        size: float = self._numbers[0]
        return abs(size) * min(hypot(a, b), hypot(c, d))

    def _matrix(self, handle: Handle) -> Matrix:
        found = raw.FS_MATRIX()
        if not _matrix(handle, raw.byref(found)):
            return UPRIGHT
        return found.a, found.b, found.c, found.d, found.e, found.f


_LOOK_CLOSER_POINTS: Final = 4.0
_RECTANGLE_SEGMENTS: Final = 5
_MIN_THICK_POINTS: Final = 4.0  # of a line that may cover letters
_MAX_CLIPS: Final = 8  # more are undecided
_MAX_CLIP_POINTS: Final = 64  # a clip of more is undecided
_MAX_MARKS: Final = 16
_MAX_NAME_BYTES: Final = 64
_LAYER: Final = "OC\0".encode("utf-16-le")
_OPAQUE: Final = 255
_PATTERN: Final = (191, 191, 191)  # what PDFium says of ink that is a pattern
_STROKED: Final = (1, 5)  # text modes that paint the outline alone
_BOTH: Final = (2, 6)  # text modes that paint the outline over the letters
_CLIPS_FROM: Final = 4  # text modes that clip what comes later
