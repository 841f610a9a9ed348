"""Dates in a workbook: numbers whose cell format is one of a date.

SECURITY
    Reads the formats of a hostile workbook as XML events; a format is only searched for letters.
"""

import re
from datetime import datetime, timedelta
from typing import Final

from threegate.gates.fetch.normalize.readers.opc import OfficeEvents

LAST_DAY: Final = 2_958_465  # 9999-12-31
MAX_FORMATS: Final = 100_000
_BUILT_IN: Final = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_ASIDE: Final = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')  # quoted text, colours and conditions
_LETTERS: Final = re.compile(r"[ymdhs]", re.IGNORECASE)
_FEW: Final = 200  # characters of a format that are looked at
_DAY_SECONDS: Final = 86_400


class DateFormats(OfficeEvents):
    """Takes the styles of a workbook and knows which of them are dates."""

    def __init__(self, *, since_1904: bool = False) -> None:
        super().__init__()
        self.since_1904 = since_1904
        self._own: dict[str, bool] = {}
        self._styles: list[bool] = []
        self._in_cells = False

    def opened(self, name: str, _namespace: str, attributes: dict[str, str]) -> None:
        if name == "cellXfs":
            self._in_cells = True
        elif name == "numFmt" and len(self._own) < MAX_FORMATS:
            code = _ASIDE.sub("", attributes.get("formatCode", "")[:_FEW])
            self._own[attributes.get("numFmtId", "")] = _LETTERS.search(code) is not None
        elif name == "xf" and self._in_cells and len(self._styles) < MAX_FORMATS:
            number = attributes.get("numFmtId", "")
            is_built_in = number.isascii() and number.isdigit() and int(number[:9]) in _BUILT_IN
            self._styles.append(self._own.get(number, is_built_in))

    def closed(self, name: str) -> None:
        self._in_cells = self._in_cells and name != "cellXfs"

    def is_date(self, style: str) -> bool:
        """Tell whether cells of this style are dates."""
        if not (style.isascii() and style.isdigit()):
            return False
        place = int(style[:9])
        return place < len(self._styles) and self._styles[place]


def shown_date(text: str, *, since_1904: bool) -> str:
    """Return the number of a day as a date, or as it is if it is not one."""
    try:
        days = float(text)
    except ValueError:
        return text
    if not 0 <= days <= LAST_DAY:
        return text
    seconds = round(days % 1 * _DAY_SECONDS)
    if days < 1:
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    # Day 60 of the calendar from 1900 is a 29 February that never was.
    first = datetime(1904, 1, 1) if since_1904 else datetime(1899, 12, 30 + (days < 60))  # noqa: DTZ001
    try:
        found = first + timedelta(days=int(days), seconds=seconds)
    except OverflowError:
        return text
    return found.isoformat(sep=" ") if seconds else found.date().isoformat()
