r"""BibTeX, as far as it names works: entries, braces, quotation marks, and a few escapes.

Macros are not expanded, commands not run: a DOI has no use for either.  Outside entries
everything is a comment.

SECURITY
    Reads files that somebody else wrote.  One pass without recursion: every character is
    looked at once, however braces nest.  An entry inside the braces of another is text, as
    BibTeX reads it.  If this module is wrong, a work is missed or another one is named; what
    may be asked is decided elsewhere.
"""

import re
from collections.abc import Iterator
from typing import Final

from threegate.host.bibliography.entries import MAX_DEPTH, Entry, Unreadable, shortened

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
    """An entry that is not what it should be; the next may be."""


class _Scanner:
    """A place in the text that only moves forward."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._line, self._counted = 1, 0

    def line_of(self, place: int) -> int:
        """Return the line of `place`; asked for in ascending order, counted once."""
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
        """Return the text up to `end` outside braces, and stand behind it."""
        start, depth = self.at, 0
        pattern = _BRACES if end == "}" else re.compile(rf"[{{}}{re.escape(end)}]")
        while True:
            found = pattern.search(self.text, self.at)
            if found is None:
                raise Unreadable("an entry that is never closed")
            self.at = found.end()
            if found[0] == end and depth == 0:
                return self.text[start : found.start()]
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if depth > MAX_DEPTH:
                raise Unreadable(f"braces more than {MAX_DEPTH} deep")
            depth = max(depth, 0)


def entries_of(text: str) -> Iterator[Entry]:
    """Yield the entries of a BibTeX file; raise `Unreadable` where nothing more can be read."""
    scanner = _Scanner(text)
    while True:
        found = _START.search(text, scanner.at)
        if found is None:
            return
        line = scanner.line_of(found.start())
        scanner.at = found.end()
        try:
            body = scanner.balanced(_ENDS[found[2]])
        except Unreadable as exc:
            raise Unreadable(str(exc), line) from exc
        if found[1].lower() not in _SKIPPED:
            yield _entry(body, line)


def _entry(body: str, line: int) -> Entry:
    scanner = _Scanner(body)
    scanner.take(_KEY)
    try:
        fields = dict(_fields(scanner))
    except (_Broken, Unreadable) as exc:
        return Entry(line, problem=str(exc))
    return Entry(line, _names(fields))


def _fields(scanner: _Scanner) -> Iterator[tuple[str, str]]:
    while True:
        scanner.take(_GAP)
        if not scanner.peek():
            return
        found = scanner.take(_FIELD)
        if found is None:
            raise _Broken("something that is no field")
        name = found[1].lower()
        value = _value(scanner)
        if name in _KEPT:
            yield name, shortened(_plain(value))
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


def _plain(value: str) -> str:
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
