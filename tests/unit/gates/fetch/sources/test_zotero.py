"""Items of a Zotero library: what a packet says of them, and what it does not take."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import ITEM
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources.metadata import Metadata, Unreadable
from threegate.gates.fetch.sources.zotero import READER

PLAIN = json.loads(ITEM.to_bytes())


def read(**changed: Any) -> Metadata:
    data = json.dumps({**PLAIN, **changed}).encode()
    found = READER.one(Untrusted(data), status=200, media_type="application/json")
    assert isinstance(found, Metadata), found
    return found


def fields(**values: Any) -> Metadata:
    return read(fields={"title": "Ice", **values})


def names(work: Metadata) -> list[str]:
    return [f"{one.scheme}:{one.value.open_for_validation()}" for one in work.identifiers]


def test_a_stored_date_is_as_precise_as_it_is_known() -> None:
    for stored, shown in (
        ("2021-05-00 May 2021", "2021-05"),
        ("1999-00-00 1999", "1999"),
        ("2020-02-29 29 Feb 2020", "2020-02-29"),
        ("2020-07", "2020-07"),
        ("2020-02-31 nonsense", "2020-02"),
    ):
        published = fields(date=stored).published
        assert published is not None
        assert published.text == shown
    assert fields(date="n.d.").published is None
    assert fields(date=2020).published is None


def test_identifiers_come_from_fields_and_from_extra() -> None:
    found = fields(
        DOI="https://doi.org/10.5555/Ice",
        ISBN="978-3-16-148410-0 3161484100",
        ISSN="1234-567X",
        extra="PMID: 123\nPMCID: PMC7\narXiv: 2101.00001\nnote: DOI: 10.1/x",
    )
    assert names(found) == [
        "arxiv:2101.00001",
        "citekey:Berg2021",
        "doi:10.5555/ice",
        "isbn:3161484100",
        "isbn:9783161484100",
        "issn:1234-567X",
        "pmcid:PMC7",
        "pmid:123",
    ]


def test_a_citation_key_that_bibtex_would_not_read_is_left_out() -> None:
    assert "citekey:Berg2021" in names(read()), "control"
    for key in ("a b", "a,b", "a}b", "\\input{x}", "a\n", "é" * 3, "x" * 101, 7, ["x"]):
        work = read(citation_key=key)
        assert [
            one for one in names(work) if one.startswith("citekey:") and one != "citekey:a"
        ] == (["citekey:7"] if key == 7 else [])


def test_authors_are_those_who_made_the_work() -> None:
    rows = [["editor", "Ed", "Itor"], ["inventor", "", "Frost Ltd"], ["author", "Eva", "Berg"]]
    found = [one.name.open_for_validation() for one in read(creators=rows).authors]
    assert found == ["Frost Ltd", "Eva Berg"]
    only = read(creators=rows[:1]).authors
    assert [one.name.open_for_validation() for one in only] == ["Ed Itor"]


def test_notes_and_annotations_are_remarks_with_their_pages() -> None:
    found = [
        (one.label.open_for_validation(), one.text.open_for_validation(), one.page)
        for one in read().remarks
    ]
    assert found == [
        (
            "library entry",
            "type: journalArticle\ncollections: Thesis/Chapter 1\ntags: to read",
            None,
        ),
        ("note", "Ask Eva.", None),
        ("annotation, page iv", "1.31 MPa", 4),
    ]


def test_a_record_that_was_cut_says_so() -> None:
    assert not [one for one in read().problems if one.what == "cut"], "control"
    assert [one.field for one in read(cut=3).problems if one.what == "cut"] == ["remarks"]


def test_another_format_is_no_item() -> None:
    data = json.dumps({**PLAIN, "format": "zotero/2"}).encode()
    found = READER.one(Untrusted(data), status=200, media_type="application/json")
    assert isinstance(found, Unreadable)
    assert found.reason == "other-kind"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(sorted(PLAIN)), _JSON))
def test_any_value_in_any_field_gives_a_work(changed: dict[str, Any]) -> None:
    read(**{name: value for name, value in changed.items() if name != "format"})
