"""CSS colours as red, green and blue.

tinycss2 reads the notations of CSS Color 4.  Those without numbers (`color-mix()`,
`light-dark()`, relative colours, system colours) are not understood, and the caller counts them.

SECURITY
    Text of hostile pages.  Pure; linear in the text; numbers are clamped.  tinycss2 reads
    more than browsers do.  A browser that refuses a colour keeps the one declared before it,
    so what browsers refuse must be refused here.
"""

from math import isfinite
from typing import Final, NamedTuple

from tinycss2.color4 import Color, parse_color  # type: ignore[import-untyped]

from threegate.gates.fetch.normalize.readers.css import SPACES, Token, shown, tokens

MAX_COLOUR_CHARS: Final = 200
MAX_SAME_COLOUR: Final = 16
MAX_NEAR_COLOUR: Final = 40
MAX_CLEAR_OPACITY: Final = 0.05

Colour = tuple[int, int, int]
WHITE: Final[Colour] = (255, 255, 255)
BLACK: Final[Colour] = (0, 0, 0)

_Triple = tuple[float, float, float]
_Matrix = tuple[_Triple, _Triple, _Triple]
# Linear RGB from XYZ of each white point and from Display P3 (css-color-4, section 18).
_TO_LINEAR_RGB: Final[dict[str, _Matrix]] = {
    "srgb-linear": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "xyz-d65": (
        (3.2409699, -1.5373832, -0.4986108),
        (-0.9692436, 1.8759675, 0.0415551),
        (0.0556301, -0.2039770, 1.0569715),
    ),
    "xyz-d50": (
        (3.1341359, -1.6173863, -0.4906622),
        (-0.9787955, 1.9162544, 0.0334429),
        (0.0719554, -0.2289768, 1.4053860),
    ),
    "display-p3": (
        (1.2249402, -0.2249402, 0.0),
        (-0.0420570, 1.0420570, 0.0),
        (-0.0196376, -0.0786361, 1.0982735),
    ),
}
_RGB: Final = (["number"] * 3, ["percentage"] * 3)
_HSL: Final = tuple([hue, "percentage", "percentage"] for hue in ("number", "dimension"))
_WITH_COMMAS: Final = {"rgb": _RGB, "rgba": _RGB, "hsl": _HSL, "hsla": _HSL}
# Of the functions without commas in which tinycss2 takes numbers or percentages, and not both.
_PERCENTAGES: Final = {
    **dict.fromkeys(("rgb", "rgba"), (2.55, 2.55, 2.55)),
    **dict.fromkeys(("hsl", "hsla"), (0.0, 1.0, 1.0)),
}
# The spaces that tinycss2 converts, and into what.
_CONVERTED: Final = {
    **dict.fromkeys(("hsl", "hwb"), "srgb"),
    **dict.fromkeys(("lab", "lch"), "xyz-d50"),
    **dict.fromkeys(("oklab", "oklch"), "xyz-d65"),
}


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
    """Return a colour as red, green, blue and alpha; None if not understood."""
    found = tokens(value) if len(value) <= MAX_COLOUR_CHARS else ()
    if len(found) != 1:
        return None
    try:
        colour = parse_color(_rewritten(found[0]))
        rgb = _rgb(colour) if isinstance(colour, Color) else None
    except (ArithmeticError, ValueError):  # `color()`, and numbers with hundreds of digits
        return None
    if rgb is None or not all(map(isfinite, rgb)):
        return None
    red, green, blue = (round(255 * _within(channel)) for channel in rgb)
    return Paint((red, green, blue), colour.alpha)


def _rewritten(token: Token) -> str:
    """Return a colour in a notation that browsers and tinycss2 read alike; empty if there is none.

    With commas tinycss2 accepts too much.  Without them it refuses numbers beside percentages,
    and reads some of what is said with `none` in another way.
    """
    arguments = [one for one in token.inner if one.kind not in SPACES]
    kinds = [one.kind for one in arguments if not one.is_sign(",")]
    if token.kind != "function" or len(kinds) < len(arguments):
        old = _WITH_COMMAS.get(token.text, ()) if token.inner else (kinds[:3],)
        return shown([token]) if kinds[:3] in old else ""
    scales = _PERCENTAGES.get(token.text, ())
    for at, one in enumerate(arguments):
        if one.kind == "ident" and one.text == "none":
            arguments[at] = Token("number", "0")
        elif one.kind == "percentage" and at < len(scales) and scales[at]:
            arguments[at] = Token("number", str(one.number * scales[at]))
    return f"{token.text}({' '.join(shown([one]) for one in arguments)})"


def _rgb(found: Color) -> _Triple | None:
    """Return red, green and blue, 0 to 1 where they can be shown."""
    one, two, three = (coordinate or 0.0 for coordinate in found.coordinates)
    space = found.space
    if space == "hsl":
        two, three = _within(two, 100.0), _within(three, 100.0)
    elif space == "hwb":
        two, three = max(0.0, two), max(0.0, three)
    elif space in _CONVERTED:
        one = _within(one, 100.0 if space in ("lab", "lch") else 1.0)
        two = max(0.0, two) if space.endswith("lch") else two
    space = _CONVERTED.get(space, space)
    red, green, blue = Color(found.space, (one, two, three), 1.0).to(space).coordinates
    if space == "srgb":
        return red, green, blue
    if space == "display-p3":
        red, green, blue = map(_linear, (red, green, blue))
    if space not in _TO_LINEAR_RGB:
        return None
    red, green, blue = (_gamma(a * red + b * green + c * blue) for a, b, c in _TO_LINEAR_RGB[space])
    return red, green, blue


def _within(value: float, most: float = 1.0) -> float:
    return min(most, max(0.0, value))


def _gamma(linear: float) -> float:
    value = _within(linear, 8.0)
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


def _linear(channel: float) -> float:
    value = _within(channel, 8.0)
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
