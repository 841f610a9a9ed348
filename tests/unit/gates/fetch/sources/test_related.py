"""What a work cites and what cites it, in the shapes that three sources answer with."""

from typing import Any

import pytest

from tests.support.normalization import JSON, crossref_work, names, raw, shown
from threegate.gates.fetch.sources import crossref, openalex, semanticscholar
from threegate.gates.fetch.sources.answers import MAX_LISTED, Reader
from threegate.gates.fetch.sources.merge import merge_lists
from threegate.gates.fetch.sources.metadata import Metadata, NotFound, PartialDate, Unreadable


def read(reader: Reader[Any, Any], answer: object) -> tuple[Metadata, ...] | NotFound | Unreadable:
    return reader.all(raw(answer), status=200, media_type=JSON)


def listed(reader: Reader[Any, Any], answer: object) -> tuple[Metadata, ...]:
    found = read(reader, answer)
    assert isinstance(found, tuple), found
    return found


def cited(*references: object) -> dict[str, Any]:
    """Return a Crossref work that cites these."""
    return crossref_work(reference=list(references))


def papers(key: str, *found: object) -> dict[str, Any]:
    """Return a page of Semantic Scholar's citations."""
    return {"offset": 0, "next": 5, "data": [{"isInfluential": False, key: one} for one in found]}


def test_references_that_a_publisher_deposited() -> None:
    whole = {
        "key": "ref1",
        "doi-asserted-by": "publisher",
        "DOI": "10.5555/TG.2",
        "author": "Gate",
        "article-title": "On <i>hinges</i>",
        "journal-title": "Journal of Gates",
        "year": "2019",
        "volume": "7",
        "first-page": "12",
    }
    book = {"key": "ref2", "volume-title": "The Gate Book", "year": "1987a"}
    loose = {"key": "ref3", "unstructured": "Gate A. Older gates. 1901."}
    first, second, third = listed(crossref.RELATED, cited(whole, book, loose))
    assert (shown(first.title), names(first)) == ("On hinges", [("doi", "10.5555/tg.2")])
    assert [shown(author.name) for author in first.authors] == ["Gate"]
    assert (first.published, shown(first.container)) == (PartialDate(2019), "Journal of Gates")
    assert first.retraction.status == "unknown", "a list of references does not know"
    assert (shown(second.title), names(second)) == ("The Gate Book", [])
    assert (shown(third.title), third.authors) == ("Gate A. Older gates. 1901.", ())


def test_a_work_without_deposited_references_lists_nothing() -> None:
    assert isinstance(read(crossref.RELATED, crossref_work()), NotFound)
    assert isinstance(read(crossref.RELATED, cited()), NotFound)
    assert listed(crossref.RELATED, cited({"key": "1", "DOI": "10.5555/a"})), "control"


def test_a_huge_list_of_references_is_cut() -> None:
    many = [{"key": str(n), "DOI": f"10.5555/{n}"} for n in range(MAX_LISTED + 500)]
    assert len(listed(crossref.RELATED, cited(*many))) == MAX_LISTED


@pytest.mark.parametrize("key", ["citedPaper", "citingPaper"])
def test_papers_on_either_side_of_a_citation(key: str) -> None:
    paper = {
        "paperId": "fdb535c517dad226dff562fcc222d76b39695f11",
        "externalIds": {"DOI": "10.5555/TG.3", "CorpusId": 253350654, "PubMed": "36357676"},
        "title": "On locks",
        "year": 2022,
        "authors": [{"authorId": "1", "name": "Ada Gate"}],
    }
    unknown = {"paperId": None, "externalIds": None, "title": "A title and nothing else"}
    first, second = listed(semanticscholar.RELATED, papers(key, paper, None, unknown))
    assert shown(first.title) == "On locks"
    assert names(first) == [
        ("doi", "10.5555/tg.3"),
        ("pmid", "36357676"),
        ("semanticscholar", "fdb535c517dad226dff562fcc222d76b39695f11"),
    ]
    assert (shown(second.title), names(second)) == ("A title and nothing else", [])


def test_a_list_that_a_publisher_withholds_is_denied_and_not_empty() -> None:
    said = {"openAccessPdf": {"disclaimer": "elided by the publisher: {'references'}"}}
    found = read(semanticscholar.RELATED, {"data": None, "citingPaperInfo": said})
    assert isinstance(found, Unreadable)
    assert (found.reason, found.detail) == ("denied", "the publisher withholds the list")
    assert isinstance(read(semanticscholar.RELATED, {"offset": 0, "data": []}), NotFound)


@pytest.mark.parametrize(
    ("reader", "answer"),
    [
        (crossref.RELATED, crossref_work(reference="all of them")),
        (crossref.RELATED, crossref_work(reference={"DOI": "10.5555/a"})),
        (crossref.RELATED, cited("10.5555/a")),
        (crossref.RELATED, {"status": "ok", "message-type": "work-list", "message": {"items": []}}),
        (semanticscholar.RELATED, {"data": ["10.5555/a"]}),
        (semanticscholar.RELATED, papers("citedPaper", "10.5555/a")),
        (semanticscholar.RELATED, [papers("citedPaper", {"title": "t"})]),
        (openalex.RELATED, {"results": {"id": "https://openalex.org/W1"}}),
        (openalex.RELATED, {"results": ["https://openalex.org/W1"]}),
    ],
)
def test_a_list_of_another_type_is_no_list(reader: Reader[Any, Any], answer: object) -> None:
    found = read(reader, answer)
    assert isinstance(found, Unreadable)
    assert found.reason == "other-kind"


def test_fields_of_other_types_are_left_out() -> None:
    odd = {"key": 1, "DOI": ["10.5555/a"], "author": {"name": "x"}, "year": [2019],
           "article-title": {"t": 1}, "journal-title": 7}  # fmt: skip
    good = {"key": "2", "DOI": "10.5555/b", "article-title": "Good"}
    first, second = listed(crossref.RELATED, cited(odd, good))
    assert (first.title, first.authors, first.published, names(first)) == (None, (), None, [])
    assert (shown(second.title), names(second)) == ("Good", [("doi", "10.5555/b")])


# -- several lists --


def works(*dois: str, source: str = "crossref", **more: str) -> tuple[Metadata, ...]:
    if source == "crossref":
        return listed(crossref.RELATED, cited(*({"key": "k", "DOI": one, **more} for one in dois)))
    found = [{"id": f"https://openalex.org/W{n}", "doi": f"https://doi.org/{one}", **more}
             for n, one in enumerate(dois, 1)]  # fmt: skip
    return listed(openalex.RELATED, {"results": found})


def test_a_work_of_two_lists_is_listed_once_with_what_either_knows() -> None:
    ours, theirs = works("10.5555/a", "10.5555/b"), works("10.5555/B", source="openalex", title="T")
    first, second = merge_lists((*ours, *theirs))
    assert [shown(name.value) for name in first.identifiers] == ["10.5555/a"]
    assert [shown(name.value) for name in second.identifiers] == ["10.5555/b", "W1"]
    assert (first.title, shown(second.title)) == (None, "T")


def test_a_retraction_that_one_list_knows_is_in_the_joined_one() -> None:
    known = {"id": "https://openalex.org/W1", "doi": "https://doi.org/10.5555/a"}
    lists = [
        (*works("10.5555/a"), *listed(openalex.RELATED, {"results": [{**known, **said}]}))
        for said in ({"is_retracted": True}, {"is_retracted": False})
    ]
    assert [merge_lists(one)[0].retraction.status for one in lists] == ["retracted", "none"]


# claim TG-C-540
def test_an_entry_with_many_names_takes_no_other_out_of_the_list() -> None:
    one, other = works("10.5555/a", "10.5555/b")
    ids = {"DOI": "10.5555/a", "ArXiv": "1706.03762"}
    (greedy,) = listed(
        semanticscholar.RELATED, papers("citedPaper", {"title": "x", "externalIds": ids})
    )
    (preprint,) = listed(
        semanticscholar.RELATED,
        papers("citedPaper", {"title": "y", "externalIds": {"ArXiv": "1706.03762"}}),
    )
    found = merge_lists((one, other, preprint, greedy))
    dois = [[shown(n.value) for n in work.identifiers if n.scheme == "doi"] for work in found]
    assert dois == [["10.5555/a"], ["10.5555/b"], []]


def test_entries_without_names_stay_apart() -> None:
    loose = [{"key": str(n), "unstructured": "the same words"} for n in range(3)]
    assert len(merge_lists(listed(crossref.RELATED, cited(*loose)))) == 3
