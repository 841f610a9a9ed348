"""DataCite: one work from `/dois/{doi}`.

SECURITY
    Reads an answer of a foreign server.  See `fields` for what falls if this is wrong.
"""

from collections.abc import Sequence
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

SOURCE: Final = "datacite"
_RELATIONS: Final = {
    "isretractedby": "retracted",
    "iswithdrawnby": "retracted",
    "iscorrectedby": "corrected",
    "isobsoletedby": "corrected",
}
_RELATED: Final = {"DOI": "doi", "arXiv": "arxiv", "PMID": "pmid"}


def _find(document: object) -> Sequence[object] | Stop:
    if not isinstance(document, dict):
        return other_kind("no object")
    if "errors" in document:
        return Stop("refused", "the source says it failed")
    data = document.get("data")
    found = data if isinstance(data, list) else [data]
    works = [item.get("attributes") for item in found if isinstance(item, dict)]
    if len(works) != len(found) or not all(isinstance(work, dict) for work in works):
        return other_kind("no attributes of a work")
    return works


def _read(item: object, record: Record) -> None:
    work = Fields(record, item)
    titles = list(work.objects("titles"))
    titles.sort(key=lambda title: title.word("titleType") != "")  # the plain title first
    record.set_title(titles[0].get("title") if titles else None)
    for creator in work.objects("creators"):
        _creator(creator, record)
    _dates(work, record)
    record.add_identifier("doi", work.get("doi"))
    _container(work, record)
    for rights in work.objects("rightsList"):
        for key in ("rightsIdentifier", "rightsUri", "rights"):
            record.set_licence(rights.get(key))
    for description in work.objects("descriptions"):
        kind = description.get("descriptionType")
        label = None if kind == "Abstract" else kind
        record.add_abstract(label, description.get("description"))
    record.add_link("landing", work.get("url"))
    for url in work.items("contentUrl") if isinstance(work.get("contentUrl"), list) else ():
        record.add_link("full-text", url)
    for related in work.objects("relatedIdentifiers"):
        _relation(related, record)


def _creator(creator: Fields, record: Record) -> None:
    person = joined(creator.get("givenName"), creator.get("familyName"))
    organisation = creator.word("nameType") == "organizational"
    record.add_author((None if organisation else person) or creator.get("name"),
                      organisation=organisation)  # fmt: skip


def _dates(work: Fields, record: Record) -> None:
    for wanted in ("issued", "available", "withdrawn"):
        for entry in work.objects("dates"):
            if entry.word("dateType") != wanted:
                continue
            value = entry.get("date")
            # A range such as 2010/2012 began with its first date.
            read = dates.from_text(value.partition("/")[0]) if isinstance(value, str) else None
            if wanted == "withdrawn":
                record.add_notice("retracted", "dates", label="Withdrawn", date=read and read[0])
            elif read is not None:
                record.set_published(read)
    if record.published is None:
        work.date_text("publicationYear")


def _container(work: Fields, record: Record) -> None:
    container = work.inner("container")
    record.set_container(container.get("title"))
    if container.word("identifierType") == "issn":
        record.add_identifier("issn", container.get("identifier"))


def _relation(related: Fields, record: Record) -> None:
    relation = related.word("relationType")
    kind = related.get("relatedIdentifierType")
    scheme = _RELATED.get(kind) if isinstance(kind, str) else None
    if relation in _RELATIONS:
        record.add_notice(
            _RELATIONS[relation],
            "relatedIdentifiers",
            label=related.get("relationType"),
            about=record.identifier(scheme, related.get("relatedIdentifier")) if scheme else None,
        )
    elif relation == "isidenticalto" and scheme is not None:
        record.add_identifier(scheme, related.get("relatedIdentifier"))


READER: Final = Reader(SOURCE, JSON_TYPES, json_document, _find, _read)
