"""How texts stand in a report: nothing in them is hidden, reordered or taken for another letter.

SECURITY
    Every foreign text goes through here exactly once, in every format.  If this module is
    wrong, a reader sees something else than what the source has.
"""

from collections.abc import Sequence

from threegate.base.text import visible
from threegate.host.review.characters import exposed


def on_one_line(foreign: str) -> str:
    """Return foreign text on one line, suspicious characters and line breaks spelled out."""
    return visible(exposed(foreign))


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a foreign table line by line, each column as wide as its widest cell."""
    spelled = [[on_one_line(cell) for cell in row] for row in rows]
    wide = [max(map(len, column)) for column in zip(*spelled, strict=True)]
    return ["  ".join(map(str.ljust, row, wide)).rstrip() for row in spelled]


def in_lines(foreign: str) -> list[str]:
    """Return foreign text line by line, suspicious characters spelled out."""
    return [on_one_line(line.expandtabs(4)) for line in foreign.split("\n")]
