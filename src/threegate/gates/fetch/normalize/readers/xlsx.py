"""XLSX: a description of each sheet, with the values that the file stores.

No formula is evaluated: the value that the last program stored beside it is shown, and the
description says so.  Hidden sheets, rows and columns are left out and counted as `hidden-text`.

SECURITY
    Reads hostile bytes through `opc`, without keeping a tree or a sheet.  A row holds at most as
    many cells as are described, wherever they say they are.  Macros, links to other workbooks and
    data connections are counted as `active-content`; nothing is run, loaded or followed.
"""

import re
from collections.abc import Iterator
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers.columns import (
    MAX_KIND_CHARS,
    NUMBER,
    counted,
    kind_of,
)
from threegate.gates.fetch.normalize.readers.flow import Flow
from threegate.gates.fetch.normalize.readers.opc import OfficeEvents, Package
from threegate.gates.fetch.normalize.readers.spreadsheet_dates import DateFormats, shown_date
from threegate.gates.fetch.normalize.readers.table import MAX_COLUMNS, Table
from threegate.gates.fetch.normalize.text import Document, Part, Unread
from threegate.gates.fetch.sources.fields import Record

MAX_SHEETS: Final = 60  # described; the rest are counted
MAX_SHEET_NODES: Final = 20_000_000  # 64 MiB of XML have no more
MAX_DIGITS: Final = 16  # a longer number is rounded to 15 digits, as office programs show it
_PLACE: Final = re.compile(r"([A-Z]{1,3})[0-9]{1,7}")
_LETTERS: Final = 26
_ON: Final = ("1", "true")
_OUTSIDE: Final = ("connections", "externalLink")


class _SheetEvents(OfficeEvents):
    most_nodes = MAX_SHEET_NODES

    def counts(self, _element: str, attribute: str) -> bool:
        return " " not in attribute  # all that are looked at have no namespace


class _Strings(_SheetEvents):
    """The texts that cells refer to by number."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._pieces: list[str] = []
        self._in_text = False
        self._aloud = 0  # inside a reading aid of a Japanese text, which repeats it

    def opened(self, name: str, _namespace: str, _attributes: dict[str, str]) -> None:
        if name == "rPh":
            self._aloud += 1
        self._in_text = name == "t" and not self._aloud

    def closed(self, name: str) -> None:
        self._in_text = False
        if name == "rPh":
            self._aloud -= 1
        elif name == "si":
            self.texts.append("".join(self._pieces).strip())
            self._pieces.clear()

    def said(self, text: str) -> None:
        if self._in_text:
            self._pieces.append(text)


class _Sheet(_SheetEvents):
    """Rows of one sheet, handed to a table as they end."""

    def __init__(self, strings: list[str], dates: DateFormats, *, hidden: bool) -> None:
        super().__init__()
        self.table = Table(is_even=False)
        self.formulas = self.unstored = self.hidden_chars = self.hidden_rows = 0
        self.hidden_columns: set[int] = set()
        self._strings, self._dates = strings, dates
        self._all_hidden = hidden
        self._row: dict[int, str] = {}
        self._row_hidden = False
        self._next = self._width = 0
        self._kind = self._style = ""
        self._is_formula = False
        self._value: list[str] = []
        self._into: list[str] | None = None
        self._aloud = 0

    def opened(self, name: str, _namespace: str, attributes: dict[str, str]) -> None:
        if name == "c":
            self._next = _column(attributes.get("r", ""), self._next)
            self._kind, self._style = attributes.get("t", "n"), attributes.get("s", "")
            self._value, self._is_formula = [], False
        elif name in ("v", "t"):
            self._into = self._value if self._next and not self._aloud else None
        elif name == "f":
            self._is_formula = True
        elif name == "rPh":
            self._aloud += 1
        elif name == "row":
            self._row, self._next, self._width = {}, 0, 0
            self._row_hidden = attributes.get("hidden") in _ON
        elif name == "col" and attributes.get("hidden") in _ON:
            self._hide_columns(attributes)

    def closed(self, name: str) -> None:
        self._into = None
        if name == "c":
            self._end_cell()
        elif name == "rPh":
            self._aloud -= 1
        elif name == "row":
            self._end_row()

    def said(self, text: str) -> None:
        if self.foreign:
            self.hidden_chars += len(text)
        elif self._into is not None:
            self._into.append(text)

    def _hide_columns(self, attributes: dict[str, str]) -> None:
        first, last = _count(attributes.get("min")), _count(attributes.get("max"))
        self.hidden_columns.update(range(first, min(last, MAX_COLUMNS) + 1))

    def _end_cell(self) -> None:
        text = "".join(self._value)
        self.formulas += self._is_formula
        self.unstored += self._is_formula and not text
        if self._kind == "s":
            place = _count(text)
            text = self._strings[place] if place < len(self._strings) else ""
        elif self._kind == "b":
            text = "TRUE" if text in _ON else "FALSE"
        elif self._kind == "n" and text:
            text = self._number(text)
        if not text:
            return
        if self._all_hidden or self._row_hidden or self._next in self.hidden_columns:
            self.hidden_chars += len(text)  # counted in one step: many cells may share a long text
            return
        self._width = max(self._width, self._next)
        if self._next <= MAX_COLUMNS:
            self._row[self._next] = text

    def _number(self, text: str) -> str:
        if self._dates.is_date(self._style):
            return shown_date(text, since_1904=self._dates.since_1904)
        if MAX_DIGITS < len(text) <= MAX_KIND_CHARS and kind_of(text) == NUMBER:
            return f"{float(text):.15g}"
        return text

    def _end_row(self) -> None:
        self.hidden_rows += self._row_hidden
        if self._width:
            row, hidden = self._row, self.hidden_columns
            places = range(1, max(row, default=0) + 1)
            cells = [row.get(place, "") for place in places if place not in hidden]
            gone = sum(place < self._width for place in hidden)
            self.table.add(cells, self._width - gone)

    def about(self) -> Iterator[str]:
        """Yield how the sheet was read."""
        if self.formulas:
            said = "the value that the file stores is shown, no formula is evaluated"
            none = f"; {self.unstored:,} without such a value" if self.unstored else ""
            yield f"{counted(self.formulas, 'cell')} with a formula: {said}{none}."
        if self.hidden_rows or self.hidden_columns:
            rows = counted(self.hidden_rows, "hidden row")
            columns = counted(len(self.hidden_columns), "hidden column")
            yield f"Left out: {rows} and {columns}."


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the description of a workbook, or raise `Unread`."""
    package, flow, record = Package(raw), Flow(), Record(answer.source)
    main = package.main()
    root = package.tree(main)
    if root.name != "workbook":
        raise Unread("other-kind", "not a workbook")
    dates = DateFormats(
        since_1904=any(
            item.attributes.get("date1904") in _ON for item in root.children("workbookPr")
        )
    )
    strings = _Strings()
    for part in package.related(main, "styles"):
        package.walk(part, dates)
    for part in package.related(main, "sharedStrings"):
        package.walk(part, strings)
    targets = {one.id: one.target for one in package.relations(main) if one.kind == "worksheet"}
    listed = [one.attributes for one in root.every("sheets", "sheet")]
    parts = [_part("workbook", list(_workbook(listed)))]
    for attributes in listed[:MAX_SHEETS]:
        target = targets.get(attributes.get("id", ""))
        if target is not None:
            hidden = attributes.get("state", "visible") != "visible"
            sheet = _Sheet(strings.texts, dates, hidden=hidden)
            package.walk(target, sheet)
            package.count_active(target, flow)
            flow.hidden += sheet.hidden_chars
            if not hidden:
                label = f"sheet {attributes.get('name', '')}"
                parts += sheet.table.parts(label, list(sheet.about()))
    package.count_active(main, flow)
    flow.active += sum(one.kind in _OUTSIDE for one in package.relations(main))
    package.read_properties(record)
    return Document(tuple(parts), record.finished(), found=flow.found())


def _workbook(listed: list[dict[str, str]]) -> Iterator[str]:
    hidden = sum(one.get("state", "visible") != "visible" for one in listed)
    said = f", {hidden} of them hidden and left out" if hidden else ""
    yield f"An XLSX file: {counted(len(listed), 'sheet')}{said}."
    if len(listed) > MAX_SHEETS:
        yield f"The first {MAX_SHEETS} sheets are described."


def _column(place: str, before: int) -> int:
    """Return the number of a column; a cell without a place comes after the one before it."""
    found = _PLACE.fullmatch(place)
    if found is None:
        return before + 1
    number = 0
    for letter in found.group(1):
        number = number * _LETTERS + ord(letter) - ord("A") + 1
    return number


def _count(text: str | None) -> int:
    return int(text) if text and len(text) <= 9 and text.isascii() and text.isdigit() else 2**31


def _part(label: str, lines: list[str]) -> Part:
    return Part(Untrusted(label), Untrusted("\n".join(lines)))
