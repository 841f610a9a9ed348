"""Properties that move, clip or shrink an element, and what their values do.

Each test answers True (it hides), False (it is understood and does not hide) or None.

SECURITY
    Values of hostile pages, already parsed by `css`.  Pure.
"""

from collections.abc import Callable
from typing import Final

from threegate.gates.fetch.normalize.readers.css import Declarations, call, length, number, words

OFF_SCREEN_PIXELS: Final = 300.0
FAR_OFF_PIXELS: Final = 5000.0
MAX_PLAIN_PIXELS: Final = 1000.0  # farther to the right or down is undecided
MIN_PLAIN_PIXELS: Final = -40.0  # farther to the left or up is undecided
FAR_MARGIN_PIXELS: Final = 1000.0
WIDE_MARGIN_PIXELS: Final = 100.0  # smaller ones are ordinary layout
MIN_READABLE_PIXELS: Final = 5.0  # of a font or a box; below it is undecided
MAX_SPECK_PIXELS: Final = 2.0
MIN_GLUED_PIXELS: Final = 6.0  # letters that far into each other are not read

Verdict = bool | None
Test = Callable[[str, Declarations], Verdict]
SIDES: Final = (
    *("left", "right", "top", "bottom", "inset", "inset-inline", "inset-block"),
    *("inset-inline-start", "inset-inline-end", "inset-block-start", "inset-block-end"),
)
HEIGHTS: Final = ("height", "max-height", "block-size", "max-block-size")
WIDTHS: Final = ("width", "max-width", "inline-size", "max-inline-size")
DEFAULTS: Final = ("initial", "unset", "revert", "")  # nobody has set anything
_SCROLLING: Final = ("auto", "scroll", "overlay")
_CUTTING: Final = ("hidden", "clip")
_PAINTED: Final = ("paint", "strict", "content")
_OF_CONTENT: Final = ("auto", "none", "min-content", "max-content", "fit-content", *DEFAULTS)
_CLIPPERS: Final = ("overflow", "overflow-x", "overflow-y", "overflow-block", "overflow-inline")
_ONE_LINE: Final = ("nowrap", "pre")


def all_of(verdicts: list[Verdict]) -> Verdict:
    """Return whether one of several hides."""
    return True if True in verdicts else None if None in verdicts else False


def value_of(found: Declarations, name: str) -> str:
    """Return the value of a property, empty if it is not set."""
    return found[name][0] if name in found else ""


def one_of(harmless: tuple[str, ...], hiding: tuple[str, ...] = ()) -> Test:
    """Test words."""

    def test(value: str, _found: Declarations) -> Verdict:
        return True if value in hiding else False if value in harmless else None

    return test


def numbers(least: float, plain: float, *also: str) -> Test:
    """Test numbers: hidden at most `least`, understood from `plain` on, and the words `also`."""

    def test(value: str, _found: Declarations) -> Verdict:
        if value in also:
            return False
        found = [number(word) for word in words(value)]
        known = [one for one in found if one is not None]
        if any(abs(one) <= least for one in known):
            return True
        return (
            False if known and len(known) == len(found) and min(map(abs, known)) >= plain else None
        )

    return test


def _moved(value: str) -> Verdict:
    if value in ("auto", "none", *DEFAULTS):
        return False
    distance = length(value)
    if distance is None:
        return None
    percent = value.endswith("%")
    if distance <= (-1000.0 if percent else -OFF_SCREEN_PIXELS) or distance >= FAR_OFF_PIXELS:
        return True
    plain = -600.0 if percent else MIN_PLAIN_PIXELS
    return False if plain < distance < MAX_PLAIN_PIXELS else None


def position(value: str, found: Declarations) -> Verdict:
    """Test `position` with the sides that it uses."""
    if value == "static":
        return False
    if value not in ("absolute", "fixed", "relative", "sticky", "-webkit-sticky"):
        return None
    values = [found[side][0] for side in SIDES if side in found]
    return all_of([_moved(word) for value in values for word in words(value)])


def offset(value: str, _found: Declarations) -> Verdict:
    """Test `translate`: two lengths and how far to the front."""
    return all_of([_moved(word) for word in words(value)[:2]] + _depth(words(value)[2:]))


def _depth(values: list[str]) -> list[Verdict]:
    return [None for value in values if length(value) != 0.0]


def indent(value: str, found: Declarations) -> Verdict:
    """Test `text-indent`."""
    distances = [word for word in words(value) if word not in ("hanging", "each-line")]
    if _is_clipped(found) and any((length(word) or 0.0) >= 1000.0 for word in distances):
        return True
    small = [-WIDE_MARGIN_PIXELS < (length(word) or 0.0) <= 0.0 for word in distances]
    return all_of(
        [_moved(word) for word, is_small in zip(distances, small, strict=True) if not is_small]
    )


def margin(value: str, _found: Declarations) -> Verdict:
    """Test a margin; one below is None, for it hides only with others."""
    lengths = [0.0 if word == "auto" else length(word) for word in words(value)]
    if any(one is not None and one <= -FAR_MARGIN_PIXELS for one in lengths):
        return True
    return all_of(
        [
            False if one is not None and -WIDE_MARGIN_PIXELS < one < FAR_MARGIN_PIXELS else None
            for one in lengths
        ]
    )


def margin_after(value: str, found: Declarations) -> Verdict:
    """Test a margin after an element, which moves others."""
    return None if margin(value, found) is not False else False


def padding(value: str, _found: Declarations) -> Verdict:
    """Test a padding."""
    lengths = [length(word) for word in words(value)]
    return None if any(one is None or one >= FAR_MARGIN_PIXELS for one in lengths) else False


def _is_clipped(found: Declarations, kinds: tuple[str, ...] = (*_SCROLLING, *_CUTTING)) -> bool:
    values = {word for name in _CLIPPERS for word in value_of(found, name).split()}
    return bool(values & set(kinds) or set(value_of(found, "contain").split()) & set(_PAINTED))


def overflow(value: str, found: Declarations) -> Verdict:
    """Test what is cut off an element by its own size."""
    kinds = set(value.split())
    if not kinds <= {"visible", *_SCROLLING, *_CUTTING}:
        return None
    return _cut(found) if _is_clipped(found) else False


def contain(value: str, found: Declarations) -> Verdict:
    """Test `contain` and `container-type`, which may give an element no size of its own."""
    kinds = set(value.replace("/", " ").split())
    sized = kinds & {"size", "strict", "inline-size", "block-size"}
    if sized and ("strict" in kinds or _is_clipped(found)):
        return None
    return _cut(found) if _is_clipped(found) else False


def _cut(found: Declarations) -> Verdict:
    verdicts = [_extent(name, found) for name in (*WIDTHS, *HEIGHTS) if name in found]
    if _is_clipped(found, _CUTTING):  # nobody can scroll to the rest
        verdicts += [
            None for name in HEIGHTS if name in found and found[name][0] not in _OF_CONTENT
        ]
        line = {*value_of(found, "white-space").split(), value_of(found, "text-wrap")}
        verdicts += [None] * bool(line & set(_ONE_LINE))
        ratio = value_of(found, "aspect-ratio")
        verdicts += [None] * (ratio not in ("auto", *DEFAULTS))
    return all_of(verdicts)


def _extent(name: str, found: Declarations) -> Verdict:
    value = found[name][0]
    size = length(value)
    if size is None:
        return False if value in _OF_CONTENT else None
    if size >= MIN_READABLE_PIXELS:
        return False
    least = found.get(name.replace("max-", "min-") if "max-" in name else f"min-{name}")
    if least is not None and (length(least[0]) or 0.0) >= MIN_READABLE_PIXELS:
        return False
    padded = any("padding" in other for other in found) and size == 0.0 and name == "height"
    return True if size < MAX_SPECK_PIXELS and not padded else None


def transform(value: str, _found: Declarations) -> Verdict:
    """Test `transform`."""
    if value == "none":
        return False
    return all_of([_one_transform(*call(word)) for word in words(value)])


def _one_transform(name: str, parts: list[str]) -> Verdict:
    if not parts:
        return None
    if name in ("scale", "scalex", "scaley", "scale3d"):
        return numbers(0.05, 0.3)(" ".join(parts[:2]), {})
    if name in ("translate", "translatex", "translatey", "translate3d"):
        return all_of([*map(_moved, parts[:2]), *_depth(parts[2:])])
    if name in ("rotatex", "rotatey"):
        return {"90deg": True, "-90deg": True, "0.25turn": True, "0": False, "0deg": False}.get(
            parts[0]
        )
    if name == "matrix":
        return _matrix([number(part) for part in parts])
    flat = name == "translatez" and not _depth(parts)
    return False if flat or name in ("rotate", "rotatez") else None


def _matrix(found: list[float | None]) -> Verdict:
    known = [one for one in found if one is not None]
    if len(known) != 6 or len(found) != 6:
        return None
    a, b, c, d, x, y = known
    if abs(a * d - b * c) <= 0.0025:
        return True
    return all_of([_moved(f"{x}px"), _moved(f"{y}px"), abs(a * d - b * c) < 0.1 and None])


def origin(value: str, _found: Declarations) -> Verdict:
    """Test the point that an element is turned about."""
    sides = ("left", "right", "top", "bottom", "center")
    near = (
        word in sides or abs(length(word) or 9999.0 * (word != "0")) <= 1000.0
        for word in words(value)
    )
    return False if all(near) else None


def clip(value: str, _found: Declarations) -> Verdict:
    """Test `clip`."""
    name, parts = call(value)
    sides = [length(part) for part in parts]
    if name != "rect" or len(sides) != 4 or any(side is None for side in sides):
        return False if value == "auto" else None
    top, right, bottom, left = (side or 0.0 for side in sides)
    if right - left <= MAX_SPECK_PIXELS or bottom - top <= MAX_SPECK_PIXELS:
        return True
    return False if min(right - left, bottom - top) >= 2 * MIN_READABLE_PIXELS else None


def clip_path(value: str, _found: Declarations) -> Verdict:
    """Test `clip-path`."""
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


def spacing(value: str, _found: Declarations) -> Verdict:
    """Test the space between letters or words."""
    distance = 0.0 if value == "normal" else length(value)
    if distance is None or -MIN_GLUED_PIXELS < distance <= -3.0 or distance >= FAR_MARGIN_PIXELS:
        return None
    return distance <= -MIN_GLUED_PIXELS


def line_height(value: str, _found: Declarations) -> Verdict:
    """Test `line-height`: lines that lie on each other."""
    lines = number(value)
    size = lines * 16.0 if lines is not None else length(value)
    return False if value == "normal" or (size or 0.0) >= MIN_READABLE_PIXELS else None
