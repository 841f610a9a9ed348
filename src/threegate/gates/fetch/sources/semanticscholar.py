"""Semantic Scholar: one paper from `/graph/v1/paper/{id}`, or its `/references` or `/citations`.

It knows of no retractions.

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
from threegate.gates.fetch.sources.fields import Fields, Record

SOURCE: Final = "semanticscholar"
_IDS: Final = {"DOI": "doi", "ArXiv": "arxiv", "PubMed": "pmid", "PubMedCentral": "pmcid"}


def _find(document: object) -> Sequence[object] | Stop:
    if not isinstance(document, dict):
        return other_kind("no object")
    if isinstance(document.get("data"), list):
        return objects_only(document["data"])
    if "error" in document or "message" in document:
        return Stop("refused", "the source says it failed")
    return [document] if "paperId" in document else other_kind("no paper")


def _find_related(document: object) -> Sequence[object] | Stop:
    """Return the papers on the other side of each citation."""
    if isinstance(document, dict) and "data" in document and document["data"] is None:
        return Stop("denied", "the publisher withholds the list")
    rows = _find(document)
    if isinstance(rows, Stop):
        return rows
    sides = ("citedPaper", "citingPaper")
    found = (row.get(side) for row in rows if isinstance(row, dict) for side in sides)
    return objects_only([paper for paper in found if paper is not None])


def _read(item: object, record: Record) -> None:
    paper = Fields(record, item)
    record.set_title(paper.get("title"))
    for author in paper.objects("authors"):
        record.add_author(author.get("name"))
    paper.date_text("publicationDate")
    if record.published is None:
        paper.date_text("year")
    record.add_identifier("semanticscholar", paper.get("paperId"))
    ids = paper.inner("externalIds")
    for key, scheme in _IDS.items():
        record.add_identifier(scheme, ids.get(key))
    record.set_container(paper.inner("journal").get("name") or paper.get("venue"))
    access = paper.inner("openAccessPdf")
    record.set_licence(access.get("license"))
    record.add_link("pdf", access.get("url"))
    record.add_link("landing", paper.get("url"))
    record.add_abstract(None, paper.get("abstract"))


READER: Final = Reader(SOURCE, JSON_TYPES, json_document, _find, _read)
RELATED: Final = Reader(SOURCE, JSON_TYPES, json_document, _find_related, _read)
