"""Europe PMC: works from `/search?query=DOI:"…"&resultType=core&format=json`.

SECURITY
    Reads an answer of a foreign server.  See `fields` for what falls if this is wrong.
"""

from collections.abc import Sequence
from typing import Final

from threegate.gates.fetch.sources import corrections, jats
from threegate.gates.fetch.sources.answers import (
    JSON_TYPES,
    Reader,
    Stop,
    json_document,
    objects_only,
    other_kind,
)
from threegate.gates.fetch.sources.fields import Fields, Record, joined

SOURCE: Final = "europepmc"
_NOTICE_KEYS: Final = ("pubTypeList", "pubType", "commentCorrectionList", "commentCorrection")


def _find(document: object) -> Sequence[object] | Stop:
    if not isinstance(document, dict):
        return other_kind("no object")
    if "errCode" in document or "errMsg" in document:
        return Stop("refused", "the source says it failed")
    listing = document.get("resultList")
    return objects_only(listing.get("result") if isinstance(listing, dict) else None)


def _read(item: object, record: Record) -> None:
    work = Fields(record, item)
    record.set_title(work.get("title"))
    for author in work.inner("authorList").objects("author"):
        person = joined(author.get("firstName"), author.get("lastName")) or author.get("fullName")
        record.add_author(person or author.get("collectiveName"), organisation=not person)
    work.date_text("firstPublicationDate")
    if record.published is None:
        work.date_text("pubYear")
    for scheme in ("doi", "pmid", "pmcid"):
        record.add_identifier(scheme, work.get(scheme))
    journal = work.inner("journalInfo").inner("journal")
    record.set_container(journal.get("title"))
    for key in ("issn", "essn"):
        record.add_identifier("issn", journal.get(key))
    record.set_licence(work.get("license"))
    record.add_abstract(None, work.get("abstractText"))
    for link in work.inner("fullTextUrlList").objects("fullTextUrl"):
        kind = {"pdf": "pdf", "html": "landing", "doi": "landing"}
        record.add_link(kind.get(link.word("documentStyle"), "full-text"), link.get("url"))
    _notices(work, record)


def _notices(work: Fields, record: Record) -> None:
    for wording in work.inner("pubTypeList").items("pubType"):
        said = corrections.of_type(wording) if isinstance(wording, str) else None
        if said is not None:
            record.add_notice(said[0], "pubType", label=wording, is_notice=said[1])
    for entry in work.inner("commentCorrectionList").objects("commentCorrection"):
        wording = entry.get("type")
        said = corrections.of_reference(wording) if isinstance(wording, str) else None
        if said is None:
            continue
        pmid = entry.word("source") == "med"
        record.add_notice(
            said[0],
            "commentCorrection",
            label=wording,
            said_by=entry.get("reference"),
            about=record.identifier("pmid", entry.get("id")) if pmid else None,
            is_notice=said[1],
        )
    # Only a `core` answer says it all.
    record.would_know = work.has("pubTypeList") and not record.noted(*_NOTICE_KEYS)


READER: Final = Reader(SOURCE, JSON_TYPES, json_document, _find, _read, others=(jats.READER,))
