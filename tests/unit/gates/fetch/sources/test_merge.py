"""Several answers on one work: who wins, who said it, and who was silent."""

from itertools import permutations
from typing import Any

import pytest

from tests.support.normalization import JSON, crossref_work, raw, shown, work
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources import crossref, datacite, openalex, semanticscholar
from threegate.gates.fetch.sources.merge import Answer, Merged, Missing, Origin, merge
from threegate.gates.fetch.sources.metadata import Metadata, NotFound, Outcome, Unreadable

ASKED = Untrusted("doi:10.5555/tg.1")


def from_crossref(**fields: Any) -> Metadata:
    return work(crossref.READER.one(raw(crossref_work(**fields)), status=200, media_type=JSON))


def from_openalex(**fields: Any) -> Metadata:
    answer = {
        "id": "https://openalex.org/W1",
        "doi": "https://doi.org/10.5555/tg.1",
        "title": "On Gates (OpenAlex)",
        "publication_date": "2020-01-01",
        "abstract_inverted_index": {"Seen.": [0]},
        "primary_location": {"license": "cc-by"},
        "is_retracted": False,
        **fields,
    }
    return work(openalex.READER.one(raw(answer), status=200, media_type=JSON))


def from_scholar(**fields: Any) -> Metadata:
    answer = {"paperId": "a" * 40, "title": "On gates", **fields}
    return work(semanticscholar.READER.one(raw(answer), status=200, media_type=JSON))


def merged(*outcomes: Outcome | Missing) -> Merged:
    return merge([Answer(ASKED, outcome) for outcome in outcomes])


def others(found: Merged) -> list[str]:
    """Return the sources that answered about something else."""
    return [other.source for other in found.others]


def test_each_field_has_its_source() -> None:
    both = merged(from_openalex(), from_crossref())
    assert shown(both.title) == "On gates"
    assert shown(both.licence) == "cc-by"
    assert [shown(abstract.text) for abstract in both.abstracts] == ["Seen."]
    assert both.origins == (
        Origin("abstracts", "openalex"),
        Origin("authors", "crossref"),
        Origin("container", "crossref"),
        Origin("identifiers", "crossref"),
        Origin("identifiers", "openalex"),
        Origin("licence", "openalex"),
        Origin("published", "crossref"),
        Origin("retraction", "crossref"),
        Origin("retraction", "openalex"),
        Origin("title", "crossref"),
    )
    assert both.gaps == ()


def test_order_of_answers_does_not_matter() -> None:
    outcomes: tuple[Outcome | Missing, ...] = (
        from_crossref(),
        from_openalex(is_retracted=True),
        from_scholar(externalIds={"DOI": "10.5555/tg.1"}),
        NotFound("unpaywall"),
        Missing("pubmed", "timed-out"),
    )
    assert len({repr(merged(*order)) for order in permutations(outcomes)}) == 1


@pytest.mark.parametrize(
    ("first", "second", "status", "who"),
    [
        (None, False, "none", {"openalex"}),
        (False, None, "none", {"crossref"}),
        (False, True, "retracted", {"openalex"}),
        (True, False, "retracted", {"crossref"}),
        (True, True, "retracted", {"crossref", "openalex"}),
        (None, None, "unknown", set()),
    ],
)
def test_retraction_is_the_worst_and_says_who(
    first: bool | None, second: bool | None, status: str, who: set[str]
) -> None:
    update = {"DOI": "10.5555/tg.2", "type": "retraction"}
    updates = {None: "broken", False: [], True: [update]}[first]
    both = merged(from_crossref(**{"updated-by": updates}), from_openalex(is_retracted=second))
    assert both.retraction.status == status
    assert {o.source for o in both.origins if o.field == "retraction"} == who


def test_nobody_could_be_asked() -> None:
    nothing = merged(
        Missing("crossref", "timed-out"),
        Unreadable("openalex", "rate-limited", "status 429"),
        Unreadable("datacite", "duplicate-key", "an object holds a key twice"),
        Unreadable("arxiv", "denied", "status 403"),
        NotFound("unpaywall"),
    )
    assert nothing.retraction.status == "unknown"
    assert nothing.title is None
    assert [(gap.source, gap.reason) for gap in nothing.gaps] == [
        ("crossref", "timed-out"),
        ("datacite", "unreadable"),
        ("arxiv", "denied"),
        ("openalex", "failed"),
        ("unpaywall", "not-found"),
    ]
    assert merge([]).retraction.status == "unknown"


def test_answer_about_another_work_is_left_out_and_recorded() -> None:
    assert others(merged(from_crossref(), from_openalex())) == [], "control"
    other = from_openalex(doi="https://doi.org/10.5555/other", is_retracted=True)
    both = merged(from_crossref(), other)
    assert others(both) == ["openalex"]
    assert both.retraction.status == "none"
    assert both.abstracts == ()
    assert [(gap.source, gap.reason) for gap in both.gaps] == [("openalex", "not-found")]


def test_answer_without_a_name_in_common_kind_is_kept() -> None:
    both = merged(from_crossref(), from_scholar(abstract="Seen."))
    assert others(both) == []
    assert len(both.abstracts) == 1


def test_preprint_and_its_datacite_doi_are_one_work() -> None:
    attributes = {"doi": "10.48550/arXiv.2101.00001", "titles": [{"title": "On gates"}]}
    answer = raw({"data": {"attributes": attributes}})
    preprint = work(datacite.READER.one(answer, status=200, media_type=JSON))
    ids = {"ArXiv": "2101.00001v3", "DOI": "10.5555/tg.1"}
    both = merged(preprint, from_scholar(externalIds=ids))
    assert others(both) == []
    other = merged(preprint, from_scholar(externalIds={**ids, "ArXiv": "2101.00002"}))
    assert others(other) == ["semanticscholar"]
