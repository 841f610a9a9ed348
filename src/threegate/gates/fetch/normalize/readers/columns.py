"""What the values of one column have in common: type, counts, range, frequent values.

Nothing is guessed from a single value.  A comma that may be decimal or may group digits is
decided by the other values of the column; if they do not decide it, no range is stated.

SECURITY
    Counts foreign values in bounded memory and in one step each, however long a value is.
"""

import re
from typing import Final

MAX_KIND_CHARS: Final = 64  # a longer value is text
MAX_DISTINCT: Final = 1_000  # values that are told apart
MAX_FREQUENT: Final = 12  # a column with more of them is not a category
MAX_SHOWN_CHARS: Final = 80  # of one name or value

INTEGER, NUMBER, COMMA, GROUPED = "integer", "number", "comma", "grouped"
BOOLEAN, DATE, MISSING, TEXT = "boolean", "date", "missing", "text"

_WHOLE: Final = r"(?:0|[1-9]\d{0,17})"  # with a zero in front it is a code, not a number
_EXPONENT: Final = r"[eE][+-]?\d{1,3}"
_VALUE: Final = re.compile(
    rf"(?P<integer>[+-]?{_WHOLE})"
    rf"|(?P<number>[+-]?(?:{_WHOLE}\.\d{{0,30}}|\.\d{{1,30}})(?:{_EXPONENT})?"
    rf"|[+-]?{_WHOLE}{_EXPONENT}|[+-]?[1-9]\d{{0,2}}(?:,\d{{3}}){{1,5}}\.\d{{1,30}})"
    r"|(?P<grouped>[+-]?[1-9]\d{0,2}(?:,\d{3}){1,5})"
    rf"|(?P<comma>[+-]?(?:{_WHOLE}|[1-9]\d{{0,2}}(?:\.\d{{3}}){{1,5}}),\d{{1,30}})"
    r"|(?P<date>\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
    r"(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?)"
    r"|(?P<boolean>(?i:true|false))"
    r"|(?P<missing>(?i:na|n/a|\#n/a|nan|null|none)|-|\.|\#(?:DIV/0|VALUE|REF|NUM|NULL)!|\#NAME\?)",
    re.ASCII,
)
_WORDS: Final = {
    INTEGER: "whole number",
    NUMBER: "number",
    COMMA: "number with a decimal comma",
    GROUPED: "number with commas that are decimal or group digits (not decided)",
    BOOLEAN: "true or false",
    DATE: "date",
    TEXT: "text",
}
# Kinds that may meet in one column, and the kind that the column then is.
_TOGETHER: Final = (
    (frozenset({INTEGER, NUMBER}), NUMBER),
    (frozenset({INTEGER, COMMA}), COMMA),
    (frozenset({INTEGER, COMMA, GROUPED}), COMMA),
    (frozenset({COMMA, GROUPED}), COMMA),
    (frozenset({INTEGER, GROUPED}), GROUPED),
    (frozenset({NUMBER, GROUPED}), NUMBER),
    (frozenset({INTEGER, NUMBER, GROUPED}), NUMBER),
)
_THOUSANDS: Final = "thousands"  # the values of GROUPED if their commas are not decimal


def kind_of(text: str) -> str:
    """Return the kind of one value that is not empty."""
    found = _VALUE.fullmatch(text) if len(text) <= MAX_KIND_CHARS else None
    return found.lastgroup or TEXT if found is not None else TEXT


def in_short(text: str, most: int = MAX_SHOWN_CHARS) -> str:
    """Return a value on one line, cut."""
    line = " ".join(text[: 4 * most].split())
    return line if len(text) <= 4 * most and len(line) <= most else f"{line[: most - 1]}…"


def counted(number: int, thing: str) -> str:
    """Return a number with its noun, such as `1 row` and `2,000 rows`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


class Column:
    """The values of one column, counted as they come."""

    __slots__ = ("_distinct", "_kinds", "_longest", "_ranges", "missing", "name", "values")

    def __init__(self, name: str) -> None:
        self.name = name
        self.values = self.missing = 0
        self._kinds: dict[str, int] = {}
        self._ranges: dict[str, tuple[float | str, str, float | str, str]] = {}
        self._distinct: dict[str, int] | None = {}
        self._longest = 0

    def add(self, text: str, kind: str | None = None) -> None:
        """Count a value that is not empty; `kind` is given where the format states it."""
        kind = kind or kind_of(text)
        if kind == MISSING:
            self.missing += 1
            return
        self.values += 1
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        if kind == TEXT:
            self._longest = max(self._longest, len(text))
        elif kind == DATE:
            self._widen(kind, text, text)
        elif kind != BOOLEAN:
            self._widen(kind, _number(kind, text), text)
            if kind == GROUPED:
                self._widen(_THOUSANDS, _number(NUMBER, text), text)
        self._tell_apart(text)

    def described(self, rows: int | None = None) -> str:
        """Return one line; cells of `rows` without a value are empty."""
        said = [self._type(), counted(self.values, "value")]
        if rows is not None:
            said.append(f"{max(0, rows - self.values - self.missing):,} empty")
        if self.missing:
            said.append(f"{self.missing:,} marked as missing")
        return "; ".join([*said, *self._extent(), *self._frequent()])

    def _widen(self, kind: str, value: float | str, text: str) -> None:
        low, low_text, high, high_text = self._ranges.get(kind, (value, text, value, text))
        if value < low:  # type: ignore[operator]  # of one kind, all are numbers or all are texts
            low, low_text = value, text
        if value > high:  # type: ignore[operator]
            high, high_text = value, text
        self._ranges[kind] = (low, low_text, high, high_text)

    def _tell_apart(self, text: str) -> None:
        if self._distinct is None:
            return
        if len(text) > MAX_KIND_CHARS or (
            text not in self._distinct and len(self._distinct) >= MAX_DISTINCT
        ):
            self._distinct = None
            return
        self._distinct[text] = self._distinct.get(text, 0) + 1

    def _kind(self) -> str | None:
        """Return the one kind of all values; None if there is none."""
        kinds = frozenset(self._kinds)
        if len(kinds) == 1:
            return next(iter(kinds))
        return next((kind for together, kind in _TOGETHER if kinds == together), None)

    def _type(self) -> str:
        if not self._kinds:
            return "empty"
        kind = self._kind()
        if kind is not None:
            return _WORDS[kind]
        order = sorted(self._kinds.items(), key=lambda item: (-item[1], item[0]))
        return "mixed: " + ", ".join(f"{count:,} {_WORDS[kind]}" for kind, count in order)

    def _extent(self) -> list[str]:
        kind = self._kind()
        if kind == TEXT:
            return [f"at most {counted(self._longest, 'character')}"]
        if kind in (None, BOOLEAN, GROUPED):
            return []
        other = GROUPED if kind == NUMBER else _THOUSANDS
        found = [extent for name, extent in self._ranges.items() if name != other]
        low = min(found, key=lambda extent: extent[0])[1]
        high = max(found, key=lambda extent: extent[2])[3]
        return [f"from {low} to {high}"]

    def _frequent(self) -> list[str]:
        if self._distinct is None:
            return [f"more than {MAX_DISTINCT:,} distinct"] if self._kind() != TEXT else []
        said = [f"{len(self._distinct):,} distinct"] if self._distinct else []
        if self._kind() in (TEXT, BOOLEAN) and len(self._distinct) <= MAX_FREQUENT:
            order = sorted(self._distinct.items(), key=lambda item: (-item[1], item[0]))
            said.append(
                ", ".join(f"{in_short(text) or 'no text'} ({count:,})" for text, count in order)
            )
        return said


def _number(kind: str, text: str) -> float:
    if kind in (COMMA, GROUPED):
        text = text.replace(".", "").replace(",", ".")
    return float(text.replace(",", ""))
