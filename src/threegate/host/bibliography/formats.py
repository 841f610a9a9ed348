"""Parsers of BibTeX, RIS and CSL-JSON that read only the fields that identify a work.

BibTeX macros are not expanded and commands not run: a DOI needs neither.  Text outside entries is a
comment.  An entry inside the braces of another is text, as BibTeX reads it.

SECURITY
    Reads files that somebody else wrote.  The size is bounded before decoding.  BibTeX and RIS are
    read in one pass without recursion, however braces nest.  JSON that nests too deep, repeats a
    key or is invalid is refused.  If this module is wrong, a work is missed or another one is
    named; policy still decides what may be asked.
"""

import json
import re
from collections.abc import Container, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from threegate.artifacts.references import parse_reference

MAX_LIST_BYTES: Final = 32 * 2**20  # 10,000 entries with their abstracts are 20 MiB
MAX_ENTRIES: Final = 20_000
MAX_FIELD_CHARS: Final = 4_096  # of an identifying field; no other is kept
MAX_DEPTH: Final = 100
MAX_CONTAINERS: Final = 2_000_000  # two bytes of JSON spell a list of a hundred in memory

# In order of preference; `arxiv` and `url` have several field names.
NAMING: Final = ("doi", "arxiv", "pmid", "pmcid", "openalex", "url")


class EntryUnreadable(ValueError):
    """A list, or the rest of it after a line, cannot be read; the message is ours."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One entry of a list: identifying fields by `NAMING`; foreign text."""

    line: int
    names: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""  # why it could not be read


def shortened(text: str) -> str:
    """Return a field cut to a length that no identifier exceeds."""
    return text if len(text) <= MAX_FIELD_CHARS else text[: MAX_FIELD_CHARS + 1]


# BibTeX, as far as it names works: entries, braces, quotation marks, and a few escapes.
#
# Macros are not expanded and commands are not run: a DOI needs neither. Everything outside entries
# is a comment.
#
# SECURITY: reads files that somebody else wrote. One pass without recursion: every character is
# read once at any depth of braces. An entry inside the braces of another is text, as BibTeX reads
# it. If this is wrong, a work is missed or another one is named; policy still decides what may be
# requested.

_START: Final = re.compile(r"@[ \t\n]*([A-Za-z]+)[ \t\n]*([{(])")
_KEY: Final = re.compile(r"[^,{}()\"=\n]{0,1000}")
_GAP: Final = re.compile(r"[ \t\n,]*")
_FIELD: Final = re.compile(r"([A-Za-z][A-Za-z0-9_:.+/-]{0,100})[ \t\n]*=[ \t\n]*")
_BARE: Final = re.compile(r"[A-Za-z0-9_:.+/-]{1,1000}")
_BRACES: Final = re.compile(r"[{}]")
_SPACE: Final = re.compile(r"[ \t\n]*")
_ENDS: Final = {"{": "}", "(": ")"}
_SKIPPED: Final = ("comment", "preamble", "string")
_KEPT: Final = frozenset(
    {"archiveprefix", "arxivid", "doi", "eprint", "eprinttype", "openalex", "pmcid", "pmid", "url"}
)
_COMMANDS: Final = (
    (re.compile(r"\\url[ \t\n]*(?=\{)"), ""),
    (re.compile(r"\\textless(?:\{\}|[ \t]|(?![A-Za-z]))|\$<\$"), "<"),
    (re.compile(r"\\textgreater(?:\{\}|[ \t]|(?![A-Za-z]))|\$>\$"), ">"),
    (re.compile(r"\\textunderscore(?:\{\}|[ \t]|(?![A-Za-z]))"), "_"),
    (re.compile(r"\\([_%&#$~])"), r"\1"),
)


class _Broken(Exception):
    """An entry is malformed; the next one may be fine."""


class _Scanner:
    """A position in the text that only moves forward."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._line, self._counted = 1, 0

    def line_of(self, place: int) -> int:
        """Return the line of `place`; calls come in ascending order, so lines are counted once."""
        self._line += self.text.count("\n", self._counted, place)
        self._counted = place
        return self._line

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def balanced(self, end: str) -> str:
        """Return the text up to `end` outside braces, and move behind it."""
        start, depth = self.at, 0
        pattern = _BRACES if end == "}" else re.compile(rf"[{{}}{re.escape(end)}]")
        while True:
            found = pattern.search(self.text, self.at)
            if found is None:
                raise EntryUnreadable("an entry that is never closed")
            self.at = found.end()
            if found[0] == end and depth == 0:
                return self.text[start : found.start()]
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if depth > MAX_DEPTH:
                raise EntryUnreadable(f"braces more than {MAX_DEPTH} deep")
            depth = max(depth, 0)


def bibtex_entries(text: str) -> Iterator[ListEntry]:
    """Yield the entries of a BibTeX file; raise `Unreadable` where nothing more can be read."""
    for line, _, body in _bodies(text):
        yield _entry(body, line)


def bibtex_records(text: str, wanted: Container[str]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield type, citation key and the wanted fields of each entry; a malformed one has no fields.

    Values are as they are written, braces and commands included.
    """
    for _, kind, body in _bodies(text):
        scanner = _Scanner(body)
        key = scanner.take(_KEY)
        try:
            fields = dict(_written_fields(scanner, wanted))
        except (_Broken, EntryUnreadable):
            fields = {}
        yield kind, "" if key is None else key[0].strip(), fields


def _bodies(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, type and body of each entry."""
    scanner = _Scanner(text)
    while True:
        found = _START.search(text, scanner.at)
        if found is None:
            return
        line = scanner.line_of(found.start())
        scanner.at = found.end()
        try:
            body = scanner.balanced(_ENDS[found[2]])
        except EntryUnreadable as exc:
            raise EntryUnreadable(str(exc), line) from exc
        kind = found[1].lower()
        if kind not in _SKIPPED:
            yield line, kind, body


def _entry(body: str, line: int) -> ListEntry:
    scanner = _Scanner(body)
    scanner.take(_KEY)
    try:
        written = _written_fields(scanner, _KEPT)
        fields = {name: shortened(plain_value(value)) for name, value in written}
    except (_Broken, EntryUnreadable) as exc:
        return ListEntry(line, problem=str(exc))
    return ListEntry(line, _names(fields))


def _written_fields(scanner: _Scanner, wanted: Container[str]) -> Iterator[tuple[str, str]]:
    while True:
        scanner.take(_GAP)
        if not scanner.peek():
            return
        found = scanner.take(_FIELD)
        if found is None:
            raise _Broken("something that is not a field")
        name = found[1].lower()
        value = _value(scanner)
        if name in wanted:
            yield name, value
        scanner.take(_SPACE)
        if scanner.peek() not in ("", ","):
            raise _Broken(f"no comma after field {name}")


def _value(scanner: _Scanner) -> str:
    parts = [_part(scanner)]
    scanner.take(_SPACE)
    while scanner.peek() == "#":
        scanner.at += 1
        scanner.take(_SPACE)
        parts.append(_part(scanner))
        scanner.take(_SPACE)
    return "".join(parts)


def _part(scanner: _Scanner) -> str:
    opening = scanner.peek()
    if opening in ("{", '"'):
        scanner.at += 1
        return scanner.balanced("}" if opening == "{" else '"')
    bare = scanner.take(_BARE)
    if bare is None:
        raise _Broken("a field without a value")
    return bare[0]


def plain_value(value: str) -> str:
    """Return a value without braces, with a few commands replaced."""
    value = value[:20_000]
    for pattern, plain in _COMMANDS:
        value = pattern.sub(plain, value)
    return value.replace("{", "").replace("}", "").strip()


def _names(fields: dict[str, str]) -> dict[str, str]:
    kind = (fields.get("archiveprefix") or fields.get("eprinttype") or "").lower()
    eprint = fields.get("eprint", "")
    kept = ("doi", "pmid", "pmcid", "openalex", "url")
    found: dict[str, str] = {name: fields[name] for name in kept if name in fields}
    if eprint and kind in ("arxiv", "pubmed", "pmid", "pmcid"):
        found.setdefault({"arxiv": "arxiv", "pubmed": "pmid"}.get(kind, kind), eprint)
    elif eprint.lower().startswith("arxiv:"):
        found["arxiv"] = eprint
    if "arxivid" in fields:
        found.setdefault("arxiv", fields["arxivid"])
    return found


# CSL-JSON, as far as it names works: a list of items with `DOI`, `PMID`, `PMCID`, `URL`.
#
# SECURITY: reads files that somebody else wrote. Bounded before it is decoded; nesting that is too
# deep, repeated keys and invalid JSON are refused.

_BLANK: Final = re.compile(r"[ \t\n\r]*")


def csl_entries(text: str) -> Iterator[ListEntry]:
    """Yield the items of a CSL-JSON file, or raise `Unreadable`."""
    if text.count("[") + text.count("{") > MAX_CONTAINERS:
        raise EntryUnreadable(f"more than {MAX_CONTAINERS} lists and objects")
    at = _skip(text, 0)
    if text[at : at + 1] == "{":
        value, end = _decode(text, at)
        yield _csl_entry(value, _lines(text, 0, at))
    else:
        end = yield from _items(text, at + 1)
    if _skip(text, end) < len(text):
        raise EntryUnreadable("not JSON: something after its end")


def _items(text: str, start: int) -> Generator[ListEntry, None, int]:
    """Yield the items of a list, and return the position after it."""
    line, counted, at = 1, 0, _skip(text, start)
    if text[at : at + 1] == "]":
        return at + 1
    while True:
        value, end = _decode(text, at)
        line += _lines(text, counted, at) - 1
        counted = at
        yield _csl_entry(value, line)
        at = _skip(text, end)
        mark = text[at : at + 1]
        if mark == "]":
            return at + 1
        if mark != ",":
            raise EntryUnreadable("not JSON: no comma or ] after an item", line)
        at = _skip(text, at + 1)


def _lines(text: str, start: int, end: int) -> int:
    return text.count("\n", start, end) + 1


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _decode(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as exc:
        raise EntryUnreadable(f"not JSON at column {exc.colno}", exc.lineno) from exc
    except RecursionError as exc:  # "[" * 100_000
        raise EntryUnreadable("nested too deep", _lines(text, 0, at)) from exc
    except EntryUnreadable as exc:
        raise EntryUnreadable(str(exc), _lines(text, 0, at)) from exc
    except ValueError as exc:  # an integer of more digits than Python reads
        raise EntryUnreadable("a number with too many digits", _lines(text, 0, at)) from exc


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise EntryUnreadable("a key twice in one object")
    return found


def _constant(token: str) -> Any:
    raise EntryUnreadable(f"{token} is not JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def _csl_entry(value: Any, line: int) -> ListEntry:
    if not isinstance(value, dict):
        return ListEntry(line, problem="an item that is not an object")
    names = {
        scheme: shortened(str(value[key]).strip())
        for key, scheme in (("DOI", "doi"), ("PMID", "pmid"), ("PMCID", "pmcid"), ("URL", "url"))
        if isinstance(value.get(key), str | int) and value[key] != ""
    }
    archive, place = value.get("archive"), value.get("archive_location")
    if isinstance(archive, str) and isinstance(place, str) and archive.lower() == "arxiv":
        names["arxiv"] = shortened(place.strip())
    number = value.get("number")
    if isinstance(number, str) and number.lower().startswith("arxiv:"):
        names.setdefault("arxiv", shortened(number.strip()))
    return ListEntry(line, names)


# RIS, as far as it names works: `TY` to `ER`, with `DO`, `UR` and the like between.
#
# SECURITY: reads files that somebody else wrote, line by line in one pass.

_LINE: Final = re.compile(r"([A-Z][A-Z0-9]) {1,2}- ?(.*)", re.DOTALL)
_LINKS: Final = ("UR", "L1", "L2", "LK")


def ris_entries(text: str) -> Iterator[ListEntry]:
    """Yield the entries of a RIS file."""
    start, names = 0, dict[str, str]()
    for number, line in enumerate(text.split("\n"), 1):
        found = _LINE.fullmatch(line) if len(line) < 100_000 else None
        if found is None:
            continue  # blank, or a continuation line: identifiers have none
        tag, value = found[1], shortened(found[2].strip())
        if tag == "TY":
            if start > 0:
                yield ListEntry(start, problem="no ER line before the next entry")
            start, names = number, {}
        elif not start:
            yield ListEntry(number, problem=f"{tag} outside an entry, which begins with TY")
            start = -1  # reported once
        elif tag == "ER":
            if start > 0:
                yield ListEntry(start, names)
            start = 0
        elif start > 0:
            _take(tag, value, names)
    if start > 0:
        yield ListEntry(start, problem="no ER line at its end")


def _take(tag: str, value: str, names: dict[str, str]) -> None:
    if tag == "DO":
        names.setdefault("doi", value)
    elif tag in _LINKS:
        # An entry may have several links; one to a registry is preferred.
        try:
            scheme = parse_reference(value).scheme
        except ValueError:
            scheme = "url"
        names.setdefault(scheme, value)
