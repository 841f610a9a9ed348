"""DataCite, OpenAlex, Semantic Scholar, Unpaywall, Europe PMC and registration agencies."""

from typing import Any

import pytest

from tests.support.normalization import JSON, names, problems, raw, shown, work
from threegate.gates.fetch.sources import (
    datacite,
    europepmc,
    openalex,
    semanticscholar,
    unpaywall,
)
from threegate.gates.fetch.sources.metadata import Metadata, NotFound, PartialDate, Unreadable

DOI = "10.5555/tg.1"


def ask_datacite(**fields: Any) -> Metadata:
    attributes = {"doi": DOI, "titles": [{"title": "On gates"}], **fields}
    answer = raw({"data": {"id": DOI, "attributes": attributes}})
    return work(datacite.READER.one(answer, status=200, media_type="application/vnd.api+json"))


def test_datacite_fields() -> None:
    found = ask_datacite(
        titles=[{"title": "Über Tore", "titleType": "TranslatedTitle"}, {"title": "On gates"}],
        creators=[
            {"name": "Gate, Ada", "givenName": "Ada", "familyName": "Gate"},
            {"name": "Gate Group", "nameType": "Organizational"},
        ],
        dates=[
            {"date": "2019", "dateType": "Available"},
            {"date": "2018-05", "dateType": "Issued"},
        ],
        rightsList=[{"rights": "Free", "rightsIdentifier": "cc-by-4.0"}],
        descriptions=[{"description": "<p>See.</p>", "descriptionType": "Abstract"}],
        container={"title": "Gates", "identifier": "1234-5678", "identifierType": "ISSN"},
        url="https://d.example/1",
        relatedIdentifiers=[
            {"relationType": "IsIdenticalTo", "relatedIdentifierType": "DOI",
             "relatedIdentifier": "10.5555/TG.1.V1"},
            {"relationType": "Cites", "relatedIdentifierType": "DOI",
             "relatedIdentifier": "10.5555/other"},
        ],
    )  # fmt: skip
    assert shown(found.title) == "On gates"
    assert [(shown(a.name), a.organisation) for a in found.authors] == [
        ("Ada Gate", False),
        ("Gate Group", True),
    ]
    assert found.published == PartialDate(2018, 5)
    assert shown(found.licence) == "cc-by-4.0"
    assert names(found) == [("doi", DOI), ("doi", "10.5555/tg.1.v1"), ("issn", "1234-5678")]
    assert shown(found.container) == "Gates"
    assert [shown(part.label) for part in found.abstracts] == ["abstract"]


def test_datacite_silence_is_not_none() -> None:
    assert ask_datacite().retraction.status == "unknown"


@pytest.mark.parametrize(
    ("relation", "status"),
    [("IsRetractedBy", "retracted"), ("IsObsoletedBy", "corrected"), ("IsNewVersionOf", "unknown")],
)
def test_datacite_relation(relation: str, status: str) -> None:
    related = {"relationType": relation, "relatedIdentifierType": "DOI", "relatedIdentifier": DOI}
    assert ask_datacite(relatedIdentifiers=[related]).retraction.status == status


def test_datacite_withdrawn() -> None:
    found = ask_datacite(dates=[{"date": "2020-01-02", "dateType": "Withdrawn"}])
    assert found.retraction.status == "retracted"
    assert found.published is None


def test_datacite_abstract_that_is_an_object() -> None:
    found = ask_datacite(descriptions=[{"description": {"a": "b"}}, "text", None])
    assert found.abstracts == ()
    assert {("abstract", "type"), ("descriptions", "type")} <= problems(found)


def ask_openalex(**fields: Any) -> Metadata:
    answer = {"id": "https://openalex.org/W1", "doi": f"https://doi.org/{DOI}", **fields}
    return work(openalex.READER.one(raw(answer), status=200, media_type=JSON))


def text_of(index: object) -> tuple[str | None, set[tuple[str, str]]]:
    found = ask_openalex(title="t", abstract_inverted_index=index)
    return (shown(found.abstracts[0].text) if found.abstracts else None), problems(found)


def test_openalex_fields() -> None:
    found = ask_openalex(
        display_name="On gates",
        publication_date="2021-03-04",
        authorships=[{"author": {"display_name": "Ada Gate"}}, {"raw_author_name": "B"}],
        ids={"pmid": "https://pubmed.ncbi.nlm.nih.gov/77", "mag": 1},
        primary_location={"license": "cc-by", "source": {"display_name": "G", "issn": None}},
        is_retracted=False,
    )
    assert shown(found.title) == "On gates"
    assert [shown(author.name) for author in found.authors] == ["Ada Gate", "B"]
    assert names(found) == [("doi", DOI), ("openalex", "W1"), ("pmid", "77")]
    assert (shown(found.licence), shown(found.container)) == ("cc-by", "G")
    assert found.retraction.status == "none"


def test_openalex_open_copies_are_told_from_other_places() -> None:
    def place(name: str, is_open: object) -> dict[str, Any]:
        pdf = f"https://{name}.example/a.pdf"
        return {"is_oa": is_open, "pdf_url": pdf, "landing_page_url": f"https://{name}.example/"}

    found = ask_openalex(
        best_oa_location=place("best", True),
        locations=[place("closed", False), place("odd", "true"), place("open", True)],
        open_access={"is_oa": True, "oa_url": "https://best.example/a.pdf"},
    )
    kinds = {shown(link.url): link.kind for link in found.links if link.kind != "full-text"}
    assert list(kinds.items()) == [
        ("https://best.example/a.pdf", "open-pdf"),
        ("https://best.example/", "open-page"),
        ("https://closed.example/a.pdf", "pdf"),
        ("https://closed.example/", "landing"),
        ("https://odd.example/a.pdf", "pdf"),
        ("https://odd.example/", "landing"),
        ("https://open.example/a.pdf", "open-pdf"),
        ("https://open.example/", "open-page"),
    ]


@pytest.mark.parametrize(
    ("said", "status"),
    [(True, "retracted"), (False, "none"), (None, "unknown"), ("no", "unknown"), (0, "unknown")],
)
def test_openalex_retraction(said: object, status: str) -> None:
    assert ask_openalex(is_retracted=said).retraction.status == status


def test_openalex_abstract_is_put_together() -> None:
    assert text_of({"gates": [1, 3], "Three": [0], "are": [2]}) == ("Three gates are gates", set())


@pytest.mark.parametrize(
    ("index", "text", "problem"),
    [
        ({"a": [0], "b": [10**9]}, "a b", "gaps"),
        ({"a": [0], "b": [10**300]}, "a b", "gaps"),
        ({"a": [0], "b": [0]}, "a b", "gaps"),
        ({"a": [-1, True, "0", None, 1.5], "b": [0]}, "b", "type"),
        ({"a": "0"}, None, "type"),
        ([1], None, "type"),
        ({"a": [0, [1]]}, "a", "type"),
    ],
)
def test_openalex_hostile_index(index: object, text: str | None, problem: str) -> None:
    assert text_of(index) == (text, {("abstract", problem)})


def test_openalex_long_word_at_many_places_is_cut() -> None:
    text, found = text_of({"x" * 50_000: list(range(20_000))})
    assert text is not None
    assert len(text) <= 200_000
    assert ("abstract", "cut") in found


def test_openalex_many_places_are_cut() -> None:
    text, found = text_of({"x": list(range(100_000))})
    assert text is not None
    assert text.count("x") == 20_000
    assert ("abstract", "cut") in found


def test_openalex_html_page_for_an_unknown_work() -> None:
    page = raw(b"<!doctype html><title>404 Not Found</title>")
    found = openalex.READER.one(page, status=404, media_type="text/html; charset=utf-8")
    assert found == NotFound("openalex")
    found = openalex.READER.one(page, status=200, media_type="text/html; charset=utf-8")
    assert isinstance(found, Unreadable)
    assert found.reason == "type"


def test_semantic_scholar_fields() -> None:
    paper = {
        "paperId": "0" * 40,
        "externalIds": {"DOI": DOI, "ArXiv": "2101.00001", "PubMed": "7", "CorpusId": 8},
        "title": "On gates",
        "year": 2021,
        "authors": [{"authorId": None, "name": "Ada Gate"}],
        "openAccessPdf": {"url": "", "license": None},
        "journal": None,
        "venue": "Gates",
        "abstract": "See.",
    }
    found = work(semanticscholar.READER.one(raw(paper), status=200, media_type=JSON))
    assert names(found) == [
        ("arxiv", "2101.00001"),
        ("doi", DOI),
        ("pmid", "7"),
        ("semanticscholar", "0" * 40),
    ]
    assert found.published == PartialDate(2021)
    assert found.retraction.status == "unknown"
    assert found.problems == ()
    assert shown(found.container) == "Gates"
    match = work(semanticscholar.READER.one(raw({"data": [paper]}), status=200, media_type=JSON))
    assert match == found


@pytest.mark.parametrize(
    ("answer", "status", "expected"),
    [
        ({"error": "Paper not found"}, 404, "NotFound"),
        ({"data": []}, 200, "NotFound"),
        ({"message": "Forbidden"}, 403, "denied"),
        ({"message": "Too Many Requests"}, 429, "rate-limited"),
        ({"error": "x"}, 200, "refused"),
        ({"authorId": "1", "name": "A"}, 200, "other-kind"),
    ],
)
def test_semantic_scholar_without_a_paper(answer: object, status: int, expected: str) -> None:
    found = semanticscholar.READER.one(raw(answer), status=status, media_type=JSON)
    assert getattr(found, "reason", type(found).__name__) == expected


def test_unpaywall_fields_and_refusal() -> None:
    answer = {
        "doi": DOI,
        "title": "On gates",
        "published_date": None,
        "year": 2021,
        "journal_issns": "1234-5678,bad",
        "z_authors": [
            {"raw_author_name": "Ada Gate"},
            {"given": "B", "family": "C"},
            {"name": "D"},
        ],
        "best_oa_location": {"license": "cc-by"},
        "oa_locations": [{"url_for_pdf": "https://o.example/a.pdf"}, {"url_for_pdf": "ftp://x/"}],
    }
    found = work(unpaywall.READER.one(raw(answer), status=200, media_type=JSON))
    assert [(shown(a.name), a.organisation) for a in found.authors] == [
        ("Ada Gate", False),
        ("B C", False),
        ("D", True),
    ]
    assert names(found) == [("doi", DOI), ("issn", "1234-5678")]
    assert [shown(link.url) for link in found.links] == ["https://o.example/a.pdf"]
    assert problems(found) == {("identifiers", "type"), ("links", "type")}
    refusal = raw({"error": True, "HTTP_status_code": 422, "message": "use your own address"})
    for status in (422, 200):
        refused = unpaywall.READER.one(refusal, status=status, media_type=JSON)
        assert isinstance(refused, Unreadable)
        assert refused.reason == "refused"


def ask_europepmc(**fields: Any) -> Metadata:
    result = {"pmid": "7", "doi": DOI, "title": "On gates.", **fields}
    answer = raw({"hitCount": 1, "resultList": {"result": [result]}})
    return work(europepmc.READER.one(answer, status=200, media_type=JSON))


def test_europe_pmc_fields() -> None:
    found = ask_europepmc(
        authorList={"author": [{"firstName": "Ada", "lastName": "Gate"}, {"collectiveName": "G"}]},
        firstPublicationDate="2021-03-04",
        abstractText="<h4>Aim</h4>See.",
        pubTypeList={"pubType": ["Journal Article"]},
    )
    assert [(shown(a.name), a.organisation) for a in found.authors] == [
        ("Ada Gate", False),
        ("G", True),
    ]
    assert shown(found.abstracts[0].text) == "Aim\nSee."
    assert found.retraction.status == "none"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "unknown"),
        ({"pubTypeList": {"pubType": ["Retracted Publication"]}}, "retracted"),
        ({"pubTypeList": {"pubType": ["Retraction of Publication"]}}, "none"),
        ({"pubTypeList": {"pubType": "Retracted Publication"}}, "unknown"),
        ({"commentCorrectionList": {"commentCorrection": [{"type": "Retraction in"}]}},
         "retracted"),
        ({"commentCorrectionList": {"commentCorrection": [{"type": "Erratum in", "id": "8",
          "source": "MED"}]}}, "corrected"),
        ({"commentCorrectionList": {"commentCorrection": [{"type": "Comment in"}]}}, "unknown"),
    ],
)  # fmt: skip
def test_europe_pmc_retraction(fields: dict[str, Any], status: str) -> None:
    assert ask_europepmc(**fields).retraction.status == status


def test_europe_pmc_without_a_work() -> None:
    empty = raw({"hitCount": 0, "resultList": {"result": []}})
    assert europepmc.READER.one(empty, status=200, media_type=JSON) == NotFound("europepmc")
