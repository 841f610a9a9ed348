"""Crossref: one work from `/works/{doi}`, with its references; many from `/works?query=`.

A retraction stands in `updated-by` of the retracted work, often with `retraction-watch`
as its source, and in the title; `update-to` stands in notices and speaks of another work.

SECURITY
    Reads an answer of a foreign server.  See `fields` for what falls if this is wrong.
"""

from collections.abc import Sequence
from typing import Final

from threegate.gates.fetch.sources import dates
from threegate.gates.fetch.sources.answers import (
    JSON_TYPES,
    MAX_LISTED,
    Reader,
    Stop,
    json_document,
    objects_only,
    other_kind,
)
from threegate.gates.fetch.sources.fields import Fields, Record, joined
from threegate.gates.fetch.sources.metadata import (
    PartialDate,
)

SOURCE: Final = "crossref"
NOT_FOUND: Final = b"Resource not found."
# Deposit dates (`created`, `deposited`) say nothing about publication.
_DATES: Final = ("issued", "published", "published-online", "published-print", "posted")
_UPDATES: Final = {
    "retraction": "retracted",
    "partial_retraction": "retracted",
    "withdrawal": "retracted",
    "removal": "retracted",
    "expression_of_concern": "concern",
    "addendum": "corrected",
    "clarification": "corrected",
    "correction": "corrected",
    "corrigendum": "corrected",
    "erratum": "corrected",
}
_NEWER: Final = ("new_edition", "new_version")  # no doubt about the old one


def _find(document: object) -> Sequence[object] | Stop:
    if not isinstance(document, dict):
        return other_kind("no object")
    if "message-type" not in document:
        return [document] if "DOI" in document else other_kind("no work")
    if document.get("status") != "ok":
        return Stop("refused", "the source says it failed")
    kind, message = document["message-type"], document.get("message")
    if not isinstance(message, dict):
        return other_kind("no message")
    if kind == "work-list":
        return objects_only(message.get("items"))
    return [message] if kind == "work" else other_kind("neither a work nor a list of works")


def _read(item: object, record: Record) -> None:
    work = Fields(record, item)
    record.set_title(work.first("title"))
    record.set_container(work.first("container-title"))
    for author in work.objects("author"):
        _author(author, record)
    for key in _DATES:
        _date(work, key, record)
    record.add_identifier("doi", work.get("DOI"))
    for scheme in ("ISBN", "ISSN"):
        for value in work.items(scheme):
            record.add_identifier(scheme.lower(), value)
    record.add_abstract(None, work.get("abstract"))
    _licence(work, record)
    _links(work, record)
    for key in ("updated-by", "update-to"):
        for update in work.objects(key):
            _update(update, record, key)
    record.would_know = work.has("DOI") and not record.noted("updated-by")


def _author(author: Fields, record: Record) -> None:
    name = author.get("name") or author.get("literal")
    person = joined(author.get("given"), author.get("family"), author.get("suffix"))
    record.add_author(person or name, organisation=not person)


def _parts(holder: Fields) -> list[object] | None:
    parts = holder.first("date-parts")
    if not isinstance(parts, list) or parts in ([], [None]):
        return None
    return parts


def _date(work: Fields, key: str, record: Record) -> None:
    parts = _parts(work.inner(key))
    if parts is not None:
        record.set_published(dates.from_parts(parts))
    elif work.has(key):
        record.note("published", "empty")  # [[null]]


def _licence(work: Fields, record: Record) -> None:
    offered = list(work.objects("license"))
    # The version of record first: the others speak of manuscripts and of text mining.
    offered.sort(key=lambda licence: licence.word("content-version") != "vor")
    for licence in offered:
        record.set_licence(licence.get("URL"))


def _links(work: Fields, record: Record) -> None:
    record.add_link("landing", work.inner("resource").inner("primary").get("URL"))
    record.add_link("landing", work.get("URL"))
    for link in work.objects("link"):
        media_type = link.word("content-type")
        kind = {"application/pdf": "pdf", "text/xml": "xml", "application/xml": "xml"}
        record.add_link(kind.get(media_type, "full-text"), link.get("URL"))


def _updated(update: Fields) -> PartialDate | None:
    parts = _parts(update.inner("updated"))
    return None if parts is None else dates.from_parts(parts)[0]


def _update(update: Fields, record: Record, key: str) -> None:
    kind = update.word("type").replace("-", "_").replace(" ", "_")
    if kind in _NEWER:
        return
    record.add_notice(
        # What nobody has named yet is shown rather than dropped.
        _UPDATES.get(kind, "concern"),
        key,
        label=update.get("type"),
        said_by=update.get("source"),
        about=record.identifier("doi", update.get("DOI")),
        date=_updated(update),
        is_notice=key == "update-to",
    )


def _find_references(document: object) -> Sequence[object] | Stop:
    """Return what the one work in an answer cites, as its publisher deposited it."""
    found = _find(document)
    if isinstance(found, Stop):
        return found
    if len(found) != 1 or not isinstance(found[0], dict):
        return other_kind("a list of works instead of one")
    cited = found[0].get("reference")
    if cited is None:
        return Stop("not-found")
    # Cut, not refused: some reviews cite thousands.  A packet lists fewer and says so.
    return objects_only(cited[:MAX_LISTED] if isinstance(cited, list) else cited)


def _read_reference(item: object, record: Record) -> None:
    cited = Fields(record, item)
    titles = ("article-title", "volume-title", "series-title", "unstructured")
    record.set_title(next((cited.get(key) for key in titles if cited.get(key)), None))
    if cited.has("author"):
        record.add_author(cited.get("author"))
    record.set_container(cited.get("journal-title"))
    cited.date_text("year")
    record.add_identifier("doi", cited.get("DOI"))


READER: Final = Reader(SOURCE, JSON_TYPES, json_document, _find, _read, not_found=NOT_FOUND)
RELATED: Final = Reader(SOURCE, JSON_TYPES, json_document, _find_references, _read_reference)
