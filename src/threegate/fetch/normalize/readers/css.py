"""What a block of CSS declarations says about being seen, as far as it says so itself.

SECURITY
    Reads text of hostile pages.  It is no CSS engine and decides little: `Look` is either
    plainly hidden, or plainly not, or says that it cannot be decided.  Work is linear in the
    text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_BLOCK_CHARS: Final = 20_000
OFF_SCREEN_PIXELS: Final = 300.0
FAR_OFF_PIXELS: Final = 5000.0
FAR_MARGIN_PIXELS: Final = 1000.0  # smaller ones are ordinary layout
MIN_FONT_PIXELS: Final = 2.0
MAX_CLEAR_OPACITY: Final = 0.05
MAX_SPECK_PIXELS: Final = 2.0
MAX_SAME_COLOUR: Final = 16
MIN_GLUED_PIXELS: Final = 6.0  # letters that far into each other are not read

Colour = tuple[int, int, int]
WHITE: Final[Colour] = (255, 255, 255)

_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\([0-9a-fA-F]{1,6})\s?|\\(.)", re.DOTALL)
_PIXELS: Final = {
    "": 1.0,
    "px": 1.0,
    "pt": 4 / 3,
    "pc": 16.0,
    "em": 16.0,
    "rem": 16.0,
    "ex": 8.0,
    "ch": 8.0,
    "in": 96.0,
    "cm": 37.8,
    "mm": 3.78,
    "q": 0.945,
    "vw": 12.8,
    "vh": 7.2,
    "vmin": 7.2,
    "vmax": 12.8,
}
_NUMBER: Final = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?"
_LENGTH: Final = re.compile(rf"({_NUMBER})([a-z]*|%)")
_ARGUMENTS: Final = re.compile(r"([a-z0-9-]+)\(([^()]*)\)")
_UNKNOWN: Final = re.compile(r"(?:var|calc|min|max|clamp|env|attr)\(")
_SIDES: Final = (
    *("left", "right", "top", "bottom"),
    *("inset", "inset-inline-start", "inset-inline-end", "inset-block-start", "inset-inline"),
)
_EXTENTS: Final = (
    *("width", "height", "max-width", "max-height"),
    *("inline-size", "block-size", "max-inline-size", "max-block-size"),
)
_SHORT: Final = re.compile(r"#[0-9a-f]{3,4}")
_LONG: Final = re.compile(r"#[0-9a-f]{6}(?:[0-9a-f]{2})?")
_CLEAR: Final = re.compile(r"#(?:[0-9a-f]{3}0|[0-9a-f]{6}0[0-9a-f])")
_SPLIT: Final = re.compile(r"[\s,/]+")
_NO_OPACITY: Final = re.compile(r"opacity\(\s*0*\.?0*%?\s*\)")
_NAMED: Final = {
    "white": WHITE,
    "snow": (255, 250, 250),
    "ivory": (255, 255, 240),
    "ghostwhite": (248, 248, 255),
    "floralwhite": (255, 250, 240),
    "mintcream": (245, 255, 250),
    "azure": (240, 255, 255),
    "whitesmoke": (245, 245, 245),
    "black": (0, 0, 0),
    "red": (255, 0, 0),
    "green": (0, 128, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "gray": (128, 128, 128),
    "grey": (128, 128, 128),
    "silver": (192, 192, 192),
    "navy": (0, 0, 128),
}


@dataclass(frozen=True, slots=True)
class Look:
    """What a block of declarations does: the property that hides, or one that may."""

    hidden_by: str = ""
    undecided_by: str = ""


Declarations = dict[str, tuple[str, bool]]  # property -> value, whether it is `!important`


def declarations(block: str) -> Declarations:
    """Return the declarations of a block, lower case, the winning one of each property."""
    block = _COMMENT.sub(" ", block[:MAX_BLOCK_CHARS])
    if "\\" in block:  # d\69splay is display
        block = _ESCAPE.sub(_unescaped, block)
    found: Declarations = {}
    for piece in block.lower().split(";"):
        name, colon, value = piece.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not name or not value:
            continue
        value, mark, _ = value.partition("!")
        important = bool(mark)
        if important or not found.get(name, ("", False))[1]:
            found[name] = (value.strip(), important)
    return found


def _unescaped(match: re.Match[str]) -> str:
    if match.group(2) is not None:
        return match.group(2)
    code = int(match.group(1), 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def look(found: Declarations) -> Look:
    """Return what the declarations say about being seen."""
    undecided = ""
    for name, test in _TESTS:
        value = found.get(name)
        if value is None:
            continue
        if test(value[0], found):
            return Look(hidden_by=name)
        if _UNKNOWN.search(value[0]):
            undecided = undecided or name
    for name, doubtful in _DOUBTFUL.items():
        if name in found and doubtful(found[name][0]):
            undecided = undecided or name
    return Look(undecided_by=undecided)


def pixels(value: str) -> float | None:
    """Return a length in pixels, roughly; None for anything else and for a percentage."""
    match = _LENGTH.fullmatch(value)
    factor = _PIXELS.get(match.group(2)) if match else None
    return None if match is None or factor is None else float(match.group(1)) * factor


def colour(value: str) -> Colour | None:
    """Return an opaque colour; None for one this module does not know."""
    if value in _NAMED:
        return _NAMED[value]
    if _SHORT.fullmatch(value):
        red, green, blue = (int(digit * 2, 16) for digit in value[1:4])
        return red, green, blue
    if _LONG.fullmatch(value):
        return int(value[1:3], 16), int(value[3:5], 16), int(value[5:7], 16)
    call = _ARGUMENTS.fullmatch(value)
    if call is not None and call.group(1) in ("hsl", "hsla"):
        return _grey(call.group(2))
    if call is None or call.group(1) not in ("rgb", "rgba"):
        return None
    parts = [part for part in _SPLIT.split(call.group(2)) if part][:3]
    channels = [_channel(part) for part in parts]
    if len(channels) != 3 or None in channels:
        return None
    red, green, blue = (channel or 0 for channel in channels)
    return red, green, blue


def _grey(arguments: str) -> Colour | None:
    """Return the colour of hsl() where it is white or black, whatever its hue."""
    parts = [part for part in _SPLIT.split(arguments) if part]
    light = _fraction(parts[2]) if len(parts) >= 3 and parts[2].endswith("%") else 0.5
    return WHITE if light >= 0.95 else (0, 0, 0) if light <= 0.05 else None


def _channel(text: str) -> int | None:
    match = _LENGTH.fullmatch(text)
    if match is None or match.group(2) not in ("", "%"):
        return None
    number = float(match.group(1)) * (2.55 if match.group(2) else 1.0)
    return round(min(255.0, max(0.0, number)))


def same(one: Colour, other: Colour) -> bool:
    """Tell whether nobody sees a difference."""
    return all(abs(a - b) <= MAX_SAME_COLOUR for a, b in zip(one, other, strict=True))


def background(found: Declarations) -> Colour | None:
    """Return the colour a block paints behind its text, if it names one."""
    for name in ("background-color", "background"):
        if name in found:
            for word in (found[name][0], *found[name][0].split()):
                known = colour(word)
                if known is not None:
                    return known
    return None


def _is_clear(value: str) -> bool:
    if value == "transparent" or _CLEAR.fullmatch(value):
        return True
    call = _ARGUMENTS.fullmatch(value)
    parts = [part for part in _SPLIT.split(call.group(2)) if part] if call else []
    if len(parts) != 4:
        return False
    return _fraction(parts[3]) <= MAX_CLEAR_OPACITY


def _fraction(value: str) -> float:
    """Return a number or a percentage as a number; 1 for anything else."""
    match = _LENGTH.fullmatch(value)
    if match is None or match.group(2) not in ("", "%"):
        return 1.0
    return float(match.group(1)) / (100.0 if match.group(2) else 1.0)


def _color(value: str, found: Declarations) -> bool:
    if _is_clear(value):
        return True
    ink, paper = colour(value), background(found)
    return ink is not None and paper is not None and same(ink, paper)


def _font_size(value: str, _found: Declarations) -> bool:
    if value.endswith("%"):
        return _fraction(value) * 16.0 < MIN_FONT_PIXELS
    size = pixels(value)
    return size is not None and size < MIN_FONT_PIXELS


def _font(value: str, found: Declarations) -> bool:
    sizes = (word.partition("/")[0] for word in value.split())
    return any(_LENGTH.fullmatch(size) and _font_size(size, found) for size in sizes if size)


def _moved_out(value: str) -> bool:
    if value.endswith("%"):
        return _fraction(value) <= -1.0
    distance = pixels(value)
    if distance is None:
        return False
    return distance <= -OFF_SCREEN_PIXELS or distance >= FAR_OFF_PIXELS


def _position(value: str, found: Declarations) -> bool:
    if value not in ("absolute", "fixed", "relative", "sticky"):
        return False
    values = (found[side][0] for side in _SIDES if side in found)
    return any(_moved_out(word) for value in values for word in value.split())


def _offset(value: str, _found: Declarations) -> bool:
    return any(_moved_out(word) for word in value.split())


def _margin(value: str, _found: Declarations) -> bool:
    lengths = (pixels(word) for word in value.split())
    return any(length is not None and length <= -FAR_MARGIN_PIXELS for length in lengths)


def _overflow(value: str, found: Declarations) -> bool:
    if not {"hidden", "clip"} & set(value.split()):
        return False
    sizes = (found.get(name) for name in _EXTENTS)
    lengths = [pixels(size[0]) for size in sizes if size is not None]
    return any(length is not None and length < MAX_SPECK_PIXELS for length in lengths)


def _transform(value: str, _found: Declarations) -> bool:
    for name, arguments in _ARGUMENTS.findall(value):
        parts = [part for part in _SPLIT.split(arguments) if part]
        if name.startswith("scale") and any(_fraction(part) <= 0.05 for part in parts):
            return True
        if name in ("rotatex", "rotatey") and parts[:1] in (["90deg"], ["-90deg"], ["0.25turn"]):
            return True
        if name.startswith("translate") and any(_moved_out(part) for part in parts):
            return True
    return False


def _clip(value: str, _found: Declarations) -> bool:
    call = _ARGUMENTS.fullmatch(value)
    if call is None or call.group(1) != "rect":
        return False
    sides = [pixels(part) for part in _SPLIT.split(call.group(2).strip())]
    return len(sides) == 4 and all(side is not None and side <= 2.0 for side in sides)


def _clip_path(value: str, _found: Declarations) -> bool:
    call = _ARGUMENTS.match(value)
    if call is None:
        return False
    first = (_SPLIT.split(call.group(2).strip()) or [""])[0]
    if call.group(1) == "inset":
        return first.endswith("%") and _fraction(first) >= 0.5
    if call.group(1) == "polygon":
        return len({" ".join(point.split()) for point in call.group(2).split(",")}) < 3
    return call.group(1) in ("circle", "ellipse") and (
        pixels(first) == 0.0 or (first.endswith("%") and _fraction(first) == 0.0)
    )


_TESTS: Final = (
    ("display", lambda value, _: value == "none"),
    ("visibility", lambda value, _: value in ("hidden", "collapse")),
    ("content-visibility", lambda value, _: value == "hidden"),
    ("opacity", lambda value, _: _fraction(value) <= MAX_CLEAR_OPACITY),
    ("filter", lambda value, _: bool(_NO_OPACITY.search(value))),
    ("font-size", _font_size),
    ("font", _font),
    ("color", _color),
    ("-webkit-text-fill-color", lambda value, _: _is_clear(value)),
    ("position", _position),
    ("text-indent", _offset),
    ("margin", _margin),
    ("margin-left", _margin),
    ("margin-top", _margin),
    ("overflow", _overflow),
    ("overflow-x", _overflow),
    ("overflow-y", _overflow),
    ("scale", lambda value, _: any(_fraction(part) <= 0.05 for part in value.split())),
    ("translate", _offset),
    ("letter-spacing", lambda value, _: (pixels(value) or 0.0) <= -MIN_GLUED_PIXELS),
    ("transform", _transform),
    ("clip", _clip),
    ("clip-path", _clip_path),
    ("zoom", lambda value, _: _fraction(value) == 0.0),
)
# These may hide, and what they do is not to be seen from the block.
_DOUBTFUL: Final[dict[str, Callable[[str], bool]]] = {
    "mask": lambda value: value != "none",
    "mask-image": lambda value: value != "none",
    "-webkit-mask-image": lambda value: value != "none",
    "z-index": lambda value: value.startswith("-"),
}
