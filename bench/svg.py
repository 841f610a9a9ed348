"""A small picture: cost against size on log-log axes, where a straight line at 45° is linear."""

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 80, 250, 40, 50
COLOURS = (
    "#1b6ca8",
    "#c8553d",
    "#2a7f62",
    "#8a4fa3",
    "#b5851b",
    "#5b6770",
    "#d1495b",
    "#3d5a80",
    "#111",
)

Curve = tuple[str, Sequence[tuple[float, float]]]


class _Axis:
    """Turns a value into a place, by decades."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.low = math.floor(math.log10(min(values)))
        self.high = max(self.low + 1, math.ceil(math.log10(max(values))))
        self._start, self._step = start, (end - start) / (self.high - self.low)

    def place(self, value: float) -> float:
        return self._start + (math.log10(value) - self.low) * self._step

    def decades(self) -> range:
        return range(self.low, self.high + 1)


def plot(title: str, *, x_label: str, curves: Sequence[Curve]) -> str:
    """Return an SVG of `curves`, whose y values are seconds."""
    x = _Axis([size for _, points in curves for size, _ in points], LEFT, WIDTH - RIGHT)
    y = _Axis([cost for _, points in curves for _, cost in points], HEIGHT - BOTTOM, TOP)
    style = 'font-family="sans-serif" font-size="12" fill="#222"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {style}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(LEFT, 22, title, "start", size=15),
        *_grid(x, y),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label, "middle"),
    ]
    for number, (name, points) in enumerate(curves):
        parts += _line(number, name, [(x.place(size), y.place(cost)) for size, cost in points])
    return "\n".join([*parts, "</svg>"]) + "\n"


def _grid(x: _Axis, y: _Axis) -> list[str]:
    parts = []
    for decade in x.decades():
        at = x.place(10**decade)
        parts.append(_rule(at, TOP, at, HEIGHT - BOTTOM))
        parts.append(_text(at, HEIGHT - BOTTOM + 18, f"{10**decade:,}", "middle"))
    for decade in y.decades():
        at = y.place(10**decade)
        parts.append(_rule(LEFT, at, WIDTH - RIGHT, at))
        parts.append(_text(LEFT - 8, at + 4, _seconds(decade), "end"))
    return parts


def _seconds(decade: int) -> str:
    """Return a power of ten of seconds in the unit people would say it in."""
    for unit, exponent in (("s", 0), ("ms", -3), ("µs", -6)):
        if decade >= exponent:
            return f"{10 ** (decade - exponent):,} {unit}"
    return f"{10.0 ** (decade + 9):g} ns"


def _line(number: int, name: str, places: Sequence[tuple[float, float]]) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    along = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    legend_x, legend_y = WIDTH - RIGHT + 16, TOP + 12 + 20 * number
    return [
        f'<polyline points="{along}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places),
        f'<rect x="{legend_x}" y="{legend_y - 10}" width="10" height="10" fill="{colour}"/>',
        _text(legend_x + 16, legend_y, name, "start"),
    ]


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="#ddd"/>'


def _text(x: float, y: float, words: str, anchor: str, *, size: int = 12) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f"<text {place}>{escape(words)}</text>"
