"""Properties that can hide, and what their values do.

Each property that can hide has a test that answers True (it hides), False (it is understood and
does not hide) or None.  The tests know the harmless values; everything else is None and is
counted as undecided.  A value counts as harmless only if every browser takes it: one that a
browser refuses leaves the declaration before it in force.  Colours and sizes depend on the
elements around: `surroundings`.

SECURITY
    Values of hostile pages, already parsed by `css`.  Pure.
"""

from typing import Final

from threegate.gates.fetch.normalize.readers import geometry
from threegate.gates.fetch.normalize.readers.colours import paint
from threegate.gates.fetch.normalize.readers.css import (
    MAX_VALUE_CHARS,
    UNREAD,
    Declarations,
    call,
    length,
    number,
    pieces,
    words,
)
from threegate.gates.fetch.normalize.readers.geometry import (
    DEFAULTS,
    HEIGHTS,
    SIDES,
    WIDTHS,
    Test,
    Verdict,
    numbers,
    one_of,
)

MAX_CLEAR_OPACITY: Final = 0.05
MIN_COVER_PIXELS: Final = 16.0  # of a shadow
MAX_OUTLINE_PIXELS: Final = 8.0
MAX_LINE_PIXELS: Final = 5.0  # of a line through letters
MAX_STROKE_PIXELS: Final = 1.0  # around letters
MIN_SOLID_ALPHA: Final = 0.5

# Understood by Chromium and Firefox, and shown by both.
_DISPLAYS: Final = (
    *("block", "inline", "inline-block", "flex", "inline-flex", "grid", "inline-grid"),
    *("flow-root", "contents", "table", "inline-table", "table-row", "table-cell", "list-item"),
    *("table-row-group", "table-header-group", "table-footer-group", "table-caption"),
    *("-webkit-box", "-webkit-inline-box", "-webkit-flex", "-webkit-inline-flex"),
)
_HARMLESS_FILTERS: Final = ("grayscale", "sepia", "hue-rotate", "drop-shadow", "saturate")
_INHERITED: Final = (
    *("visibility", "letter-spacing", "word-spacing", "text-indent", "line-height"),
    *("-webkit-text-security", "text-combine-upright", "color-scheme", "font-size-adjust"),
    *("-webkit-text-stroke", "-webkit-text-stroke-width", "-webkit-line-clamp"),
)


def judged(name: str, found: Declarations) -> Verdict:
    """Return what a declaration does."""
    value, test = found[name][0], TESTS.get(name)
    if len(value) > MAX_VALUE_CHARS and name in RELEVANT:
        return None
    if test is None or (value in DEFAULTS and name not in (UNREAD, "all")):
        return False
    if value == "inherit":
        return False if name in _INHERITED else None
    return test(value, found)


def _filter(value: str, _found: Declarations) -> Verdict:
    if value == "none":
        return False
    for word in words(value):
        name, arguments = call(word)
        if name in _HARMLESS_FILTERS:
            continue
        first = arguments[0] if arguments else "1"
        amount = length(first) if name == "blur" else number(first)
        if amount is None or name not in ("opacity", "blur", "brightness", "contrast"):
            return None
        if name == "opacity" and amount <= MAX_CLEAR_OPACITY:
            return True
        if amount > 1.5 if name == "blur" else amount < 0.5:
            return None
    return False


def _at_most(limit: float, least: float = -9999.0) -> Test:
    """Test lengths of what is painted over text; words and colours are harmless."""

    def test(value: str, _found: Declarations) -> Verdict:
        for word in words(value):
            size = length(word)
            if (size is None and "(" in word and paint(word) is None) or not (
                least <= (size or 0.0) <= limit
            ):
                return None
        return False

    return test


def _shadow(value: str, _found: Declarations) -> Verdict:
    """Test a shadow, which may lie over the text beside it; blurring covers nothing."""
    for one in pieces(value, ","):
        sizes = [size for word in words(one) if (size := length(word)) is not None]
        inks = [ink for word in words(one) if (ink := paint(word)) is not None]
        if len(sizes) + len(inks) + ("inset" in one) < len(words(one)) and one != "none":
            return None
        solid = not inks or inks[0].alpha >= MIN_SOLID_ALPHA
        if solid and any(abs(size) >= MIN_COVER_PIXELS for size in (*sizes[:2], *sizes[3:])):
            return None
    return False


def _content(value: str, _found: Declarations) -> Verdict:
    return None if "(" in value and not value.startswith(("attr(", "counter")) else False


def _z_index(value: str, _found: Declarations) -> Verdict:
    return None if value.startswith("-") or "(" in value else False


def _zero_track(value: str, _found: Declarations) -> Verdict:
    return None if {"0", "0fr", "0px"} & set(words(value)) else False


_NOTHING: Final = one_of(("none", "normal"))
_AFTER: Final = ("-right", "-bottom", "-inline-end", "-block-end")
_BEFORE: Final = ("", "-left", "-top", "-inline", "-block", "-inline-start", "-block-start")
TESTS: Final[dict[str, Test]] = {
    UNREAD: lambda _value, _found: None,
    "all": lambda _value, _found: None,
    "display": one_of(_DISPLAYS, ("none",)),
    "visibility": one_of(("visible",), ("hidden", "collapse")),
    "content-visibility": one_of(("visible", "auto"), ("hidden",)),
    "opacity": numbers(MAX_CLEAR_OPACITY, 0.0),
    "zoom": numbers(0.12, 0.4, "normal", "reset"),
    **dict.fromkeys(("filter", "-webkit-filter"), _filter),
    "position": geometry.position,
    "text-indent": geometry.indent,
    **{f"margin{side}": geometry.margin for side in _BEFORE},
    **{f"margin{side}": geometry.margin_after for side in _AFTER},
    **{f"padding{side}": geometry.padding for side in (*_BEFORE, *_AFTER)},
    **dict.fromkeys(("overflow", "overflow-x", "overflow-y"), geometry.overflow),
    **dict.fromkeys(("overflow-block", "overflow-inline"), geometry.overflow),
    **dict.fromkeys(("contain", "container-type", "container"), geometry.contain),
    "scale": numbers(0.05, 0.3, "none"),
    "translate": geometry.offset,
    "rotate": lambda value, _: None if len(words(value)) != 1 else False,
    "letter-spacing": geometry.spacing,
    "word-spacing": geometry.spacing,
    "line-height": geometry.line_height,
    **dict.fromkeys(("transform", "-webkit-transform", "-moz-transform"), geometry.transform),
    **dict.fromkeys(("transform-origin", "-webkit-transform-origin"), geometry.origin),
    "clip": geometry.clip,
    "clip-path": geometry.clip_path,
    "-webkit-clip-path": geometry.clip_path,
    "font-size-adjust": numbers(0.05, 0.2, "none", "from-font"),
    "z-index": _z_index,
    "content": _content,
    "box-shadow": _shadow,
    "outline": _at_most(MAX_OUTLINE_PIXELS),
    "outline-width": _at_most(MAX_OUTLINE_PIXELS),
    "outline-offset": _at_most(MIN_COVER_PIXELS, -MAX_LINE_PIXELS),
    "text-decoration": _at_most(MAX_LINE_PIXELS),
    "text-decoration-thickness": _at_most(MAX_LINE_PIXELS),
    "-webkit-text-stroke": _at_most(MAX_STROKE_PIXELS),
    "-webkit-text-stroke-width": _at_most(MAX_STROKE_PIXELS),
    "grid-template-rows": _zero_track,
    "grid-template-columns": _zero_track,
    "unicode-bidi": one_of(("normal", "embed", "isolate", "plaintext")),
    "color-scheme": one_of(("normal", "light", "light only", "only light", "light dark")),
    "position-visibility": one_of(("always",)),
    **dict.fromkeys(
        (
            *("-webkit-text-security", "mix-blend-mode", "background-blend-mode", "offset"),
            *("offset-path", "backdrop-filter", "-webkit-backdrop-filter", "border-image"),
            *("border-image-source", "-webkit-border-image", "text-combine-upright"),
            *("-webkit-line-clamp", "line-clamp"),
        ),
        _NOTHING,
    ),
    **{
        f"{vendor}mask{part}": _NOTHING
        for vendor in ("", "-webkit-")
        for part in ("", "-image", "-border", "-border-source", "-box-image", "-box-image-source")
    },
}
# A block that sets none of these cannot hide, and is not looked at.
RELEVANT: Final = frozenset(
    {
        *TESTS,
        *SIDES,
        *WIDTHS,
        *HEIGHTS,
        *(f"min-{name}" for name in ("width", "height", "inline-size", "block-size")),
        *("color", "-webkit-text-fill-color", "background", "background-color", "background-image"),
        *("background-size", "background-repeat", "background-clip", "-webkit-background-clip"),
        *("font", "font-size", "animation", "animation-name"),
        *("white-space", "text-wrap", "aspect-ratio", "vertical-align"),
        *("grid-area", "grid-row", "grid-column", "grid-row-start", "grid-column-start"),
        *("border", "border-top", "border-bottom", "border-left", "border-right", "border-width"),
    }
)
