"""What an element's text is seen on and in: ink, paper, size, opacity, handed on to those in it.

SECURITY
    Values of hostile pages, already parsed by `css`.  Pure.  A colour or a size that is not
    understood is None, and the element is undecided.
"""

import re
from typing import Final, NamedTuple

from threegate.gates.fetch.normalize.readers.colours import (
    BLACK,
    WHITE,
    Colour,
    Paint,
    nearly_same,
    paint,
    same,
)
from threegate.gates.fetch.normalize.readers.css import (
    Declarations,
    call,
    length,
    number,
    pieces,
    words,
)
from threegate.gates.fetch.normalize.readers.geometry import (
    HEIGHTS,
    MIN_READABLE_PIXELS,
    SIDES,
    value_of,
)
from threegate.gates.fetch.normalize.readers.looks import judged

MIN_FONT_PIXELS: Final = 2.0
MIN_PLAIN_OPACITY: Final = 0.2  # less of it is undecided
MAX_CLEAR_OPACITY: Final = 0.05
MAX_ICON_PIXELS: Final = 48.0
MIN_BORDER_PIXELS: Final = 8.0  # of an element that may lie over others
DEFAULTS: Final = ("inherit", "initial", "unset", "revert", "revert-layer", "")
CLEAR: Final[Colour] = (-999, -999, -999)  # ink that is not there

_SIZES: Final = {
    "xx-small": 9.0,
    "x-small": 10.0,
    "small": 13.0,
    "medium": 16.0,
    "large": 18.0,
    "x-large": 24.0,
    "xx-large": 32.0,
    "xxx-large": 48.0,
    "math": 16.0,
}
_SYSTEM_FONTS: Final = ("caption", "icon", "menu", "message-box", "small-caption", "status-bar")
_FONT_WORD: Final = re.compile(r"[-+]?[\w.%-]+(?:\(.*\))?|\"\"")
_PICTURES: Final = ("img", "svg", "canvas", "video", "iframe", "object", "embed", "picture")


class Surroundings(NamedTuple):
    """What an element hands on to those in it."""

    ink: Colour | None = BLACK  # None: not known
    paper: Colour | None = WHITE
    size: float = 16.0
    opacity: float = 1.0
    scale: float = 1.0


class Look(NamedTuple):
    """What declarations do: the property that hides, or one that may; and to the text alone."""

    around: Surroundings
    hidden_by: str = ""
    undecided_by: str = ""
    unread_by: str = ""  # hides the text of the element, and children may set it again


def look(found: Declarations, outer: Surroundings) -> Look:
    """Return what the declarations of an element say about being seen."""
    undecided = ""
    for name in found:
        verdict = judged(name, found)
        if verdict:
            return Look(outer, hidden_by=name)
        if verdict is None:
            undecided = undecided or name
    around, doubt, unread = _computed(found, outer)
    if around.opacity <= MAX_CLEAR_OPACITY or around.scale * 16 < MIN_FONT_PIXELS:
        return Look(outer, hidden_by="opacity")
    return Look(around, undecided_by=undecided or doubt, unread_by=unread)


def _computed(found: Declarations, outer: Surroundings) -> tuple[Surroundings, str, str]:
    """Return the surroundings inside, a property that is not understood, and one that hides."""
    paper, odd = _paper(found, outer)
    ink, doubt = _ink(found, outer, paper)
    size = _size(found, outer.size)
    opacity = outer.opacity * min(1.0, _value(found, "opacity", 1.0))
    scale = outer.scale * min(1.0, _value(found, "zoom", 1.0))
    inside = Surroundings(ink, paper, outer.size if size is None else size, opacity, scale)
    doubt = doubt or odd or ("font-size" if size is None else "")
    if inside.size * scale < MIN_FONT_PIXELS:
        return inside, doubt, "font-size"
    if ink == CLEAR or _is_same(ink, paper):
        return inside, doubt, "color"
    if inside.size * scale < MIN_READABLE_PIXELS and inside.size != outer.size:
        doubt = doubt or "font-size"
    if opacity < MIN_PLAIN_OPACITY and opacity != outer.opacity:
        doubt = doubt or "opacity"
    if (ink, paper) != (outer.ink, outer.paper) and _may_be_same(ink, paper):
        doubt = doubt or "color"
    # Text may run out of a box of fixed height, onto paper of its own colour.
    if paper != outer.paper and _is_same(ink, outer.paper) and _is_fixed(found):
        doubt = doubt or "height"
    return inside, doubt, ""


def _is_same(ink: Colour | None, paper: Colour | None) -> bool:
    return ink is not None and paper is not None and same(ink, paper)


def _is_fixed(found: Declarations) -> bool:
    return any(length(value_of(found, name)) is not None for name in HEIGHTS)


def _may_be_same(ink: Colour | None, paper: Colour | None) -> bool:
    """Judge a colour beside one that a sheet outside or a picture decides: black or white."""
    if ink is None:
        return paper is not None and same(paper, BLACK)
    return same(ink, WHITE) if paper is None else nearly_same(ink, paper)


def _value(found: Declarations, name: str, default: float) -> float:
    found_number = number(found[name][0]) if name in found else default
    return default if found_number is None else max(0.0, found_number)


def _ink(
    found: Declarations, outer: Surroundings, paper: Colour | None
) -> tuple[Colour | None, str]:
    """Return the colour of the text, and the property if it is not understood."""
    name = "-webkit-text-fill-color" if "-webkit-text-fill-color" in found else "color"
    value = found.get(name, ("inherit", False))[0]
    if value == "currentcolor" and name != "color":
        name, value = "color", found.get("color", ("inherit", False))[0]
    if value in (*DEFAULTS, "currentcolor"):
        return (BLACK if value == "initial" else outer.ink), ""
    known = paint(value)
    if known is None:
        return None, name
    if known.clear:
        clips = [found[one][0] for one in found if one.endswith("background-clip")]
        # Letters cut out of the background are seen.
        return (None, name) if "text" in clips else (CLEAR, "")
    return _mixed(known, paper), ""


def _mixed(known: Paint, paper: Colour | None) -> Colour | None:
    if known.alpha >= 0.95 or paper is None:
        return known.colour
    red, green, blue = (
        round(known.alpha * one + (1 - known.alpha) * other)
        for one, other in zip(known.colour, paper, strict=True)
    )
    return red, green, blue


def _paper(found: Declarations, outer: Surroundings) -> tuple[Colour | None, str]:
    """Return the colour under the text, and the property if it is not understood."""
    paper, odd = outer.paper, ""
    for name in ("background", "background-color"):
        value = value_of(found, name)
        if value in DEFAULTS or value == "none":
            continue
        for word in words(value) if name == "background" else [value]:
            known = paint(word)
            if known is not None:
                paper = paper if known.clear else _mixed(known, outer.paper)
            elif _may_be_colour(word):
                paper, odd = None, name
    for name in ("background", "background-image"):
        image = value_of(found, name)
        if "(" in image:
            paper, picture = _under_picture(image, paper, found)
            odd = odd or (name if picture else "")
    if "text" in (value_of(found, name) for name in _CLIPS) and paper != outer.paper:
        return None, "background-clip"  # painted in the shape of the letters alone
    return paper, odd


_CLIPS: Final = ("background-clip", "-webkit-background-clip")


def _may_be_colour(word: str) -> bool:
    """Tell whether a word of a background may be a colour that is not understood."""
    name = call(word)[0]
    if name:
        return "gradient" not in name and name not in ("url", "calc", "image-set")
    return length(word) is None and word not in _BACKGROUND_WORDS


_BACKGROUND_WORDS: Final = frozenset(
    re.findall(
        "[-a-z]+",
        "none scroll fixed local repeat no-repeat repeat-x repeat-y space round cover contain auto "
        "left right top bottom center border-box padding-box content-box",
    )
)


def _under_picture(
    image: str, paper: Colour | None, found: Declarations
) -> tuple[Colour | None, bool]:
    """Return the colour of a picture under the text, and whether it is not understood."""
    calls = [call(word) for word in words(image)]
    names = [name for name, _ in calls if name]
    if not any("gradient" in name or name in ("url", "image-set", "image") for name in names):
        return paper, False  # a colour, judged already
    sized = _sizes(image, found)
    repeated = "no-repeat" not in f"{image} {value_of(found, 'background-repeat')}"
    if not repeated and sized and max(sized) <= MAX_ICON_PIXELS:  # an icon beside the text
        return paper, False
    stops = [known for _, stops in calls for stop in stops if (known := paint(stop)) is not None]
    solid = [known.colour for known in stops if not known.clear]
    if "url(" in image or not stops or not repeated or sized:
        return None, True
    if all(same(colour, solid[0]) for colour in solid):
        return (solid[0], False) if solid else (paper, False)
    return None, any(same(colour, BLACK) for colour in solid)


def _sizes(image: str, found: Declarations) -> list[float]:
    """Return the width and height of a picture; a very large one if not understood."""
    texts = [text for one in pieces(image, ",") for text in pieces(one, "/")[1:]]
    values = [word for text in texts for word in words(text)[:2]]
    values += words(value_of(found, "background-size"))
    sizes = (0.0 if word == "auto" else length(word) for word in values if word not in DEFAULTS)
    return [9999.0 if one is None else one for one in sizes]


def _size(found: Declarations, outer: float) -> float | None:
    """Return the size of the font in pixels; None if not understood."""
    size: float | None = outer
    for name in found:  # in order: the later one of the two counts
        if name == "font-size":
            size = _one_size(found[name][0], outer)
        elif name == "font" and found[name][0] not in (*DEFAULTS, *_SYSTEM_FONTS):
            parts = words(found[name][0])
            sizes = [one for word in parts if (one := _one_size(word, outer)) is not None]
            # Without a family, or with other signs in it, it is void.
            void = len(parts) < 2 or not all(map(_FONT_WORD.fullmatch, parts))
            size = sizes[0] if sizes and not void else None
    return size


def _one_size(value: str, outer: float) -> float | None:
    if value in DEFAULTS:
        return 16.0 if value == "initial" else outer
    if value in ("smaller", "larger"):
        return outer * (0.83 if value == "smaller" else 1.2)
    if value in _SIZES:
        return _SIZES[value]
    size = length(value, percent=outer, em=outer)
    return size if size is None or size >= 0.0 else None


def covers(found: Declarations, tag: str) -> bool:
    """Tell whether an element may lie over the text of others: it has left its place and paints."""
    if any(judged(name, found) is None for name in _OUTSIDE if name in found):
        return True
    if not _has_left(found):
        return False
    borders = (
        word for name in found if name.startswith("border") for word in words(found[name][0])
    )
    if tag in _PICTURES or any((length(word) or 0.0) >= MIN_BORDER_PIXELS for word in borders):
        return True
    if any("filter" in name for name in found):  # what lies under it may be blurred
        return True
    one, other = (_paper(found, Surroundings(paper=paper)) for paper in (BLACK, WHITE))
    return bool(one[1]) or one[0] == other[0]  # it paints the same on whatever lies under it


_OUTSIDE: Final = ("box-shadow", "outline", "outline-width", "outline-offset")
_AREAS: Final = ("grid-area", "grid-row", "grid-column", "grid-row-start", "grid-column-start")


def _has_left(found: Declarations) -> bool:
    """Tell whether an element may be painted where others are."""
    position = value_of(found, "position")
    margins = [found[name][0] for name in found if name.startswith("margin")]
    return (
        position in ("absolute", "fixed", "sticky", "-webkit-sticky")
        or (position == "relative" and any(side in found for side in SIDES))
        or any((length(word) or 0.0) <= -8.0 for value in margins for word in words(value))
        or any(value_of(found, name) not in ("none", *DEFAULTS) for name in _TURNED)
        or abs(length(value_of(found, "vertical-align")) or 0.0) >= MIN_BORDER_PIXELS
        or any(name in found for name in _AREAS)
    )


_TURNED: Final = ("transform", "-webkit-transform", "translate", "scale", "zoom")
