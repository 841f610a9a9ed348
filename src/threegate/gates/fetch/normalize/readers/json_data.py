"""JSON and JSON lines that were imported: which paths there are, with their types and ranges.

A path names where values are: `features[].properties.name`.  Keys with other characters than
letters, digits, `_` and `-` are quoted.

SECURITY
    Reads foreign bytes through `strict_json`: a key that is there twice, NaN, and deep nesting are
    refusals.  The number of paths is bounded.
"""

import codecs
import io
import json
import re
from collections.abc import Iterator
from typing import Final

from threegate.artifacts import media_types
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers import columns
from threegate.gates.fetch.normalize.readers.columns import Column, counted, in_short
from threegate.gates.fetch.normalize.readers.json_text import parsed
from threegate.gates.fetch.normalize.readers.table import FIRST_CHARS, FIRST_ROWS, MAX_CELLS
from threegate.gates.fetch.normalize.text import Document, Part, Unread

MAX_VALUE_BYTES: Final = 32 * 2**20  # of a document that is one value: all of it is in memory
MAX_LINES_BYTES: Final = 64 * 2**20
MAX_BRACKETS: Final = 2_000_000
MAX_PATHS: Final = 200  # described
MAX_KEPT_PATHS: Final = 2_000  # told apart; the rest are one
MAX_RECORD_CHARS: Final = 2_000  # of one record that is shown
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ROOT: Final = "(the whole)"


class _Paths:
    """The paths of all values, in the order in which they are met."""

    def __init__(self) -> None:
        self.columns: dict[str, Column] = {}
        self.lists: dict[str, tuple[int, int]] = {}  # how many lists, how many items in all
        self.dropped = 0
        self._values = 0

    @property
    def is_full(self) -> bool:
        return self._values > MAX_CELLS

    def add(self, value: object, path: str = "") -> None:
        """Count a value and all inside it."""
        if isinstance(value, dict):
            for key, inner in value.items():
                self.add(inner, f"{path}.{_key(key)}" if path else _key(key))
        elif isinstance(value, list):
            lists, items = self.lists.get(path, (0, 0))
            if lists or len(self.lists) < MAX_KEPT_PATHS:
                self.lists[path] = lists + 1, items + len(value)
            for inner in value:
                self.add(inner, f"{path}[]")
        elif not self.is_full:
            self._count(value, path or _ROOT)

    def _count(self, value: object, path: str) -> None:
        self._values += 1
        column = self.columns.get(path)
        if column is None:
            if len(self.columns) >= MAX_KEPT_PATHS:
                self.dropped += 1
                return
            column = self.columns[path] = Column(path)
        column.add(*_valued(value))

    def parts(self) -> Iterator[Part]:
        """Yield the description of all paths."""
        lines = [
            f"{path or _ROOT}: {counted(lists, 'list')}, {counted(items, 'item')} in all"
            for path, (lists, items) in list(self.lists.items())[:MAX_PATHS]
        ]
        if lines:
            yield _part("lists", lines)
        lines = [
            f"{in_short(path, 200)}: {column.described()}"
            for path, column in list(self.columns.items())[:MAX_PATHS]
        ]
        if lines:
            yield _part("paths", lines)


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the description of JSON data, or raise `Unread`."""
    untrusted = raw.open_for_validation().removeprefix(codecs.BOM_UTF8)
    if answer.read_as == media_types.JSON_LINES:
        return _read_lines(untrusted)
    value = parsed(Untrusted(untrusted), most_bytes=MAX_VALUE_BYTES, most_brackets=MAX_BRACKETS)
    paths = _Paths()
    paths.add(value)
    if isinstance(value, list):
        size = f"A JSON file: a list of {counted(len(value), 'record')}."
        shown = _records(value)
    else:
        size, shown = f"A JSON file: {_root(value)}.", _text(value)
    return Document((_part("data", [size, *_remarks(paths)]), *paths.parts(), *shown))


def _read_lines(untrusted: bytes) -> Document:
    if len(untrusted) > MAX_LINES_BYTES:
        raise Unread("too-large", f"{len(untrusted)} bytes, limit {MAX_LINES_BYTES}")
    paths, records, first = _Paths(), 0, []
    for number, line in enumerate(io.BytesIO(untrusted), 1):
        if not line.strip():
            continue
        try:
            value = parsed(Untrusted(line))
        except Unread as exc:
            raise Unread(exc.reason, f"line {number}: {exc.detail}") from exc
        records += 1
        if records <= FIRST_ROWS:
            first.append(value)
        paths.add(value)
    size = f"A file of JSON lines: {counted(records, 'record')}."
    return Document((_part("data", [size, *_remarks(paths)]), *paths.parts(), *_records(first)))


def _remarks(paths: _Paths) -> Iterator[str]:
    if len(paths.columns) > MAX_PATHS:
        more = "more than " if paths.dropped else ""
        yield f"It has {more}{len(paths.columns):,} paths; the first {MAX_PATHS} are described."
    if paths.is_full:
        yield f"Values are counted up to the first {MAX_CELLS:,}."


def _records(values: list[object]) -> Iterator[Part]:
    left, lines = FIRST_CHARS, []
    for value in values[:FIRST_ROWS]:
        line = in_short(_beginning(value, MAX_RECORD_CHARS, None), MAX_RECORD_CHARS)
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    if lines:
        yield _part(f"records 1-{len(lines)}", lines)


def _text(value: object) -> Iterator[Part]:
    text = _beginning(value, FIRST_CHARS, 1)
    label = "text" if len(text) <= FIRST_CHARS else f"the first {FIRST_CHARS} characters"
    yield _part(label, [text[:FIRST_CHARS]])


def _beginning(value: object, most: int, indent: int | None) -> str:
    """Return JSON that is cut once it is longer than `most`."""
    pieces, length = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False, indent=indent).iterencode(value):
        pieces.append(piece)
        length += len(piece)
        if length > most:
            break
    return "".join(pieces)


def _root(value: object) -> str:
    return f"one object of {counted(len(value), 'key')}" if isinstance(value, dict) else "one value"


def _key(key: str) -> str:
    if _PLAIN_KEY.fullmatch(key):
        return key
    return json.dumps(in_short(key), ensure_ascii=False)


def _valued(value: object) -> tuple[str, str]:
    """Return a value as text, with its kind."""
    if value is None:
        return "null", columns.MISSING
    if isinstance(value, bool):
        return ("true" if value else "false"), columns.BOOLEAN
    if isinstance(value, int | float):
        text = repr(value)
        is_large = len(text) > columns.MAX_KIND_CHARS
        kind = columns.INTEGER if isinstance(value, int) else columns.NUMBER
        return text, columns.TEXT if is_large else kind
    assert isinstance(value, str), "JSON has no other values"
    is_date = columns.kind_of(value) == columns.DATE
    return value, columns.DATE if is_date else columns.TEXT


def _part(label: str, lines: list[str]) -> Part:
    return Part(Untrusted(label), Untrusted("\n".join(lines)))
