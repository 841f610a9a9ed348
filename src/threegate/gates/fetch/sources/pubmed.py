"""PubMed: `efetch.fcgi?db=pubmed&retmode=xml`; full texts of PMC go to `jats`.

SECURITY
    Reads an answer of a foreign server.  See `fields` for what falls if this is wrong.
"""

from collections.abc import Sequence
from typing import Final

from threegate.gates.fetch.sources import corrections, dates, jats
from threegate.gates.fetch.sources.answers import XML_TYPES, Reader, Stop, other_kind, xml_document
from threegate.gates.fetch.sources.fields import Record, joined
from threegate.gates.fetch.sources.markup import plain_element
from threegate.gates.fetch.xml import Element

SOURCE: Final = "pubmed"
_IDS: Final = {"doi": "doi", "pubmed": "pmid", "pmc": "pmcid"}


def _find(root: Element) -> Sequence[Element] | Stop:
    if root.name == "PubmedArticleSet":
        return [item for item in root.children() if item.name.startswith("Pubmed")]
    if root.name == "eSearchResult" and _said(root, "Count") == "0":
        return Stop("not-found")
    return jats.find(root) if root.name in jats.ROOTS else other_kind("no set of articles")


def _said(element: Element | None, *path: str) -> str:
    found = None if element is None else element.first(*path)
    return "" if found is None else plain_element(found).text


def _read(item: Element, record: Record) -> None:
    if item.name == "article":
        jats.read(item, record)
        return
    citation = item.first("MedlineCitation") or Element("MedlineCitation")
    article = citation.first("Article") or Element("Article")
    title = _said(article, "ArticleTitle") or _said(article, "VernacularTitle")
    record.set_title(title or _said(item, "BookDocument", "ArticleTitle"))
    record.set_container(_said(article, "Journal", "Title") or None)
    for author in article.every("AuthorList", "Author"):
        person = joined(_said(author, "ForeName") or _said(author, "Initials"),
                        _said(author, "LastName"), _said(author, "Suffix"))  # fmt: skip
        record.add_author(person or _said(author, "CollectiveName"), organisation=not person)
    _dates(article, record)
    _identifiers(item, citation, article, record)
    for part in article.every("Abstract", "AbstractText"):
        record.add_abstract(part.attributes.get("Label"), plain_element(part).text)
    _notices(citation, article, record)


def _dates(article: Element, record: Record) -> None:
    places = [article.first("ArticleDate"), article.first("Journal", "JournalIssue", "PubDate")]
    for place in places:
        if place is None or not place.content:
            continue
        medline = _said(place, "MedlineDate")  # `1998 Dec-1999 Jan`
        if medline:
            record.set_published(dates.build(dates.number(medline[:4]), None, None))
            continue
        month, day = _said(place, "Month"), _said(place, "Day")
        record.set_published(
            dates.build(
                dates.number(_said(place, "Year")),
                dates.month_number(month) if month else None,
                dates.number(day) if day else None,
            )
        )


def _identifiers(item: Element, citation: Element, article: Element, record: Record) -> None:
    record.add_identifier("pmid", _said(citation, "PMID"))
    record.add_identifier("issn", _said(article, "Journal", "ISSN"))
    for place in article.children("ELocationID"):
        if place.attributes.get("EIdType") == "doi":
            record.add_identifier("doi", place.text())
    # Only its own list: `PubmedData` also holds the ids of all works it refers to.
    for name in item.every("PubmedData", "ArticleIdList", "ArticleId"):
        scheme = _IDS.get(name.attributes.get("IdType", ""))
        if scheme is not None:
            record.add_identifier(scheme, name.text())


def _notices(citation: Element, article: Element, record: Record) -> None:
    record.would_know = citation.first("PMID") is not None
    for kind in article.every("PublicationTypeList", "PublicationType"):
        said = corrections.of_type(kind.text())
        if said is not None:
            record.add_notice(said[0], "PublicationType", label=kind.text(), is_notice=said[1])
    for entry in citation.every("CommentsCorrectionsList", "CommentsCorrections"):
        wording = entry.attributes.get("RefType", "")
        said = corrections.of_reference(wording)
        if said is not None:
            record.add_notice(
                said[0],
                "CommentsCorrections",
                label=wording,
                said_by=_said(entry, "RefSource"),
                about=record.identifier("pmid", _said(entry, "PMID")),
                is_notice=said[1],
            )


READER: Final = Reader(SOURCE, XML_TYPES, xml_document, _find, _read)
