"""The order in which a page of a PDF is read: lines become blocks, and blocks are put in order.

The order in which a page was painted is almost always the order in which it is read, and knows
what no rule about places knows.  It is kept unless it goes against the places: upwards within a
column, or to the left on the same height.  Then the page is cut where nothing is: into columns,
or into bands from top to bottom, and each piece again.

SECURITY
    Numbers of a hostile file.  Pure; a page with more than `MAX_BLOCKS` blocks stays in the order
    it was painted in.  If this module is wrong, sentences are torn apart; none is added.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Final

from threegate.gates.fetch.normalize.readers.pdf_lines import Line

MAX_BLOCKS: Final = 600
MAX_CUTS: Final = 24  # of a page into pieces, one within the other
_OPEN_BLOCKS: Final = 4  # that a line may continue
_SAME_EM: Final = 0.07  # share by which sizes of letters may differ within a block
_MAX_PITCH_EMS: Final = 1.9  # from one line to the next
_MAX_WIDER_PITCH: Final = 1.35  # than the lines above
_MIN_GUTTER_POINTS: Final = 3.0
_SLACK_EMS: Final = 0.3


@dataclass(slots=True, eq=False)
class Block:
    """Lines under each other that were painted one after the other."""

    lines: list[Line]
    left: float = field(init=False)
    bottom: float = field(init=False)
    right: float = field(init=False)
    top: float = field(init=False)
    pitch: float = 0.0  # from a line to the next

    def __post_init__(self) -> None:
        first = self.lines[0]
        self.left, self.bottom = first.left, first.bottom
        self.right, self.top = first.right, first.top

    @property
    def em(self) -> float:
        """Return the size of its letters."""
        return self.lines[0].em

    def takes(self, line: Line) -> bool:
        """Tell whether a line continues the block."""
        last = self.lines[-1]
        drop = last.bottom - line.bottom
        em = max(last.em, line.em)
        if line.is_row != last.is_row or line.bold != last.bold:
            return False
        if abs(last.em - line.em) > _SAME_EM * em and not line.is_row:
            return False
        if not _SLACK_EMS * em < drop < _MAX_PITCH_EMS * em * (1 + line.is_row):
            return False
        if self.pitch and drop > self.pitch * _MAX_WIDER_PITCH:
            return False
        shared = min(self.right, line.right) - max(self.left, line.left)
        return shared > 0.5 * min(self.right - self.left, line.right - line.left)

    def add(self, line: Line) -> None:
        """Append a line."""
        self.pitch = max(self.pitch, self.lines[-1].bottom - line.bottom)
        self.lines.append(line)
        self.left, self.right = min(self.left, line.left), max(self.right, line.right)
        self.bottom, self.top = min(self.bottom, line.bottom), max(self.top, line.top)


def blocks_of(lines: Sequence[Line], *, leftwards: bool = False) -> list[Block]:
    """Return the blocks of a page in the order in which they are read."""
    if leftwards:
        for line in lines:
            line.left, line.right = -line.right, -line.left
    blocks = _gathered([line for line in lines if not line.turned])
    if len(blocks) <= MAX_BLOCKS and not _is_in_order(blocks):
        blocks = list(_ordered(blocks, MAX_CUTS))
    return blocks + [Block([line]) for line in lines if line.turned]


def _gathered(lines: Sequence[Line]) -> list[Block]:
    blocks: list[Block] = []
    recent: list[Block] = []  # the one that took the last line comes last
    for line in lines:
        block = next((block for block in reversed(recent) if block.takes(line)), None)
        if block is None:
            block = Block([line])
            blocks.append(block)
        else:
            block.add(line)
            recent.remove(block)
        recent = [*recent[1 - _OPEN_BLOCKS :], block]
    return blocks


def _is_in_order(blocks: Sequence[Block]) -> bool:
    """Tell whether no block lies before the one that was painted before it."""
    for one, other in pairwise(blocks):
        slack = _SLACK_EMS * max(one.em, other.em)
        upwards = other.bottom > one.bottom + slack
        beside = other.left > one.right - slack
        level = abs(other.bottom - one.bottom) <= slack
        if (upwards and not beside) or (level and other.right < one.left + slack):
            return False
    return True


def _ordered(blocks: list[Block], cuts: int) -> Iterator[Block]:
    if len(blocks) < 2 or not cuts:
        yield from blocks
        return
    columns = _columns(blocks)
    if len(columns) > 1:
        for column in columns:
            yield from _ordered(column, cuts - 1)
        return
    bands = _bands(blocks)
    if len(bands) == 1:
        yield from sorted(blocks, key=lambda block: (-block.top, block.left))
        return
    for band in bands:
        yield from _ordered(band, cuts - 1)


def _columns(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return blocks in groups from left to right with nothing between them."""
    return _groups(sorted(blocks, key=lambda block: block.left), _from_left, _MIN_GUTTER_POINTS)


def _bands(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return blocks in groups from top to bottom; those with the same columns stay together."""
    thin = _groups(sorted(blocks, key=lambda block: -block.top), _from_top, 0.0)
    bands = thin[:1]
    for band in thin[1:]:
        if len(_columns(bands[-1] + band)) > 1:
            bands[-1] = bands[-1] + band
        else:
            bands.append(band)
    # Everything joined again would be cut in the same way for ever.
    return bands if len(bands) > 1 else thin


def _from_left(block: Block) -> tuple[float, float]:
    return block.left, block.right


def _from_top(block: Block) -> tuple[float, float]:
    inset = _SLACK_EMS * block.em  # letters reach less far than the em of their line
    return inset - block.top, -block.bottom - inset


def _groups(
    blocks: Sequence[Block], extent: Callable[[Block], tuple[float, float]], least: float
) -> list[list[Block]]:
    """Return sorted blocks in groups between which nothing lies for `least` points."""
    groups: list[list[Block]] = []
    reach = -inf
    for block in blocks:
        start, end = extent(block)
        if start >= reach + least or not groups:
            groups.append([])
        groups[-1].append(block)
        reach = max(reach, end)
    return groups
