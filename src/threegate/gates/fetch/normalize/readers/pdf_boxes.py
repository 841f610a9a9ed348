"""Boxes on a page of a PDF, and how a form moves what is in it.

SECURITY
    Numbers that PDFium read out of a hostile file; they may be anything.  Pure.
"""

from typing import Final

Box = tuple[float, float, float, float]  # left, bottom, right, top
Matrix = tuple[float, float, float, float, float, float]
UPRIGHT: Final[Matrix] = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def is_rectangle(points: list[tuple[float, float]]) -> bool:
    """Tell whether points are the corners of one upright rectangle."""
    across, up = {round(x, 2) for x, _ in points}, {round(y, 2) for _, y in points}
    return len(points) in (4, 5) and len(across) == 2 == len(up) and len(set(points[:4])) == 4


def multiplied(first: Matrix, then: Matrix) -> Matrix:
    """Return one matrix that does what two do in turn."""
    a, b, c, d, e, f = first
    g, h, i, j, k, m = then
    return (
        a * g + b * i,
        a * h + b * j,
        c * g + d * i,
        c * h + d * j,
        e * g + f * i + k,
        e * h + f * j + m,
    )


def moved(box: Box, matrix: Matrix) -> Box:
    """Return the box around a box that was moved."""
    a, b, c, d, e, f = matrix
    left, bottom, right, top = box
    across: tuple[float, ...]
    up: tuple[float, ...]
    if b == 0.0 == c:  # almost always: nothing is turned
        across, up = (a * left + e, a * right + e), (d * bottom + f, d * top + f)
    else:
        corners = [(x, y) for x in (left, right) for y in (bottom, top)]
        across = tuple(a * x + c * y + e for x, y in corners)
        up = tuple(b * x + d * y + f for x, y in corners)
    return min(across), min(up), max(across), max(up)


def common(one: Box, other: Box) -> Box:
    """Return what lies in both of two boxes."""
    return (
        max(one[0], other[0]),
        max(one[1], other[1]),
        min(one[2], other[2]),
        min(one[3], other[3]),
    )
