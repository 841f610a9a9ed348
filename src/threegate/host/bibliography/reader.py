"""Reading lists: files in BibTeX, RIS, CSL-JSON, or with one reference per line.

Only identifying fields are read; an entry without any is reported with its line.

SECURITY
    Reads files that somebody else wrote.  Capped before they are decoded; every parser works in one
    pass.  If this module is wrong, the operator asks for another work than the list names; policy
    still decides what may be asked.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from threegate.artifacts.references import Reference, parse_reference
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.host.bibliography import formats as bibtex
from threegate.host.bibliography import formats as csl
from threegate.host.bibliography import formats as ris
from threegate.host.bibliography.formats import (
    MAX_ENTRIES,
    MAX_LIST_BYTES,
    NAMING,
    EntryUnreadable,
    ListEntry,
)

_BIBTEX: Final = re.compile(r"^[ \t]*@[ \t]*[A-Za-z]+[ \t\n]*[{(]", re.MULTILINE)
_RIS: Final = re.compile(r"^TY {1,2}- ", re.MULTILINE)
_SPACED: Final = re.compile(r"\A(doi|arxiv|pmid|pmcid)[ \t]*:[ \t]+", re.IGNORECASE)
_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")


@dataclass(frozen=True, slots=True)
class ListedReference:
    """One work of a list with all its identifiers, the best first."""

    line: int
    names: tuple[Reference, ...]

    @property
    def reference(self) -> Reference:
        return self.names[0]


@dataclass(frozen=True, slots=True)
class ListProblem:
    """A part of a list that was not used, in our words."""

    line: int
    message: str
    lost: bool = True  # the whole entry; otherwise only one of its identifiers


@dataclass(frozen=True, slots=True)
class ReadingList:
    """The works of a file, each once and in its order."""

    kind: str
    works: tuple[ListedReference, ...]
    problems: tuple[ListProblem, ...]
    repeated: int  # entries of works that are in the list already

    @property
    def references(self) -> tuple[Reference, ...]:
        return tuple(work.reference for work in self.works)


def read_list(data: Untrusted[bytes]) -> ReadingList:
    """Return the works in a file; raise `UnreadableList` if it is not a list."""
    untrusted = data.open_for_validation()
    if len(untrusted) > MAX_LIST_BYTES:
        raise EntryUnreadable(f"more than {MAX_LIST_BYTES} bytes")
    try:
        text = untrusted.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise EntryUnreadable("not UTF-8", untrusted.count(b"\n", 0, exc.start) + 1) from exc
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    kind = _kind(text)
    return _collected(kind, _READERS[kind](text))


def _kind(text: str) -> str:
    """Detect the format from the content, not the file name."""
    if text.lstrip(" \t\n")[:1] in ("[", "{"):
        return "CSL-JSON"
    if _RIS.search(text):
        return "RIS"
    return "BibTeX" if _BIBTEX.search(text) else "plain"


def _plain(text: str) -> Iterator[ListEntry]:
    for number, line in enumerate(text.split("\n"), 1):
        # A DOI may contain `#`, but not after white space.
        found = re.split(r"(?:^|[ \t])#", line[:5_000], maxsplit=1)[0].strip()
        if found:
            yield ListEntry(number, {"url": found})


_READERS: Final[dict[str, Callable[[str], Iterator[ListEntry]]]] = {
    "BibTeX": bibtex.bibtex_entries,
    "CSL-JSON": csl.csl_entries,
    "RIS": ris.ris_entries,
    "plain": _plain,
}


def _collected(kind: str, entries: Iterator[ListEntry]) -> ReadingList:
    works: dict[Reference, ListedReference] = {}
    problems: list[ListProblem] = []
    repeated = 0
    for count, entry in enumerate(entries, 1):
        if count > MAX_ENTRIES:
            raise EntryUnreadable(f"more than {MAX_ENTRIES} entries", entry.line)
        listed = _listed(entry, problems)
        if listed is None:
            continue
        repeated += listed.reference in works
        works.setdefault(listed.reference, listed)
    return ReadingList(kind, tuple(works.values()), tuple(problems), repeated)


def _listed(entry: ListEntry, problems: list[ListProblem]) -> ListedReference | None:
    if entry.problem:
        problems.append(ListProblem(entry.line, entry.problem))
        return None
    found: dict[Reference, None] = {}
    wrong: list[str] = []
    for scheme in NAMING:
        if scheme in entry.names:
            try:
                found[_read(scheme, entry.names[scheme])] = None
            except ValueError as exc:
                # An invalid link does not matter if there is a better identifier.
                if scheme != "url" or not found:
                    wrong.append(f"{quote(entry.names[scheme])}: {exc}")
    if not entry.names:
        wrong.append("an entry without DOI, arXiv id, PubMed id or URL")
    problems += [ListProblem(entry.line, message, lost=not found) for message in wrong]
    return ListedReference(entry.line, tuple(found)) if found else None


def _read(scheme: str, text: str) -> Reference:
    """Return the reference in a field, with or without its scheme."""
    text = _SPACED.sub(r"\1:", text)
    if scheme == "arxiv":
        text = text.partition(" [")[0]  # arXiv itself writes `1706.03762v5 [cs.CL]`
    elif scheme == "doi" and _ENCODED.search(text):
        text = unquote(text, errors="replace")  # copied from a link, where it is percent-encoded
    elif scheme == "pmcid" and text.isdecimal():
        text = f"PMC{text}"
    if scheme == "url" or ":" in text:
        try:
            return parse_reference(text)
        except ValueError:
            if scheme == "url":
                raise
    return parse_reference(f"{scheme}:{text}")
