"""Lines with wide gaps: rows of a table, columns that were painted side by side, or neither.

PDFium puts everything on one height into one line if it was painted one after the other.  A gap
counts where lines nearby have one at the same place.

SECURITY
    Numbers and characters of a hostile file.  Pure; each line is compared with a few neighbours.
    If this module is wrong, cells are not kept apart, or columns are read across.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from threegate.gates.fetch.normalize.readers.pdf_lines import Gap, Line

CELL_MARK: Final = " | "
_NEIGHBOURS: Final = 3  # lines with gaps above, and as many below
_MIN_SUPPORT: Final = 2  # of them with a gap at the same place
_MAX_PLAIN: Final = 2  # lines without a gap between two rows
_MIN_PROSE_CHARS: Final = 25  # mean of a line of a column
_MIN_NARROW_CHARS: Final = 14  # the same, where lines are full
_MIN_FULL_SHARE: Final = 0.72  # of a column
_MIN_FULL_ROWS: Final = 5
_MAX_COLUMNS: Final = 3
_MAX_MARKER_CHARS: Final = 4  # of an entry in a list


def arranged(lines: Sequence[Line]) -> list[Line]:
    """Return lines in which rows are marked, and those of columns taken apart."""
    found: list[Line] = []
    at = 0
    for start, end in _runs(lines):
        found += lines[at:start]
        found += _resolved(lines[start:end])
        at = end
    found += lines[at:]
    return found


def _runs(lines: Sequence[Line]) -> Iterator[tuple[int, int]]:
    """Yield where lines with gaps follow each other down the page."""
    start = last = -1
    for number, line in enumerate(lines):
        if not line.gaps or line.turned:
            continue
        above = lines[last]
        near = 0 < above.top - line.top < (_MAX_PLAIN + 2) * 2 * line.em
        if start < 0 or number - last - 1 > _MAX_PLAIN or not near:
            if last - start >= _MIN_SUPPORT:
                yield start, last + 1
            start = number
        last = number
    if start >= 0 and last - start >= _MIN_SUPPORT:
        yield start, last + 1


def _resolved(lines: Sequence[Line]) -> list[Line]:
    rows = [line for line in lines if line.gaps]
    cut = {}
    for number, line in enumerate(rows):
        near = rows[max(0, number - _NEIGHBOURS) : number]
        near += rows[number + 1 : number + 1 + _NEIGHBOURS]
        gaps = tuple(gap for gap in line.gaps if _support(gap, near, line.em) >= _MIN_SUPPORT)
        if gaps:
            cut[id(line)] = _cells(line, gaps)
    taken = list(cut.values())
    if not taken or _is_list(taken):
        return list(lines)
    prose = _is_prose(taken)
    found: list[Line] = []
    for line in lines:
        cells = cut.get(id(line))
        if cells is None:
            found.append(line)
        elif prose:
            found += cells
        else:
            text = CELL_MARK.join(cell.text for cell in cells)
            found.append(replace(line, text=text, gaps=(), is_row=True))
    return found


def _support(gap: Gap, near: Sequence[Line], em: float) -> int:
    return sum(
        any(min(gap.right, other.right) - max(gap.left, other.left) > em / 3 for other in line.gaps)
        for line in near
    )


def _cells(line: Line, gaps: Sequence[Gap]) -> list[Line]:
    found, start, left = [], 0, line.left
    for gap in gaps:
        found.append(replace(line, text=line.text[start : gap.end], left=left, right=gap.left))
        start, left = gap.start, gap.right
    found.append(replace(line, text=line.text[start:], left=left))
    return [replace(cell, text=_spaced(cell.text), gaps=()) for cell in found]


def _spaced(text: str) -> str:
    return " ".join(text.replace("\0", "").split())


def _is_prose(rows: Sequence[Sequence[Line]]) -> bool:
    """Tell whether cells are lines of text in columns."""
    cells = [len(cell.text) for row in rows for cell in row]
    if len(cells) > _MAX_COLUMNS * len(rows):
        return False
    mean = sum(cells) / max(1, len(cells))
    return mean >= _MIN_PROSE_CHARS or (mean >= _MIN_NARROW_CHARS and _is_full(rows))


def _is_full(rows: Sequence[Sequence[Line]]) -> bool:
    """Tell whether most lines reach from one side of their column to the other."""
    usual = max(map(len, rows))
    columns = list(zip(*(row for row in rows if len(row) == usual), strict=True))
    widths = sum(cell.right - cell.left for column in columns for cell in column)
    room = sum(
        len(column) * (max(cell.right for cell in column) - min(cell.left for cell in column))
        for column in columns
    )
    return widths >= _MIN_FULL_SHARE * room and len(columns[0]) >= _MIN_FULL_ROWS


def _is_list(rows: Sequence[Sequence[Line]]) -> bool:
    """Tell whether each row is the mark of an entry, and the entry."""
    return all(len(row) == 2 and len(row[0].text) <= _MAX_MARKER_CHARS for row in rows) and (
        sum(len(row[1].text) for row in rows) >= _MIN_PROSE_CHARS * len(rows)
    )
