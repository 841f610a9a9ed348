"""Unpaywall: one work from `/v2/{doi}`; asked for open copies, it knows of no retractions.

SECURITY
    Reads an answer of a foreign server.  See `fields` for what falls if this is wrong.
"""

from collections.abc import Sequence
from typing import Final

from threegate.gates.fetch.sources.answers import (
    JSON_TYPES,
    Reader,
    Stop,
    json_document,
    objects_only,
    other_kind,
)
from threegate.gates.fetch.sources.fields import Fields, Record, joined

SOURCE: Final = "unpaywall"


def _find(document: object) -> Sequence[object] | Stop:
    if not isinstance(document, dict):
        return other_kind("no object")
    if document.get("error"):
        return Stop("refused", "the source says it failed")
    results = document.get("results")
    if isinstance(results, list):
        hits = (hit.get("response") if isinstance(hit, dict) else None for hit in results)
        return objects_only(list(hits))
    return [document] if "doi" in document else other_kind("no work")


def _read(item: object, record: Record) -> None:
    work = Fields(record, item)
    record.set_title(work.get("title"))
    for author in work.objects("z_authors"):
        person = joined(author.get("given"), author.get("family"))
        name = author.get("raw_author_name") or person
        record.add_author(name or author.get("name"), organisation=not name)
    work.date_text("published_date")
    if record.published is None:
        work.date_text("year")
    record.add_identifier("doi", work.get("doi"))
    issns = work.get("journal_issns")
    for issn in issns.split(",", 8)[:8] if isinstance(issns, str) else ():
        record.add_identifier("issn", issn)
    record.set_container(work.get("journal_name"))
    record.set_licence(work.inner("best_oa_location").get("license"))
    for location in (work.inner("best_oa_location"), *work.objects("oa_locations")):
        record.add_link("open-pdf", location.get("url_for_pdf"))
        record.add_link("open-page", location.get("url_for_landing_page"))


READER: Final = Reader(SOURCE, JSON_TYPES, json_document, _find, _read)
