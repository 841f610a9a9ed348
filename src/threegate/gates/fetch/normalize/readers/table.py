"""A table as a description: its size, its columns, and its first rows.

Which row names the columns is decided by the first rows alone, by rules that are stated in the
description.  Small tables are shown whole.

SECURITY
    Holds foreign cells: the first rows, and counts of the rest.  Rows are counted to the end;
    columns are described for a bounded number of cells, and the description says so.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.readers.columns import (
    INTEGER,
    TEXT,
    Column,
    counted,
    in_short,
    kind_of,
)
from threegate.gates.fetch.normalize.text import Part

MAX_COLUMNS: Final = 200  # described; the rest are counted
MAX_CELLS: Final = 5_000_000  # whose values are counted
MAX_ABOVE: Final = 10  # rows of a title above a table
FIRST_ROWS: Final = 100
FIRST_CHARS: Final = 19_000  # of the first rows: within one excerpt
MAX_CELL_CHARS: Final = 200
_YEAR_DIGITS: Final = 4


class Table:
    """Takes rows and describes them."""

    def __init__(self, *, is_even: bool = True) -> None:
        """Rows of an even table should all have the same number of cells."""
        self.rows = 0  # the row of names is not one of them
        self._is_even = is_even
        self._names: tuple[str, ...] | None = None
        self._above: list[Sequence[str]] = []
        self._first: list[tuple[Sequence[str], int]] = []
        self._columns: list[Column] = []
        self._is_settled = False
        self._cells = self._counted_rows = 0
        self._width = self._usual = 0
        self._uneven = self._first_uneven = 0

    def add(self, cells: Sequence[str], width: int | None = None) -> None:
        """Take a row; `width` is its number of cells where `cells` were cut."""
        width = len(cells) if width is None else width
        self._width = max(self._width, width)
        if self._is_settled:
            self._count(cells, width)
            return
        self._first.append((cells[:MAX_COLUMNS], width))
        if len(self._first) > FIRST_ROWS + MAX_ABOVE:
            self._settle()

    def parts(self, name: str, about: Sequence[str]) -> Iterator[Part]:
        """Yield the description as parts; `about` says how the table was read."""
        self._settle()
        prefix = f"{name}, " if name else ""
        yield _part(name or "data", [*self._size(), *about, *self._remarks()])
        if not self._columns:
            return
        counted_rows = self._counted_rows
        lines = [
            f"{number}. {in_short(column.name)}: {column.described(counted_rows)}"
            for number, column in enumerate(self._columns, 1)
        ]
        yield _part(f"{prefix}columns", lines)
        shown = list(self._shown())
        if shown:
            rows = len(shown) - (self._names is not None)
            yield _part(f"{prefix}rows 1-{rows}" if rows else f"{prefix}names", shown)

    def _settle(self) -> None:
        """Decide what the first rows are."""
        if self._is_settled:
            return
        self._is_settled = True
        widths = [width for _, width in self._first]
        self._usual = max(sorted(set(widths), reverse=True), key=widths.count, default=0)
        rows = [cells for cells, _ in self._first]
        above = 0
        while above < min(MAX_ABOVE, len(rows) - 1) and self._is_title(rows[above]):
            above += 1
        self._above = rows[:above]
        rest = self._first[above:]
        if rest and _are_names(rest[0][0]):
            self._names = tuple(rest[0][0])
            self._columns = [Column(self._name(place)) for place in range(len(self._names))]
            rest = rest[1:]
        self._first = rest[:FIRST_ROWS]
        for cells, width in rest:
            self._count(cells, width)

    def _is_title(self, cells: Sequence[str]) -> bool:
        return self._usual > 2 and sum(map(bool, cells)) <= 1

    def _count(self, cells: Sequence[str], width: int) -> None:
        self.rows += 1
        if self._is_even and width != self._usual:
            self._uneven += 1
            self._first_uneven = self._first_uneven or self.rows
        if self._cells > MAX_CELLS:
            return
        self._counted_rows += 1
        cells = cells[:MAX_COLUMNS]
        self._cells += max(1, len(cells))
        while len(self._columns) < len(cells):
            self._columns.append(Column(self._name(len(self._columns))))
        for column, cell in zip(self._columns, cells, strict=False):
            if cell and (cell := cell.strip()):
                column.add(cell)

    def _name(self, place: int) -> str:
        names = self._names or ()
        name = names[place].strip() if place < len(names) else ""
        return name or f"column {place + 1}"

    def _size(self) -> Iterator[str]:
        yield f"{counted(self.rows, 'row')}, {counted(self._width, 'column')}."
        if self._names is not None:
            yield "The first row is read as the names of the columns."
        elif self.rows:
            yield "No row names the columns."

    def _remarks(self) -> Iterator[str]:
        if self._above:
            texts = (in_short(" ".join(filter(None, row)), MAX_CELL_CHARS) for row in self._above)
            yield f"Above the table: {' / '.join(text for text in texts if text) or 'empty rows'}"
        if self._uneven:
            yield (
                f"{counted(self._uneven, 'row')} with another number of cells than the usual"
                f" {self._usual}; the first is row {self._first_uneven}."
            )
        if self._width > MAX_COLUMNS:
            yield f"The first {MAX_COLUMNS} columns are described."
        if self._counted_rows < self.rows:
            yield f"Values are counted in the first {self._counted_rows:,} rows."

    def _shown(self) -> Iterator[str]:
        left = FIRST_CHARS
        rows = [cells for cells, _ in self._first]
        for cells in ([self._names] if self._names is not None else []) + rows:
            line = " | ".join(in_short(cell, MAX_CELL_CHARS) for cell in cells)[:FIRST_CHARS]
            left -= len(line) + 1
            if left < 0:
                return
            yield line


def _are_names(cells: Sequence[str]) -> bool:
    """Tell whether a row names columns: distinct words and years, in most of its cells."""
    names = [cell.strip() for cell in cells if cell.strip()]
    if len(set(names)) < len(names) or 3 * len(names) < 2 * len(cells):
        return False
    kinds = [kind_of(name) for name in names]
    years = sum(
        kind == INTEGER and len(name) == _YEAR_DIGITS
        for kind, name in zip(kinds, names, strict=True)
    )
    return TEXT in kinds and kinds.count(TEXT) + years == len(kinds)


def _part(label: str, lines: Sequence[str]) -> Part:
    return Part(Untrusted(label), Untrusted("\n".join(lines)))
