"""Zotero: one item of the operator's library, as the sandbox `zotero-reader` wrote it.

SECURITY
    Reads a record that another sandbox made from a stranger's database.  See `fields` for what
    falls if this is wrong.  The library may name any identifier, so what it says joins no works.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from threegate.gates.fetch.sources import dates
from threegate.gates.fetch.sources.answers import (
    JSON_TYPES,
    Reader,
    Stop,
    json_document,
    other_kind,
)
from threegate.gates.fetch.sources.fields import Fields, Record, joined

SOURCE: Final = "zotero"
FORMAT: Final = "zotero/1"
MAX_PAGE: Final = 1_000_000
_TITLES: Final = ("title", "caseName", "nameOfAct", "subject")
_DATES: Final = ("date", "dateEnacted", "dateDecided", "issueDate", "filingDate")
_CONTAINERS: Final = (
    "publicationTitle",
    "bookTitle",
    "proceedingsTitle",
    "encyclopediaTitle",
    "dictionaryTitle",
    "websiteTitle",
    "blogTitle",
    "forumTitle",
    "programTitle",
    "repository",
    "publisher",
    "university",
    "institution",
)
# Roles of people who made a work, and not an edition or a translation of it.
_OTHERS: Final = frozenset({"bookAuthor", "contributor", "editor", "reviewedAuthor", "seriesEditor",
                            "translator", "commenter", "recipient"})  # fmt: skip
# A date as Zotero stores it: year, month and day, 00 where unknown, then the words of the user.
_STORED_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?: |\Z)")
_EXTRA: Final = re.compile(r"(?im)^[ \t]*(doi|pmid|pmcid|arxiv)[ \t]*:[ \t]*(\S{1,200})[ \t]*$")


def _find(document: object) -> Sequence[object] | Stop:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        return other_kind("no item of Zotero")
    return [document]


def _read(item: object, record: Record) -> None:
    work = Fields(record, item)
    fields = work.inner("fields")
    record.set_title(_first(fields, _TITLES))
    for _, first, last in _creators(work):
        record.add_author(joined(first, last), organisation=not first)
    _read_date(_first(fields, _DATES), record)
    record.set_container(_first(fields, _CONTAINERS))
    record.set_licence(fields.get("rights"))
    record.add_abstract("abstract", fields.get("abstractNote"))
    _read_identifiers(work, fields, record)
    record.add_link("landing", fields.get("url"))
    _read_remarks(work, record)
    if work.get("cut"):
        record.note("remarks", "cut")


def _first(fields: Fields, names: Sequence[str]) -> object:
    return next((fields.get(name) for name in names if fields.has(name)), None)


def _creators(work: Fields) -> list[list[object]]:
    """Return the authors, or else everybody who is named: role, first name, last name."""
    rows = [row for row in work.items("creators") if isinstance(row, list) and len(row) == 3]
    makers = [row for row in rows if not (isinstance(row[0], str) and row[0] in _OTHERS)]
    return makers or rows


def _read_date(value: object, record: Record) -> None:
    if not isinstance(value, str):
        return
    stored = _STORED_DATE.match(value)
    if stored is None:
        record.set_published(dates.from_text(value))
        return
    year, month, day = (int(part) or None for part in stored.groups())
    record.set_published(dates.build(year, month, day if month else None))


def _read_identifiers(work: Fields, fields: Fields, record: Record) -> None:
    record.add_identifier("citekey", work.get("citation_key"))
    record.add_identifier("doi", fields.get("DOI"))
    record.add_identifier("pmid", fields.get("PMID"))
    record.add_identifier("pmcid", fields.get("PMCID"))
    for scheme, key in (("isbn", "ISBN"), ("issn", "ISSN")):
        values = fields.get(key)
        for value in re.split(r"[,; ]+", values)[:8] if isinstance(values, str) else ():
            record.add_identifier(scheme, value)
    extra = fields.get("extra")
    for scheme, value in _EXTRA.findall(extra)[:16] if isinstance(extra, str) else ():
        record.add_identifier(scheme.lower(), value)
    archive = fields.get("archiveID")
    if isinstance(archive, str) and archive.lower().startswith("arxiv:"):
        record.add_identifier("arxiv", archive)


def _read_remarks(work: Fields, record: Record) -> None:
    record.add_remark("library entry", "\n".join(_entry(work)))
    for note in work.items("notes"):
        record.add_remark("note", note)
    for mark in work.objects("annotations"):
        label, page = mark.get("page_label"), mark.get("page")
        where = f", page {label}" if isinstance(label, str) and label else ""
        known = isinstance(page, int) and not isinstance(page, bool) and 1 <= page <= MAX_PAGE
        place = page if known and isinstance(page, int) else None
        record.add_remark(f"annotation{where}", mark.get("text"), place)
        record.add_remark(f"comment{where}", mark.get("comment"), place)


def _entry(work: Fields) -> Iterator[str]:
    """Yield how the library files the item."""
    yield f"type: {work.get('type')}"
    for name in ("collections", "tags"):
        words = [one for one in work.items(name) if isinstance(one, str)]
        if words:
            yield f"{name}: {'; '.join(words)}"


READER: Final = Reader(SOURCE, JSON_TYPES, json_document, _find, _read)
