"""What a page of a PDF paints, first to last, in numbers that `hidden_pdf` judges.

SECURITY
    Asks PDFium about a hostile page (see `pdfium`).  At most a given number of things is looked
    at, forms are taken apart to a given depth, and a page with more says so.  If this module is
    wrong, text that nobody sees is taken for text that everybody sees.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from math import hypot, isfinite
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
from threegate.gates.fetch.normalize.readers.pdfium import HANDLE, INT, Handle, function

TEXT: Final = 1
PATH: Final = 2
IMAGE: Final = 3
SHADING: Final = 4
FORM: Final = 5
NOTE: Final = 6  # not of PDFium: an annotation
MIN_COVER_POINTS: Final = 1.5  # a rule of a table covers nothing that could be read

_objects = function("FPDFPage_CountObjects", INT, HANDLE)
_object = function("FPDFPage_GetObject", HANDLE, HANDLE, INT)
_form_objects = function("FPDFFormObj_CountObjects", INT, HANDLE)
_form_object = function("FPDFFormObj_GetObject", HANDLE, HANDLE, raw.c_ulong)
_kind = function("FPDFPageObj_GetType", INT, HANDLE)
_bounds = function("FPDFPageObj_GetBounds", INT, HANDLE, HANDLE, HANDLE, HANDLE, HANDLE)
_fill = function("FPDFPageObj_GetFillColor", INT, HANDLE, HANDLE, HANDLE, HANDLE, HANDLE)
_stroke = function("FPDFPageObj_GetStrokeColor", INT, HANDLE, HANDLE, HANDLE, HANDLE, HANDLE)
_matrix = function("FPDFPageObj_GetMatrix", INT, HANDLE, HANDLE)
_mode = function("FPDFTextObj_GetTextRenderMode", INT, HANDLE)
_font_size = function("FPDFTextObj_GetFontSize", INT, HANDLE, HANDLE)
_draw_mode = function("FPDFPath_GetDrawMode", INT, HANDLE, HANDLE, HANDLE)
_segments = function("FPDFPath_CountSegments", INT, HANDLE)
_clip = function("FPDFPageObj_GetClipPath", HANDLE, HANDLE)
_clips = function("FPDFClipPath_CountPaths", INT, HANDLE)
_clip_segments = function("FPDFClipPath_CountPathSegments", INT, HANDLE, INT)
_clip_segment = function("FPDFClipPath_GetPathSegment", HANDLE, HANDLE, INT, INT)
_point = function("FPDFPathSegment_GetPoint", INT, HANDLE, HANDLE, HANDLE)
_transparent = function("FPDFPageObj_HasTransparency", INT, HANDLE)
_marks = function("FPDFPageObj_CountMarks", INT, HANDLE)
_mark = function("FPDFPageObj_GetMark", HANDLE, HANDLE, raw.c_ulong)
_mark_name = function("FPDFPageObjMark_GetName", INT, HANDLE, HANDLE, raw.c_ulong, HANDLE)
_mark_text = function(
    "FPDFPageObjMark_GetParamStringValue", INT, HANDLE, raw.c_char_p, HANDLE, raw.c_ulong, HANDLE
)
_stroke_width = function("FPDFPageObj_GetStrokeWidth", INT, HANDLE, HANDLE)
_pixels = function("FPDFImageObj_GetImagePixelSize", INT, HANDLE, HANDLE, HANDLE)
_notes = function("FPDFPage_GetAnnotCount", INT, HANDLE)
_note = function("FPDFPage_GetAnnot", HANDLE, HANDLE, INT)
_note_has = function("FPDFAnnot_HasKey", INT, HANDLE, raw.c_char_p)
_note_box = function("FPDFAnnot_GetRect", INT, HANDLE, HANDLE)
_close_note = function("FPDFPage_CloseAnnot", None, HANDLE)


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
    odd: bool = False  # a mask, a blend, a pattern, a layer or a replacement text; not of paths


class PlainText(NamedTuple):
    """What a page paints if it paints nothing but plain text and thin lines."""

    colours: frozenset[tuple[int, int, int]]
    box: Box  # around all of it
    size: float  # of the smallest em


class _Row(NamedTuple):
    """What PDFium tells of a thing in one call each, asked for many things at once."""

    handle: Handle
    kind: int
    box: Box
    fill: tuple[int, int, int, int]
    mode: int
    marks: int
    transparent: int
    clip: Handle | None
    clips: int


class Painting:
    """What a page paints."""

    def __init__(self, page: Handle) -> None:
        self._page = page
        self.cut = False  # whether there is more on the page than was looked at
        self._lettered = False  # whether letters clip what comes later; it is not told until when
        # Written by PDFium again and again.
        self._numbers, self._words = (raw.c_float * 4)(), (raw.c_uint * 4)()
        self._flags = (raw.c_int * 2)()
        self._number_at = tuple(raw.byref(self._numbers, 4 * at) for at in range(4))
        self._word_at = tuple(raw.byref(self._words, 4 * at) for at in range(4))
        self._flag_at = tuple(raw.byref(self._flags, 4 * at) for at in range(2))
        self._name = (raw.c_char * _MAX_NAME_BYTES)()

    def plain_text(self, most: int) -> PlainText | None:
        """Return what there is to judge on an ordinary page; None if each thing has to be judged.

        Plain is opaque filled text without a clip, a mask, a blend, a mark or a pattern.
        """
        count = _objects(self._page)
        if not 0 < count <= most:
            return None
        handles = list(map(_object, repeat(self._page), range(count)))
        kinds = list(map(_kind, handles))
        texts = [handle for handle, kind in zip(handles, kinds, strict=True) if kind == TEXT]
        if not texts or not self._are_thin(handles, kinds):
            return None
        odd = any(map(_mode, texts)) or any(map(_marks, texts)) or any(map(_transparent, texts))
        if odd or max(map(_clips, map(_clip, texts))) >= 0 or any(self.notes(most)):
            return None
        return self._plain_text(texts)

    def _are_thin(self, handles: Sequence[Handle], kinds: Sequence[int]) -> bool:
        """Tell whether all that is no text is a line that covers nothing."""
        others = [
            (handle, kind) for handle, kind in zip(handles, kinds, strict=True) if kind != TEXT
        ]
        if len(others) > _MAX_PLAIN_PATHS or any(kind != PATH for _, kind in others):
            return False
        for handle, _ in others:
            left, bottom, right, top = _filled(_bounds, [handle], raw.c_float)
            if not min(right - left, top - bottom) < MIN_COVER_POINTS or self._is_thick(handle):
                return False
        return True

    def _plain_text(self, texts: Sequence[Handle]) -> PlainText | None:
        places, inks = _filled(_bounds, texts, raw.c_float), _filled(_fill, texts, raw.c_uint)
        if not isfinite(sum(places)) or min(inks[3::4]) < _OPAQUE:
            return None
        lefts, bottoms, rights, tops = (places[at::4] for at in range(4))
        colours = frozenset(zip(inks[0::4], inks[1::4], inks[2::4], strict=True))
        if _PATTERN in colours:
            return None
        sizes = [
            self._em(handle, UPRIGHT)
            for handle, left, bottom, right, top in zip(
                texts, lefts, bottoms, rights, tops, strict=True
            )
            if top - bottom < _LOOK_CLOSER_POINTS or right - left < _LOOK_CLOSER_POINTS
        ]
        box = (min(lefts), min(bottoms), max(rights), max(tops))
        return PlainText(colours, box, min(sizes, default=_LOOK_CLOSER_POINTS))

    def things(self, most: int, deepest: int) -> Iterator[Drawn]:
        """Yield what the page paints, first to last, forms taken apart.

        At most `most` things are looked at; if there are more, `cut` is set.
        """
        stack: list[tuple[Iterator[_Row], Matrix, bool]] = []
        rows, matrix, odd = _rows(_object, self._page, _objects(self._page)), UPRIGHT, False
        for _ in range(most):
            row = next(rows, None)
            while row is None and stack:
                rows, matrix, odd = stack.pop()
                row = next(rows, None)
            if row is None:
                return
            if row.kind == FORM and len(stack) < deepest:
                stack.append((rows, matrix, odd))
                odd = odd or row.fill[3] < _OPAQUE or self._is_marked(row)
                matrix = multiplied(_matrix_of(row.handle), matrix)
                rows = _rows(_form_object, row.handle, _form_objects(row.handle))
            elif row.kind == TEXT:
                yield self._text_of(row, matrix, odd=odd)
            elif row.kind == PATH:
                shape = self._path_of(row, matrix)
                if shape is not None:
                    yield shape
            elif row.kind:
                yield _shape_of(row, matrix, row.fill, odd=odd or bool(row.transparent))
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
                yield Drawn(NOTE, note, (left, bottom, right, top), (0, 0, 0), _OPAQUE)
            if note:
                _close_note(note)

    def _path_of(self, row: _Row, matrix: Matrix) -> Drawn | None:
        _draw_mode(row.handle, *self._flag_at)
        if self._flags[0]:
            simple = _segments(row.handle) <= _RECTANGLE_SEGMENTS
            return _shape_of(row, matrix, row.fill, simple=simple)
        if self._flags[1] and self._is_thick(row.handle):  # a thin outline covers nothing
            return _shape_of(row, matrix, self._stroke_of(row.handle))
        return None

    def _is_thick(self, handle: Handle) -> bool:
        _stroke_width(handle, self._number_at[0])
        width: float = self._numbers[0]
        return width >= _MIN_THICK_POINTS

    def _stroke_of(self, handle: Handle) -> tuple[int, int, int, int]:
        _stroke(handle, *self._word_at)
        red, green, blue, alpha = self._words
        return red, green, blue, alpha

    def _text_of(self, row: _Row, matrix: Matrix, *, odd: bool) -> Drawn:
        handle, mode = row.handle, row.mode
        box = row.box if matrix is UPRIGHT else moved(row.box, matrix)
        # The box of a letter is smaller than its em, so a tall one needs no second look.
        size = box[3] - box[1]
        if size < _LOOK_CLOSER_POINTS or box[2] - box[0] < _LOOK_CLOSER_POINTS:
            size = self._em(handle, matrix)
        red, green, blue, alpha = self._stroke_of(handle) if mode in _STROKED else row.fill
        colour = (red, green, blue)
        odd = odd or colour == _PATTERN or (row.marks != 0 and self._is_marked(row))
        odd = odd or (alpha == _OPAQUE and bool(row.transparent))  # a mask or a blend
        if mode in _BOTH:  # an outline of another colour may cover the letters
            odd = odd or self._stroke_of(handle)[:3] != colour
        clip = None
        if row.clip and row.clips >= 0:
            clip, strange = self._clip_of(row, matrix)
            odd = odd or strange
        odd = odd or self._lettered
        self._lettered = self._lettered or mode >= _CLIPS_FROM
        return Drawn(TEXT, handle, box, colour, alpha, mode, size=size, clip=clip, odd=odd)

    def _is_marked(self, row: _Row) -> bool:
        """Tell whether a thing is on a layer, or has a text that replaces its letters."""
        for number in range(min(row.marks, _MAX_MARKS)):
            mark = _mark(row.handle, number)
            _mark_name(mark, self._name, _MAX_NAME_BYTES, self._flag_at[0])
            if bytes(self._name)[: self._flags[0]] == _LAYER:
                return True
            self._flags[0] = 0
            _mark_text(mark, b"ActualText", None, 0, self._flag_at[0])
            if self._flags[0] > 2:  # bytes, with the end of the text
                return True
        return row.marks > _MAX_MARKS

    def _clip_of(self, row: _Row, matrix: Matrix) -> tuple[Box | None, bool]:
        """Return the box around what may be painted, and whether there is more to it."""
        found: Box | None = None
        odd = row.clips == 0 or row.clips > _MAX_CLIPS  # 0: letters alone
        for number in range(min(row.clips, _MAX_CLIPS)):
            points = []
            segments = _clip_segments(row.clip, number)
            for at in range(segments if segments <= _MAX_CLIP_POINTS else 0):
                _point(_clip_segment(row.clip, number, at), *self._number_at[:2])
                points.append((self._numbers[0], self._numbers[1]))
            if points:
                across, up = [x for x, _ in points], [y for _, y in points]
                box = (min(across), min(up), max(across), max(up))
                found = box if found is None else common(found, box)
            odd = odd or not is_rectangle(points)
        return found if found is None or matrix is UPRIGHT else moved(found, matrix), odd

    def _em(self, handle: Handle, matrix: Matrix) -> float:
        _font_size(handle, self._number_at[0])
        a, b, c, d, _, _ = multiplied(_matrix_of(handle), matrix)
        size: float = self._numbers[0]
        return abs(size) * min(hypot(a, b), hypot(c, d))


def pixels_of(handle: Handle) -> tuple[int, int]:
    """Return how many points an image has across and up."""
    found = (raw.c_uint * 2)()
    _pixels(handle, raw.byref(found), raw.byref(found, 4))
    return found[0], found[1]


def _rows(getter: Any, holder: Handle, count: int) -> Iterator[_Row]:
    """Yield the things on a page or in a form."""
    for start in range(0, count, _ROWS):
        found = list(map(getter, repeat(holder), range(start, min(count, start + _ROWS))))
        kinds = list(map(_kind, found))
        boxes = zip(*[iter(_filled(_bounds, found, raw.c_float))] * 4, strict=True)
        fills = zip(*[iter(_filled(_fill, found, raw.c_uint))] * 4, strict=True)
        columns: tuple[Iterable[Any], ...] = (
            repeat(0),
            repeat(0),
            repeat(0),
            repeat(None),
            repeat(-1),
        )
        if kinds.count(PATH) < len(kinds):  # nobody asks paths for these
            clips = list(map(_clip, found))
            seen = map(_transparent, found)
            columns = (map(_mode, found), map(_marks, found), seen, clips, map(_clips, clips))
        yield from map(_Row, found, kinds, boxes, fills, *columns)


def _filled(function_: Any, handles: Sequence[Handle], kind: Any) -> list[Any]:
    """Return the four numbers that a function of PDFium tells of each thing."""
    found = (kind * (4 * len(handles)))()
    start = raw.addressof(found)
    end = start + 16 * len(handles)
    places = (range(start + 4 * at, end, 16) for at in range(4))
    deque(map(function_, handles, *places), maxlen=0)
    numbers: list[Any] = found[:]
    return numbers


def _shape_of(
    row: _Row,
    matrix: Matrix,
    ink: tuple[int, int, int, int],
    *,
    simple: bool = False,
    odd: bool = False,
) -> Drawn:
    box = row.box if matrix is UPRIGHT else moved(row.box, matrix)
    red, green, blue, alpha = ink
    kind = SHADING if (red, green, blue) == _PATTERN else row.kind
    return Drawn(kind, row.handle, box, (red, green, blue), alpha, simple=simple, odd=odd)


def _matrix_of(handle: Handle) -> Matrix:
    found = raw.FS_MATRIX()
    if not _matrix(handle, raw.byref(found)):
        return UPRIGHT
    return found.a, found.b, found.c, found.d, found.e, found.f


_MAX_PLAIN_PATHS: Final = 200
_ROWS: Final = 512  # that are asked for at once
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
