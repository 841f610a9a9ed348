"""JATS: the front matter of a full text from PMC or Europe PMC, in every version of the DTD.

SECURITY
    Reads an answer of a foreign server.  See `fields` for what falls if this is wrong.
"""

from collections.abc import Sequence
from typing import Final

from threegate.gates.fetch.sources import corrections, dates
from threegate.gates.fetch.sources.answers import XML_TYPES, Reader, Stop, other_kind, xml_document
from threegate.gates.fetch.sources.fields import Record, joined
from threegate.gates.fetch.sources.markup import plain_element
from threegate.gates.fetch.xml import Element

SOURCE: Final = "europepmc"
ROOTS: Final = ("article", "pmc-articleset")
_IDS: Final = {"doi": "doi", "pmid": "pmid", "pmc": "pmcid", "pmcid": "pmcid"}
_RELATED: Final = {
    "retraction-forward": ("retracted", False),
    "concern-forward": ("concern", False),
    "correction-forward": ("corrected", False),
    "retracted-article": ("retracted", True),
    "object-of-concern": ("concern", True),
    "corrected-article": ("corrected", True),
}
_DATE_ORDER: Final = ("epub", "pub", "electronic", "ppub", "print", "collection")


def find(root: Element) -> Sequence[Element] | Stop:
    """Return the articles in a document."""
    if root.name == "pmc-articleset":
        return list(root.children("article"))
    return [root] if root.name == "article" else other_kind("no article")


def _said(element: Element, *path: str) -> str | None:
    found = element.first(*path)
    return None if found is None else plain_element(found).text or None


def read(article: Element, record: Record) -> None:
    """Read the front matter of `article`."""
    journal = article.first("front", "journal-meta") or Element("journal-meta")
    meta = article.first("front", "article-meta") or Element("article-meta")
    record.set_title(_said(meta, "title-group", "article-title"))
    record.set_container(
        _said(journal, "journal-title-group", "journal-title") or _said(journal, "journal-title")
    )
    for issn in journal.children("issn"):
        record.add_identifier("issn", issn.text())
    for name in meta.children("article-id"):
        scheme = _IDS.get(name.attributes.get("pub-id-type", ""))
        if scheme is not None:
            record.add_identifier(scheme, name.text())
    for contributor in meta.every("contrib-group", "contrib"):
        if contributor.attributes.get("contrib-type", "author") == "author":
            _author(contributor, record)
    _dates(meta, record)
    for licence in meta.every("permissions", "license"):
        record.set_licence(licence.attributes.get("href") or plain_element(licence).text)
    for abstract in meta.children("abstract"):
        label = abstract.attributes.get("abstract-type")
        record.add_abstract(label, plain_element(abstract).text)
    _notices(article, meta, record)


def _author(contributor: Element, record: Record) -> None:
    # `name-alternatives` holds one name in several scripts.
    name = contributor.first("name") or contributor.first("name-alternatives", "name")
    person = _said(contributor, "string-name")
    if name is not None:
        given, family = _said(name, "given-names"), _said(name, "surname")
        full = joined(given, family, _said(name, "suffix"))
        person = full if isinstance(full, str) else person
    body = _said(contributor, "collab") or _said(contributor, "on-behalf-of")
    if person or body:  # else anonymous, or a name that stands elsewhere
        record.add_author(person or body, organisation=not person)


def _dates(meta: Element, record: Record) -> None:
    def rank(date: Element) -> int:
        kind = date.attributes.get("pub-type") or date.attributes.get("publication-format", "")
        return _DATE_ORDER.index(kind) if kind in _DATE_ORDER else len(_DATE_ORDER)

    for date in sorted(meta.children("pub-date"), key=rank):
        month, day = _said(date, "month"), _said(date, "day")
        record.set_published(
            dates.build(
                dates.number(_said(date, "year")),
                dates.month_number(month) if month else None,
                dates.number(day) if day else None,
            )
        )


def _notices(article: Element, meta: Element, record: Record) -> None:
    wording = article.attributes.get("article-type", "")
    said = corrections.of_type(wording)
    if said is not None:
        record.add_notice(said[0], "article-type", label=wording, is_notice=said[1])
    for related in meta.children("related-article"):
        kind = related.attributes.get("related-article-type", "")
        if kind in _RELATED:
            status, is_notice = _RELATED[kind]
            scheme = _IDS.get(related.attributes.get("ext-link-type", ""))
            name = related.attributes.get("href")
            about = record.identifier(scheme, name) if scheme else None
            record.add_notice(
                status, "related-article", label=kind, about=about, is_notice=is_notice
            )


READER: Final = Reader(SOURCE, XML_TYPES, xml_document, find, read)
