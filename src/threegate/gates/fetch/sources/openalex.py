"""OpenAlex: one work from `/works/doi:{doi}`, many from `/works?`; abstracts are inverted indexes.

SECURITY
    Reads an answer of a foreign server.  The index is a small language for large texts:
    a word of a megabyte at a thousand places, a place far beyond all others.  Words are
    sorted by place, never stored at it, and the text is cut while it is put together.
"""

from collections.abc import Iterator, Sequence
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
from threegate.gates.fetch.sources.limits import MAX_INVERTED_WORDS, MAX_MARKED_CHARS

SOURCE: Final = "openalex"


def _find(document: object) -> Sequence[object] | Stop:
    if not isinstance(document, dict):
        return other_kind("no object")
    if isinstance(document.get("results"), list):
        return objects_only(document["results"])
    if "error" in document:
        return Stop("refused", "the source says it failed")
    name = document.get("id")
    known = isinstance(name, str) and name.startswith("https://openalex.org/W")
    return [document] if known or "doi" in document else other_kind("no work")


def _read(item: object, record: Record) -> None:
    work = Fields(record, item)
    record.set_title(work.get("title") or work.get("display_name"))
    for authorship in work.objects("authorships"):
        name = authorship.inner("author").get("display_name")
        record.add_author(name or authorship.get("raw_author_name"))
    work.date_text("publication_date")
    if record.published is None:
        work.date_text("publication_year")
    _identifiers(work, record)
    place = work.inner("primary_location")
    record.set_container(place.inner("source").get("display_name"))
    for issn in place.inner("source").items("issn"):
        record.add_identifier("issn", issn)
    record.set_licence(place.get("license"))
    record.set_licence(work.inner("best_oa_location").get("license"))
    _links(work, record)
    record.add_abstract(None, _abstract(work, record))
    _retraction(work, record)


def _links(work: Fields, record: Record) -> None:
    for location in (work.inner("best_oa_location"), *work.objects("locations")):
        is_open = location.get("is_oa") is True
        record.add_link("open-pdf" if is_open else "pdf", location.get("pdf_url"))
        record.add_link("open-page" if is_open else "landing", location.get("landing_page_url"))
    record.add_link("full-text", work.inner("open_access").get("oa_url"))


def _identifiers(work: Fields, record: Record) -> None:
    ids = work.inner("ids")
    record.add_identifier("openalex", work.get("id") or ids.get("openalex"))
    record.add_identifier("doi", work.get("doi") or ids.get("doi"))
    for scheme in ("pmid", "pmcid"):
        record.add_identifier(scheme, ids.get(scheme))


def _retraction(work: Fields, record: Record) -> None:
    retracted = work.get("is_retracted")
    if retracted is True:
        record.add_notice("retracted", "is_retracted")
    record.would_know = retracted is False
    if retracted not in (True, False, None):
        record.note("retraction", "type")


def _abstract(work: Fields, record: Record) -> str | None:
    """Return the text an inverted index stands for, as far as it is short and in order."""
    index = work.get("abstract_inverted_index")
    if not isinstance(index, dict):
        if index is not None:
            record.note("abstract", "type")
        return None
    placed = sorted(_places(index, record))
    if [place for place, _ in placed] != list(range(len(placed))):
        record.note("abstract", "gaps")
    words: list[str] = []
    length = 0
    for _, word in placed:
        length += len(word) + 1
        if length > MAX_MARKED_CHARS:
            record.note("abstract", "cut")
            break
        words.append(word)
    return " ".join(words)


def _places(index: dict[str, object], record: Record) -> Iterator[tuple[int, str]]:
    count = 0
    for word, places in index.items():
        for place in places if isinstance(places, list) else (None,):
            if not isinstance(place, int) or isinstance(place, bool) or place < 0:
                record.note("abstract", "type")
                continue
            count += 1
            if count > MAX_INVERTED_WORDS:
                record.note("abstract", "cut")
                return
            yield place, word


READER: Final = Reader(SOURCE, JSON_TYPES, json_document, _find, _read)
RELATED: Final = READER
