"""Dates as sources write them: parts, ISO text, names of months; as precise as given."""

import calendar
import re
from typing import Final

from threegate.gates.fetch.sources.metadata import PartialDate

_ISO: Final = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[T ].{0,40})?)?)?")
_MONTHS: Final = {name.lower(): number for number, name in enumerate(
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
)}  # fmt: skip
FIRST_YEAR: Final = 1000
LAST_YEAR: Final = 2999  # what a packet can spell


def number(value: object) -> int | None:
    """Return a whole number given as such or as a few digits; True is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 4 and value.isascii() and value.isdigit():
        return int(value)
    return None


def month_number(value: str) -> int | None:
    """Return the month meant by `7`, `07`, `Jul` or `July`."""
    return number(value) or _MONTHS.get(value[:3].lower())


def build(year: int | None, month: int | None, day: int | None) -> tuple[PartialDate | None, bool]:
    """Return the date as far as it is one, and whether all that was given was used."""
    if year is None or not FIRST_YEAR <= year <= LAST_YEAR:
        return None, False
    if month is None:
        return PartialDate(year), day is None
    if not 1 <= month <= 12:
        return PartialDate(year), False
    if day is None:
        return PartialDate(year, month), True
    if not 1 <= day <= calendar.monthrange(year, month)[1]:
        return PartialDate(year, month), False
    return PartialDate(year, month, day), True


def from_parts(parts: list[object]) -> tuple[PartialDate | None, bool]:
    """Read `[2020, 7, 1]`, with any number of parts from one to three."""
    if not 1 <= len(parts) <= 3:
        return None, False
    numbers = [number(part) for part in parts]
    known = numbers[: numbers.index(None)] if None in numbers else numbers
    padded = [*known, None, None, None]
    date, whole = build(padded[0], padded[1], padded[2])
    return date, whole and len(known) == len(parts)


def from_text(text: str) -> tuple[PartialDate | None, bool]:
    """Read `2020`, `2020-07`, `2020-07-01` and the same with a time behind."""
    match = _ISO.fullmatch(text.strip()) if len(text) <= 64 else None
    if match is None:
        return None, False
    year, month, day = (None if part is None else int(part) for part in match.groups())
    return build(year, month, day)
