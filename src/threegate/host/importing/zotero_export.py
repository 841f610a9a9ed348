"""A Zotero or Better BibTeX export with files: a BibTeX file and the folder of its files.

SECURITY
    Reads a file of a stranger with the bounded parser of reading lists.  A path in it is a claim: a
    file is taken only below the folder of the export, opened without following links.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from threegate.artifacts.ids import sha256_hex
from threegate.base import canonical
from threegate.base.errors import ArtifactRejected, UsageError
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.host.bibliography.formats import EntryUnreadable, bibtex_records, plain_value
from threegate.host.importing.selection import (
    MAX_FILE_BYTES,
    FoundFile,
    Root,
    read,
    root_of,
)
from threegate.host.importing.zotero import (
    NOT_A_LIBRARY,
    ZoteroEntry,
    ZoteroSelection,
    found_below,
    outside,
)

SUFFIX: Final = ".bib"
MAX_ENTRIES: Final = 100_000
# Fields of BibTeX by the names of Zotero, which the reader of its records knows.
_FIELDS: Final = {
    "abstract": "abstractNote",
    "booktitle": "bookTitle",
    "date": "date",
    "doi": "DOI",
    "isbn": "ISBN",
    "issn": "ISSN",
    "journal": "publicationTitle",
    "journaltitle": "publicationTitle",
    "pmcid": "PMCID",
    "pmid": "PMID",
    "publisher": "publisher",
    "title": "title",
    "url": "url",
    "year": "date",
}
_WANTED: Final = frozenset({*_FIELDS, "author", "editor", "annote", "file", "keywords", "note"})
_ATTACHMENTS: Final = re.compile(r"(?<!\\);")
_PARTS: Final = re.compile(r"(?<!\\):")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NAMES: Final = re.compile(r"\s+and\s+")


def is_export(path: Path) -> bool:
    """Tell whether a path names an export by its ending."""
    return path.suffix.lower() == SUFFIX


def select_export(path: Path) -> ZoteroSelection:
    """Return the entries of an export; raise `UsageError` for a missing file."""
    if not path.is_file():
        raise UsageError(f"{quote(str(path))} is not a file", code="TG-USE-002")
    place = root_of(path.parent)
    data = read(FoundFile(place, (path.name,), (0, 0, 0, 0, 0)), MAX_FILE_BYTES)
    # Another key than that of the folder: its files may be imported as files too.
    root = Root(place.path, sha256_hex(f"export\n{path.name}\n{place.key}".encode()))
    try:
        entries = list(_entries(root, path.name, Untrusted(data)))
    except (EntryUnreadable, UnicodeDecodeError) as exc:
        hint = "export the library again as BibTeX or Better BibTeX, with files"
        raise ArtifactRejected(
            f"it is not a BibTeX file: {exc}", code=NOT_A_LIBRARY, hint=hint
        ) from exc
    return ZoteroSelection(entries, (root,))


def _entries(root: Root, name: str, data: Untrusted[bytes]) -> Iterator[ZoteroEntry]:
    untrusted = data.open_for_validation().decode("utf-8-sig")
    for number, (kind, key, fields) in enumerate(bibtex_records(untrusted, _WANTED)):
        if number >= MAX_ENTRIES:
            raise EntryUnreadable(f"more than {MAX_ENTRIES} entries")
        called = key or f"entry {number + 1}"
        record = canonical.encode(_record(kind, key, fields))
        paths = list(_paths(fields.get("file", ""))) or [""]
        for further, path in enumerate(paths):
            parts = (name, called, str(further + 1)) if further else (name, called)
            location = FoundFile(root, parts, (0, 0, 0, 0, 0)).location
            yield _entry(root, location, record, path, is_further=further > 0)


def _entry(root: Root, location: str, record: bytes, path: str, *, is_further: bool) -> ZoteroEntry:
    try:
        file = _file(root, path) if path else None
    except ArtifactRejected as exc:
        return ZoteroEntry(root, location, record, None, missing=exc, is_further=is_further)
    return ZoteroEntry(root, location, record, file, is_further=is_further)


def _file(root: Root, path: str) -> FoundFile:
    """Return the file that an entry names, below the folder of the export."""
    named = PurePosixPath(path)
    if named.is_absolute():
        if not named.is_relative_to(root.path):
            raise outside("a file outside the folder of the export")
        named = named.relative_to(root.path)
    return found_below(root, named.parts)


def _paths(value: str) -> Iterator[str]:
    """Yield the paths in a field such as `Full text:files/12/a.pdf:application/pdf;…`."""
    for one in _ATTACHMENTS.split(value[:20_000]):
        parts = _PARTS.split(one)
        path = parts[1] if len(parts) >= 3 else parts[0]  # title, path, type
        spelled = _ESCAPED.sub(r"\1", path).strip()
        if spelled:
            yield spelled


def _record(kind: str, key: str, fields: dict[str, str]) -> dict[str, object]:
    """Return the entry in the form of `gates/fetch/sources/zotero.py`."""
    plain = {name: plain_value(value) for name, value in fields.items() if name != "file"}
    people = [
        [role, *_name(one)]
        for role in ("author", "editor")
        for one in _NAMES.split(plain.get(role, ""))[:500]
        if one.strip()
    ]
    return {
        "format": "zotero/1",
        "type": kind,
        "citation_key": key,
        "creators": people,
        "fields": {_FIELDS[name]: plain[name] for name in sorted(_FIELDS) if plain.get(name)},
        "tags": [one.strip() for one in plain.get("keywords", "").split(",") if one.strip()][:200],
        "collections": [],
        "notes": [plain[name] for name in ("annote", "note") if plain.get(name)],
        "annotations": [],
        "cut": False,
    }


def _name(text: str) -> tuple[str, str]:
    """Return first and last name of `Last, First` or `First Last`."""
    last, comma, first = text.partition(",")
    if comma:
        return first.strip(), last.strip()
    first, _, last = text.strip().rpartition(" ")
    return first, last
