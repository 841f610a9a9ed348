"""What an element's text is seen on and in: ink, paper, size, opacity, handed on to those in it.

SECURITY
    Values of hostile pages, already parsed by `css`.  Pure.  A colour or a size that is not
    understood is None, and the element is undecided.
"""

import re
from typing import Final, NamedTuple

from threegate.gates.fetch.normalize.readers.colours import BLACK, WHITE, Colour, Paint, paint, same
from threegate.gates.fetch.normalize.readers.css import Declarations, call, length, words
from threegate.gates.fetch.normalize.readers.looks import (
    DEFAULTS,
    MIN_READABLE_PIXELS,
    SIDES,
    TESTS,
)

MIN_FONT_PIXELS: Final = 2.0
MIN_PLAIN_OPACITY: Final = 0.2  # less of it is undecided
MAX_CLEAR_OPACITY: Final = 0.05
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
        test = TESTS.get(name)
        if test is None or found[name][0] in DEFAULTS:
            continue
        verdict = test(found[name][0], found)
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
    if ink == CLEAR or (ink is not None and paper is not None and same(ink, paper)):
        return inside, doubt, "color"
    if inside.size * scale < MIN_READABLE_PIXELS and inside.size != outer.size:
        doubt = doubt or "font-size"
    if opacity < MIN_PLAIN_OPACITY and opacity != outer.opacity:
        doubt = doubt or "opacity"
    if (ink, paper) != (outer.ink, outer.paper) and _may_be_same(ink, paper):
        doubt = doubt or "color"
    return inside, doubt, ""


def _may_be_same(ink: Colour | None, paper: Colour | None) -> bool:
    """Judge a colour beside one that a sheet outside or a picture decides: black or white."""
    if ink is None:
        return paper is not None and same(paper, BLACK)
    return paper is None and same(ink, WHITE)


def _value(found: Declarations, name: str, default: float) -> float:
    number = length(found[name][0], percent=1.0) if name in found else default
    return default if number is None else max(0.0, number)


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
        value = found.get(name, ("", False))[0]
        if value in DEFAULTS or value == "none":
            continue
        for word in words(value) if name == "background" else [value]:
            known = paint(word)
            if known is not None:
                paper = paper if known.clear else _mixed(known, outer.paper)
            elif _may_be_colour(word):
                paper, odd = None, name
    for name in ("background", "background-image"):
        image = found.get(name, ("", False))[0]
        if "(" in image:
            paper, picture = _under_picture(image, paper)
            odd = odd or (name if picture else "")
    return paper, odd


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
        "left right top bottom center border-box padding-box content-box text",
    )
)


def _under_picture(image: str, paper: Colour | None) -> tuple[Colour | None, bool]:
    """Return the colour of a picture under the text, and whether it is not understood."""
    calls = [call(word) for word in words(image)]
    names = [name for name, _ in calls if name]
    if not any("gradient" in name or name in ("url", "image-set", "image") for name in names):
        return paper, False  # a colour, judged already
    if "no-repeat" in image and "gradient" not in image:  # an icon beside the text
        return paper, False
    stops = [known for _, stops in calls for stop in stops if (known := paint(stop)) is not None]
    solid = [known.colour for known in stops if not known.clear]
    if "url(" in image or not stops:
        return None, True
    if all(same(colour, solid[0]) for colour in solid):
        return (solid[0], False) if solid else (paper, False)
    return None, any(same(colour, BLACK) for colour in solid)


def _size(found: Declarations, outer: float) -> float | None:
    """Return the size of the font in pixels; None if not understood."""
    size: float | None = outer
    for name in found:  # in order: the later one of the two counts
        if name == "font-size":
            size = _one_size(found[name][0], outer)
        elif name == "font" and found[name][0] not in (*DEFAULTS, *_SYSTEM_FONTS):
            sizes = (_one_size(word, outer) for word in words(found[name][0]) if not word.isdigit())
            size = next((one for one in sizes if one is not None), None)
            if size is None and words(found[name][0])[:1] == ["0"]:
                size = 0.0
    return size


def _one_size(value: str, outer: float) -> float | None:
    if value in DEFAULTS:
        return 16.0 if value == "initial" else outer
    if value in ("smaller", "larger"):
        return outer * (0.83 if value == "smaller" else 1.2)
    if value in _SIZES:
        return _SIZES[value]
    return length(value, percent=outer, em=outer)


def covers(found: Declarations, tag: str) -> bool:
    """Tell whether an element may lie over the text of others: it has left its place and paints."""
    position = found.get("position", ("static", False))[0]
    margins = [found[name][0] for name in found if name.startswith("margin")]
    left = (
        position in ("absolute", "fixed")
        or (position == "relative" and any(side in found for side in SIDES))
        or any((length(word) or 0.0) <= -8.0 for value in margins for word in words(value))
        or "translate" in found.get("transform", ("", False))[0]
        or "translate" in found
    )
    if not left:
        return False
    if tag in _PICTURES:
        return True
    one, other = (_paper(found, Surroundings(paper=paper)) for paper in (BLACK, WHITE))
    return bool(one[1]) or one[0] == other[0]  # it paints the same on whatever lies under it
