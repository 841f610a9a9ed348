"""CSV and TSV files that were imported: a description of the table, not all of its text.

The delimiter is the one of tab, semicolon, bar and comma that gives the most rows the same number
of cells; if several do, the one with the most cells that are numbers or dates, so that a decimal
comma separates nothing.  `csv.Sniffer` is not used: its expressions take quadratic time.

SECURITY
    Reads foreign bytes with `csv`, whose cells are bounded.  A formula in a cell stays text.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from threegate.artifacts import media_types
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers import plain
from threegate.gates.fetch.normalize.readers.columns import MISSING, TEXT, counted, kind_of
from threegate.gates.fetch.normalize.readers.table import MAX_COLUMNS, Table
from threegate.gates.fetch.normalize.text import Document, Unread

MAX_CELL_CHARS: Final = 1_000_000
SAMPLE_CHARS: Final = 65_536
SAMPLE_ROWS: Final = 200
_DELIMITERS: Final = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
_COMMENT: Final = "#"
_EXCEL: Final = "sep="  # a first line in which Excel states the delimiter


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the cells of a file are separated."""

    delimiter: str
    is_quoted: bool

    def rows(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Yield the rows that are not empty, or raise `Unread`."""
        csv.field_size_limit(MAX_CELL_CHARS)
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.is_quoted else csv.QUOTE_NONE
        try:
            yield from filter(None, csv.reader(lines, delimiter=self.delimiter, quoting=quoting))
        except csv.Error as exc:
            detail = f"a cell of more than {MAX_CELL_CHARS} characters: a quotation mark is missing"
            raise Unread("damaged", detail) from exc


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the description of a table, or raise `Unread`."""
    text, encoding = plain.decode_named(raw)
    if "\n" not in text:
        text = text.replace("\r", "\n")
    start, comments = _begin(text)
    stated = _stated(text, start)
    if stated is not None:
        start = text.find("\n", start) + 1
    dialect = _dialect(text[start : start + SAMPLE_CHARS], _fixed(stated, answer, text))
    table = Table()
    for row in dialect.rows(_lines(text, start)):
        table.add(row[:MAX_COLUMNS], len(row))
    kind = "TSV" if answer.read_as == media_types.TSV else "CSV"
    separated = f"cells are separated by {_DELIMITERS[dialect.delimiter]}"
    about = [f"A {kind} file in the encoding {encoding}; {separated}."]
    if not dialect.is_quoted:
        about.append("Quotation marks are part of the cells.")
    if comments:
        about.append(f"{counted(comments, 'line')} of comments above the table.")
    return Document(tuple(table.parts("", about)))


def _begin(text: str) -> tuple[int, int]:
    """Return where the table begins after comments, and how many lines these are."""
    start = comments = 0
    while text.startswith(_COMMENT, start):
        end = text.find("\n", start)
        if end < 0:
            break
        start, comments = end + 1, comments + 1
    return start, comments


def _stated(text: str, start: int) -> str | None:
    if text.startswith(_EXCEL, start) and text[start + 5 : start + 6] in ("\n", "\r"):
        return text[start + 4] if text[start + 4] in _DELIMITERS else None
    return None


def _fixed(stated: str | None, answer: KeptAnswer, text: str) -> str | None:
    """Return the delimiter that needs no detection."""
    if stated is None and answer.read_as == media_types.TSV and "\t" in text:
        return "\t"
    return stated


def _dialect(sample: str, fixed: str | None) -> Dialect:
    if len(sample) == SAMPLE_CHARS:  # the last line is cut
        sample = sample[: sample.rfind("\n") + 1] or sample
    found = [
        (_score(sample, dialect), dialect)
        for delimiter in ([fixed] if fixed else _DELIMITERS)
        for dialect in (Dialect(delimiter, is_quoted=True), Dialect(delimiter, is_quoted=False))
    ]
    best = max(score for score, _ in found)
    if best[0] == 0.0:  # one column
        return Dialect(fixed or ",", is_quoted=True)
    return next(dialect for score, dialect in found if score == best)


def _score(sample: str, dialect: Dialect) -> tuple[float, float, int]:
    """Return the share of rows of the usual width, of typed cells, and that width."""
    rows: list[list[str]] = []
    try:
        for row in dialect.rows(_lines(sample, 0)):
            rows.append(row)
            if len(rows) >= SAMPLE_ROWS:
                break
    except Unread:
        return (0.0, 0.0, 0)
    widths = [len(row) for row in rows]
    wide = [width for width in widths if width > 1]
    if not wide:
        return (0.0, 0.0, 0)
    usual = max(sorted(set(wide)), key=wide.count)
    cells = [cell.strip() for row in rows for cell in row[:MAX_COLUMNS]]
    typed = sum(bool(cell) and kind_of(cell) not in (TEXT, MISSING) for cell in cells)
    return (round(widths.count(usual) / len(rows), 2), round(typed / len(cells), 2), usual)


def _lines(text: str, start: int) -> Iterator[str]:
    """Yield the lines with their ends; `str.splitlines` would also cut at rarer characters."""
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end
