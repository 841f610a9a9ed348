"""Properties that can hide, and what their values do.

Each property that can hide has a test that answers True (it hides), False (it is understood and
does not hide) or None.  The tests know the harmless values; everything else is None and is
counted as undecided.  Colours and sizes depend on the elements around: `surroundings`.

SECURITY
    Values of hostile pages, already parsed by `css`.  Pure.
"""

import re
from collections.abc import Callable
from typing import Final

from threegate.gates.fetch.normalize.readers.css import Declarations, call, length, words

OFF_SCREEN_PIXELS: Final = 300.0
FAR_OFF_PIXELS: Final = 5000.0
FAR_MARGIN_PIXELS: Final = 1000.0  # smaller ones are ordinary layout
MIN_READABLE_PIXELS: Final = 5.0  # of a font or a box; below it is undecided
MAX_CLEAR_OPACITY: Final = 0.05
MAX_SPECK_PIXELS: Final = 2.0
MIN_GLUED_PIXELS: Final = 6.0  # letters that far into each other are not read
MIN_COVER_PIXELS: Final = 100.0  # of a shadow or an outline

DEFAULTS: Final = ("inherit", "initial", "unset", "revert", "revert-layer", "")
Verdict = bool | None
_Test = Callable[[str, Declarations], Verdict]
SIDES: Final = (
    *("left", "right", "top", "bottom", "inset", "inset-inline", "inset-block"),
    *("inset-inline-start", "inset-inline-end", "inset-block-start", "inset-block-end"),
)
_EXTENTS: Final = (
    *("width", "height", "max-width", "max-height"),
    *("inline-size", "block-size", "max-inline-size", "max-block-size"),
)
_CLIPPING: Final = ("hidden", "clip", "auto", "scroll", "overlay")
_DISPLAYS: Final = frozenset(
    re.findall(
        "[-a-z]+",
        "block inline inline-block flex inline-flex grid inline-grid flow-root flow contents table "
        "inline-table table-row table-cell table-row-group table-header-group table-caption "
        "table-footer-group table-column table-column-group list-item run-in ruby ruby-base "
        "ruby-text math -webkit-box -webkit-inline-box -webkit-flex -webkit-inline-flex -moz-box "
        "-ms-flexbox -ms-inline-flexbox -ms-grid box subgrid",
    )
)
_HARMLESS_FILTERS: Final = ("grayscale", "sepia", "hue-rotate", "drop-shadow", "saturate")


def _one_of(harmless: tuple[str, ...], hiding: tuple[str, ...] = ()) -> _Test:
    def test(value: str, _found: Declarations) -> Verdict:
        return True if value in hiding else False if value in harmless else None

    return test


def _display(value: str, _found: Declarations) -> Verdict:
    return True if value == "none" else False if _DISPLAYS.issuperset(value.split()) else None


def _number(least: float, plain: float) -> _Test:
    """Test numbers: hidden at most `least`, understood from `plain` on."""

    def test(value: str, _found: Declarations) -> Verdict:
        numbers = [length(word, percent=1.0) for word in words(value)]
        known = [number for number in numbers if number is not None]
        if any(abs(number) <= least for number in known):
            return True
        return False if len(known) == len(numbers) and min(map(abs, known)) >= plain else None

    return test


def _filter(value: str, _found: Declarations) -> Verdict:
    for word in words(value):
        name, arguments = call(word)
        number = length(arguments[0], percent=1.0) if arguments else 1.0
        if name in _HARMLESS_FILTERS or word == "none":
            continue
        if number is None or name not in ("opacity", "blur", "brightness", "contrast"):
            return None
        if name == "opacity" and number <= MAX_CLEAR_OPACITY:
            return True
        if number > 1.5 if name == "blur" else number < 0.5:
            return None
    return False


def _moved(value: str) -> Verdict:
    if value in ("auto", "none"):
        return False
    distance = length(value)
    if distance is None:
        return None
    limit = -1000.0 if value.endswith("%") else -OFF_SCREEN_PIXELS
    return distance <= limit or distance >= FAR_OFF_PIXELS


def _all(verdicts: list[Verdict]) -> Verdict:
    return True if True in verdicts else None if None in verdicts else False


def _position(value: str, found: Declarations) -> Verdict:
    if value == "static":
        return False
    if value not in ("absolute", "fixed", "relative", "sticky", "-webkit-sticky"):
        return None
    values = [found[side][0] for side in SIDES if side in found]
    return _all(
        [_moved(word) for value in values if value not in DEFAULTS for word in words(value)]
    )


def _offset(value: str, _found: Declarations) -> Verdict:
    return _all([_moved(word) for word in words(value)])


def _indent(value: str, found: Declarations) -> Verdict:
    clipped = found.get("overflow", ("", False))[0] in _CLIPPING
    if clipped and value.endswith("%") and (length(value) or 0.0) >= 1000.0:
        return True
    return _all([_moved(word) for word in words(value) if word not in ("hanging", "each-line")])


def _margin(value: str, _found: Declarations) -> Verdict:
    lengths = [0.0 if word == "auto" else length(word) for word in words(value)]
    if any(distance is not None and distance <= -FAR_MARGIN_PIXELS for distance in lengths):
        return True
    return None if None in lengths else False


def _padding(value: str, _found: Declarations) -> Verdict:
    lengths = [length(word) for word in words(value)]
    return None if any(one is None or one >= FAR_MARGIN_PIXELS for one in lengths) else False


def _overflow(value: str, found: Declarations) -> Verdict:
    kinds = set(value.split())
    if not kinds & {*_CLIPPING, "paint", "strict", "content"}:
        return False if kinds <= {"visible", "none", "layout", "style", "size"} else None
    return _all([_extent(name, found) for name in (*_EXTENTS, "line-height") if name in found])


def _extent(name: str, found: Declarations) -> Verdict:
    value = found[name][0]
    size = length(value)
    if size is None:
        return None if "(" in value else False  # words such as auto and max-content
    if name == "line-height" or size >= MIN_READABLE_PIXELS:
        return None if name == "line-height" and size < 0.3 else False
    least = found.get(name.replace("max-", "min-") if "max-" in name else f"min-{name}")
    if least is not None and (length(least[0]) or 0.0) >= MIN_READABLE_PIXELS:
        return False
    padded = any("padding" in other for other in found) and size == 0.0 and name == "height"
    return True if size < MAX_SPECK_PIXELS and not padded else None


def _transform(value: str, _found: Declarations) -> Verdict:
    return _all([_one_transform(*call(word)) for word in words(value) if word != "none"])


def _one_transform(name: str, parts: list[str]) -> Verdict:
    if name in ("scale", "scalex", "scaley", "scale3d"):
        return _number(0.05, 0.3)(" ".join(parts[:2]), {})
    if name in ("translate", "translatex", "translatey", "translatez", "translate3d"):
        return _all([_moved(part) for part in parts])
    if name in ("rotatex", "rotatey"):
        return {"90deg": True, "-90deg": True, "0.25turn": True, "0": False, "0deg": False}.get(
            parts[0] if parts else ""
        )
    if name == "matrix":
        numbers = [length(part) for part in parts]
        a, b, c, d, x, y = numbers if len(numbers) == 6 else [None] * 6
        if None in (a, b, c, d, x, y):
            return None
        assert a is not None and b is not None and c is not None and d is not None
        if abs(a * d - b * c) <= 0.0025:
            return True
        return _all([_moved(parts[4]), _moved(parts[5]), abs(a * d - b * c) < 0.1 and None])
    return False if name in ("rotate", "rotatez") else None


def _clip(value: str, _found: Declarations) -> Verdict:
    name, parts = call(value)
    sides = [length(part) for part in parts]
    if name != "rect" or len(sides) != 4 or any(side is None for side in sides):
        return False if value == "auto" else None
    top, right, bottom, left = (side or 0.0 for side in sides)
    if right - left <= MAX_SPECK_PIXELS or bottom - top <= MAX_SPECK_PIXELS:
        return True
    return False if min(right - left, bottom - top) >= 2 * MIN_READABLE_PIXELS else None


def _clip_path(value: str, _found: Declarations) -> Verdict:
    if value == "none" or value.endswith("-box"):
        return False
    name, parts = call(value)
    first = length(parts[0], percent=1000.0) if parts else None
    if name == "inset" and first is not None:
        if parts[0].endswith("%") and first >= 500.0:
            return True
        return (
            False
            if all((length(part) or 999.0) <= 100.0 or part == "0" for part in parts)
            else None
        )
    if name in ("circle", "ellipse") and first is not None:
        return True if first <= MAX_SPECK_PIXELS else False if first >= 300.0 else None
    if name == "polygon":
        points = {" ".join(point.split()) for point in value[8:-1].split(",")}
        full = {"0 0", "100% 0", "100% 100%", "0 100%"}
        return True if len(points) < 3 else False if full <= points else None
    return None


def _at_most(limit: float) -> _Test:
    """Test lengths of a shadow or an outline, which may lie over the text beside it."""

    def test(value: str, _found: Declarations) -> Verdict:
        lengths = [length(word) for word in words(value)]
        return None if any(one is not None and abs(one) >= limit for one in lengths) else False

    return test


def _content(value: str, _found: Declarations) -> Verdict:
    return None if "(" in value and not value.startswith(("attr(", "counter")) else False


def _z_index(value: str, _found: Declarations) -> Verdict:
    return None if value.startswith("-") or "(" in value else False


def _spacing(value: str, _found: Declarations) -> Verdict:
    distance = 0.0 if value == "normal" else length(value)
    if distance is None or -MIN_GLUED_PIXELS < distance <= -3.0:
        return None
    return distance <= -MIN_GLUED_PIXELS


def _zero_track(value: str, _found: Declarations) -> Verdict:
    return None if {"0", "0fr", "0px"} & set(words(value)) else False


_NOTHING: Final = _one_of(("none", "normal"))
TESTS: Final[dict[str, _Test]] = {
    "display": _display,
    "visibility": _one_of(("visible",), ("hidden", "collapse")),
    "content-visibility": _one_of(("visible", "auto"), ("hidden",)),
    "opacity": _number(MAX_CLEAR_OPACITY, 0.0),
    "zoom": lambda value, found: (
        False if value in ("normal", "reset") else _number(0.12, 0.4)(value, found)
    ),
    "filter": _filter,
    "-webkit-filter": _filter,
    "position": _position,
    "text-indent": _indent,
    **{f"margin{side}": _margin for side in ("", "-left", "-top", "-right", "-inline-start")},
    **{f"padding{side}": _padding for side in ("", "-left", "-top", "-inline-start")},
    **dict.fromkeys(("overflow", "overflow-x", "overflow-y", "contain"), _overflow),
    "scale": lambda value, found: False if value == "none" else _number(0.05, 0.3)(value, found),
    "translate": _offset,
    "rotate": lambda value, _: None if len(words(value)) != 1 else False,
    "letter-spacing": _spacing,
    "word-spacing": _spacing,
    "transform": _transform,
    "-webkit-transform": _transform,
    "clip": _clip,
    "clip-path": _clip_path,
    "-webkit-clip-path": _clip_path,
    "font-size-adjust": lambda value, found: (
        False if value in ("none", "from-font") else _number(0.05, 0.2)(value, found)
    ),
    "z-index": _z_index,
    "content": _content,
    "box-shadow": _at_most(MIN_COVER_PIXELS),
    "outline": _at_most(MIN_COVER_PIXELS),
    "outline-width": _at_most(MIN_COVER_PIXELS),
    "grid-template-rows": _zero_track,
    "grid-template-columns": _zero_track,
    "unicode-bidi": _one_of(("normal", "embed", "isolate", "plaintext")),
    "-webkit-text-security": _NOTHING,
    "mix-blend-mode": _NOTHING,
    "offset-path": _NOTHING,
    **{
        f"{vendor}mask{part}": _NOTHING
        for vendor in ("", "-webkit-")
        for part in ("", "-image", "-border", "-border-source", "-box-image")
    },
}
# A block that sets none of these cannot hide, and is not looked at.
RELEVANT: Final = frozenset(
    {
        *TESTS,
        *SIDES,
        *_EXTENTS,
        *("color", "-webkit-text-fill-color", "background", "background-color", "background-image"),
        *("font", "font-size", "line-height", "animation", "animation-name", "all"),
    }
)
