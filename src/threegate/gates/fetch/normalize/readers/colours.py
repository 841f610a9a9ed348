"""CSS colours as red, green and blue.

Every notation of CSS Color 4 with numbers in it is converted; everything else (`color-mix()`,
`light-dark()`, relative colours, system colours) is not understood, and the caller counts it.

SECURITY
    Text of hostile pages.  Pure; linear in the text; numbers are clamped.
"""

import re
from collections.abc import Callable
from math import cos, isfinite, radians, sin
from typing import Final, NamedTuple

MAX_SAME_COLOUR: Final = 16
MAX_NEAR_COLOUR: Final = 40
MAX_CLEAR_OPACITY: Final = 0.05

Colour = tuple[int, int, int]
WHITE: Final[Colour] = (255, 255, 255)
BLACK: Final[Colour] = (0, 0, 0)

_Triple = tuple[float, float, float]
_Convert = Callable[[float, float, float], _Triple]
_Matrix = tuple[_Triple, _Triple, _Triple]
_CALL: Final = re.compile(r"([a-z]+)\(\s*([^()]*)\)")
_HEX: Final = re.compile(r"#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})")
_SEPARATOR: Final = re.compile(r"[\s,/]+")
_NUMBER: Final = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]{1,3})?)([a-z]*|%)")
_DEGREES: Final = {"": 1.0, "deg": 1.0, "grad": 0.9, "rad": 57.29578, "turn": 360.0}
_NAMES: Final = (
    "aliceblue f0f8ff antiquewhite faebd7 aqua 00ffff aquamarine 7fffd4 azure f0ffff beige f5f5dc "
    "bisque ffe4c4 black 000000 blanchedalmond ffebcd blue 0000ff blueviolet 8a2be2 brown a52a2a "
    "burlywood deb887 cadetblue 5f9ea0 chartreuse 7fff00 chocolate d2691e coral ff7f50 "
    "cornflowerblue 6495ed cornsilk fff8dc crimson dc143c cyan 00ffff darkblue 00008b darkcyan "
    "008b8b darkgoldenrod b8860b darkgray a9a9a9 darkgreen 006400 darkgrey a9a9a9 darkkhaki "
    "bdb76b darkmagenta 8b008b darkolivegreen 556b2f darkorange ff8c00 darkorchid 9932cc darkred "
    "8b0000 darksalmon e9967a darkseagreen 8fbc8f darkslateblue 483d8b darkslategray 2f4f4f "
    "darkslategrey 2f4f4f darkturquoise 00ced1 darkviolet 9400d3 deeppink ff1493 deepskyblue "
    "00bfff dimgray 696969 dimgrey 696969 dodgerblue 1e90ff firebrick b22222 floralwhite fffaf0 "
    "forestgreen 228b22 fuchsia ff00ff gainsboro dcdcdc ghostwhite f8f8ff gold ffd700 goldenrod "
    "daa520 gray 808080 green 008000 greenyellow adff2f grey 808080 honeydew f0fff0 hotpink "
    "ff69b4 indianred cd5c5c indigo 4b0082 ivory fffff0 khaki f0e68c lavender e6e6fa "
    "lavenderblush fff0f5 lawngreen 7cfc00 lemonchiffon fffacd lightblue add8e6 lightcoral f08080 "
    "lightcyan e0ffff lightgoldenrodyellow fafad2 lightgray d3d3d3 lightgreen 90ee90 lightgrey "
    "d3d3d3 lightpink ffb6c1 lightsalmon ffa07a lightseagreen 20b2aa lightskyblue 87cefa "
    "lightslategray 778899 lightslategrey 778899 lightsteelblue b0c4de lightyellow ffffe0 lime "
    "00ff00 limegreen 32cd32 linen faf0e6 magenta ff00ff maroon 800000 mediumaquamarine 66cdaa "
    "mediumblue 0000cd mediumorchid ba55d3 mediumpurple 9370db mediumseagreen 3cb371 "
    "mediumslateblue 7b68ee mediumspringgreen 00fa9a mediumturquoise 48d1cc mediumvioletred "
    "c71585 midnightblue 191970 mintcream f5fffa mistyrose ffe4e1 moccasin ffe4b5 navajowhite "
    "ffdead navy 000080 oldlace fdf5e6 olive 808000 olivedrab 6b8e23 orange ffa500 orangered "
    "ff4500 orchid da70d6 palegoldenrod eee8aa palegreen 98fb98 paleturquoise afeeee "
    "palevioletred db7093 papayawhip ffefd5 peachpuff ffdab9 peru cd853f pink ffc0cb plum dda0dd "
    "powderblue b0e0e6 purple 800080 rebeccapurple 663399 red ff0000 rosybrown bc8f8f royalblue "
    "4169e1 saddlebrown 8b4513 salmon fa8072 sandybrown f4a460 seagreen 2e8b57 seashell fff5ee "
    "sienna a0522d silver c0c0c0 skyblue 87ceeb slateblue 6a5acd slategray 708090 slategrey "
    "708090 snow fffafa springgreen 00ff7f steelblue 4682b4 tan d2b48c teal 008080 thistle d8bfd8 "
    "tomato ff6347 turquoise 40e0d0 violet ee82ee wheat f5deb3 white ffffff whitesmoke f5f5f5 "
    "yellow ffff00 yellowgreen 9acd32"
)
_NAMED: Final[dict[str, Colour]] = {
    name: (int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16))
    for name, code in zip(_NAMES.split()[::2], _NAMES.split()[1::2], strict=True)
}
# Linear RGB from XYZ of each white point, and the steps of Oklab (css-color-4, section 18).
_XYZ_D65: Final[_Matrix] = (
    (3.2409699, -1.5373832, -0.4986108),
    (-0.9692436, 1.8759675, 0.0415551),
    (0.0556301, -0.2039770, 1.0569715),
)
_XYZ_D50: Final[_Matrix] = (
    (3.1341359, -1.6173863, -0.4906622),
    (-0.9787955, 1.9162544, 0.0334429),
    (0.0719554, -0.2289768, 1.4053860),
)
_OKLAB: Final[_Matrix] = (
    (1.0, 0.3963378, 0.2158038),
    (1.0, -0.1055613, -0.0638542),
    (1.0, -0.0894842, -1.2914855),
)
_OKLAB_RGB: Final[_Matrix] = (
    (4.0767416, -3.3077116, 0.2309699),
    (-1.2684380, 2.6097574, -0.3413194),
    (-0.0041961, -0.7034186, 1.7076147),
)
_DISPLAY_P3: Final[_Matrix] = (
    (1.2249402, -0.2249402, 0.0),
    (-0.0420570, 1.0420570, 0.0),
    (-0.0196376, -0.0786361, 1.0982735),
)


class Paint(NamedTuple):
    """A colour and how much of it there is, 0 to 1."""

    colour: Colour
    alpha: float

    @property
    def clear(self) -> bool:
        """Whether nobody sees it."""
        return self.alpha <= MAX_CLEAR_OPACITY


def same(one: Colour, other: Colour) -> bool:
    """Tell whether nobody sees a difference."""
    return all(abs(a - b) <= MAX_SAME_COLOUR for a, b in zip(one, other, strict=True))


def nearly_same(one: Colour, other: Colour) -> bool:
    """Tell whether some do not see a difference."""
    return all(abs(a - b) <= MAX_NEAR_COLOUR for a, b in zip(one, other, strict=True))


def paint(value: str) -> Paint | None:
    """Return a colour in lower case as red, green, blue and alpha; None if not understood."""
    if value in _NAMED:
        return Paint(_NAMED[value], 1.0)
    if value == "transparent":
        return Paint(BLACK, 0.0)
    if _HEX.fullmatch(value):
        digits = "".join(2 * digit for digit in value[1:]) if len(value) < 6 else value[1:]
        red, green, blue, alpha = (int((digits + "ff")[at : at + 2], 16) for at in (0, 2, 4, 6))
        return Paint((red, green, blue), alpha / 255)
    call = _CALL.fullmatch(value)
    if call is None:
        return None
    words = _SEPARATOR.split(call.group(2).strip())
    return _called(call.group(1), words) if _is_written_well(call[1], call[2], words) else None


def _is_written_well(name: str, inner: str, words: list[str]) -> bool:
    """Tell whether browsers read it too: with commas between all, or with none but one slash."""
    if "," not in inner:
        return inner.count("/") == (len(words) - (name == "color") == 4)
    percents = [word.endswith("%") for word in words[:3]]
    mixed = any(percents) and not all(percents)
    if name not in ("rgb", "rgba", "hsl", "hsla") or inner.count(",") != len(words) - 1:
        return False
    return "/" not in inner and (not mixed if name[0] == "r" else percents == [False, True, True])


def _called(name: str, words: list[str]) -> Paint | None:
    space = words.pop(0) if name == "color" and words else name
    convert = _SPACES.get(name if name != "color" else f"color {space}")
    if convert is None or len(words) not in (3, 4):
        return None
    scales, function = convert
    numbers = [_scaled(word, scale) for word, scale in zip(words, (*scales, "1"), strict=False)]
    if None in numbers:
        return None
    one, two, three, alpha = (*(number or 0.0 for number in numbers), 1.0)[:4]
    red, green, blue = function(one, two, three)
    if not isfinite(red + green + blue):
        return None
    return Paint((_byte(red), _byte(green), _byte(blue)), min(1.0, max(0.0, alpha)))


def _scaled(word: str, scale: str) -> float | None:
    """Return a number; 100 % of it is `scale`, or it is an angle."""
    if word == "none":
        return 0.0
    match = _NUMBER.fullmatch(word)
    if match is None:
        return None
    number, unit = float(match.group(1)), match.group(2)
    if scale == "angle":
        return number * _DEGREES[unit] if unit in _DEGREES else None
    if unit == "%":
        return number / 100 * float(scale)
    return number if not unit else None


def _byte(value: float) -> int:
    return round(255 * min(1.0, max(0.0, value)))


def _through(matrix: _Matrix, one: float, two: float, three: float) -> _Triple:
    red, green, blue = (a * one + b * two + c * three for a, b, c in matrix)
    return red, green, blue


def _gamma(linear: _Triple) -> _Triple:
    red, green, blue = (
        12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
        for value in (min(8.0, max(0.0, channel)) for channel in linear)
    )
    return red, green, blue


def _linear(*channels: float) -> list[float]:
    bounded = (min(8.0, max(0.0, channel)) for channel in channels)
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in bounded]


def _hsl(hue: float, saturation: float, lightness: float) -> _Triple:
    strength = min(100.0, max(0.0, saturation)) / 100
    light = min(100.0, max(0.0, lightness)) / 100
    reach = strength * min(light, 1 - light)
    places = ((step + hue / 30) % 12 for step in (0, 8, 4))
    red, green, blue = (light - reach * max(-1.0, min(at - 3, 9 - at, 1.0)) for at in places)
    return red, green, blue


def _hwb(hue: float, whiteness: float, blackness: float) -> _Triple:
    white, black = max(0.0, whiteness) / 100, max(0.0, blackness) / 100
    if white + black >= 1:
        return (white / (white + black),) * 3
    red, green, blue = (pure * (1 - white - black) + white for pure in _hsl(hue, 100, 50))
    return red, green, blue


def _lab(light: float, a: float, b: float) -> _Triple:
    light = min(100.0, max(0.0, light))
    up = (light + 16) / 116
    across, deep = a / 500 + up, up - b / 200
    x, z = (v**3 if v**3 > 0.008856 else (116 * v - 16) / 903.3 for v in (across, deep))
    y = up**3 if light > 8 else light / 903.3
    return _gamma(_through(_XYZ_D50, 0.9642956 * x, y, 0.8251046 * z))


def _oklab(light: float, a: float, b: float) -> _Triple:
    one, two, three = (value**3 for value in _through(_OKLAB, min(1.0, max(0.0, light)), a, b))
    return _gamma(_through(_OKLAB_RGB, one, two, three))


def _polar(chroma: float, hue: float) -> tuple[float, float]:
    return max(0.0, chroma) * cos(radians(hue)), max(0.0, chroma) * sin(radians(hue))


_RGB: Final[tuple[tuple[str, str, str], _Convert]] = (
    ("255", "255", "255"),
    lambda r, g, b: (r / 255, g / 255, b / 255),
)
_HSL: Final = (("angle", "100", "100"), _hsl)
_ONES: Final = ("1", "1", "1")
_SPACES: Final[dict[str, tuple[tuple[str, str, str], _Convert]]] = {
    "rgb": _RGB,
    "rgba": _RGB,
    "hsl": _HSL,
    "hsla": _HSL,
    "hwb": (("angle", "100", "100"), _hwb),
    "lab": (("100", "125", "125"), _lab),
    "lch": (("100", "150", "angle"), lambda light, c, h: _lab(light, *_polar(c, h))),
    "oklab": (("1", "0.4", "0.4"), _oklab),
    "oklch": (("1", "0.4", "angle"), lambda light, c, h: _oklab(light, *_polar(c, h))),
    "color srgb": (_ONES, lambda r, g, b: (r, g, b)),
    "color srgb-linear": (_ONES, lambda r, g, b: _gamma((r, g, b))),
    "color display-p3": (_ONES, lambda *rgb: _gamma(_through(_DISPLAY_P3, *_linear(*rgb)))),
    "color xyz": (_ONES, lambda *xyz: _gamma(_through(_XYZ_D65, *xyz))),
    "color xyz-d65": (_ONES, lambda *xyz: _gamma(_through(_XYZ_D65, *xyz))),
    "color xyz-d50": (_ONES, lambda *xyz: _gamma(_through(_XYZ_D50, *xyz))),
}
