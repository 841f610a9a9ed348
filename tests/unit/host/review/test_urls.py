"""References: decoded, and what of them could carry something out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.host.review.origins import bits, looks_random, read_reference

SECRET = "c2VjcmV0IHBhc3N3b3JkIGlzIGh1bnRlcjI"


def remarks(url: str) -> dict[str, str]:
    return {part.where: part.remark for part in read_reference(url).components if part.remark}


def test_a_url_is_shown_part_by_part_decoded() -> None:
    found = read_reference("https://api.crossref.org/works/a%20b?q=%C3%BC&rows=2")
    assert found.host == "api.crossref.org"
    assert [(part.where, part.decoded) for part in found.components] == [
        ("host", "api.crossref.org"),
        ("path 1", "works"),
        ("path 2", "a b"),
        ("query 1", "q=\u00fc"),
        ("query 2", "rows=2"),
    ]


@pytest.mark.parametrize(
    ("url", "where", "words"),
    [
        (f"https://arxiv.org/abs/{SECRET}", "path 2", "could carry data out"),
        (f"https://arxiv.org/list?d={SECRET}", "query 1", "could carry data out"),
        ("https://arxiv.org/" + "deadbeef" * 5, "path 1", "could carry data out"),
        ("https://gk3f9az71xq8w2ab.arxiv.org/", "host", "could carry data out"),
        (f"doi:10.5555/{SECRET}", "reference", "could carry data out"),
        ("https://arxiv.org/%61bs", "path 1", "encoded without need"),
        ("https://arxiv.org/%2561", "path 1", "encoded twice"),
    ],
)
def test_a_part_that_could_carry_something_out_is_pointed_out(
    url: str, where: str, words: str
) -> None:
    assert words in remarks(url)[where]
    plain = "https://arxiv.org/abs/2401.01234v2"
    assert remarks(plain) == {}, "control"


@pytest.mark.parametrize(
    "url",
    [
        "https://api.crossref.org/works/10.5555/12345678",
        "https://www.nature.com/articles/s41586-023-06735-9",
        "https://doi.org/10.1103/PhysRevLett.116.061102",
        "https://example.org/on-the-toughness-of-sea-ice-in-the-laboratory",
        "https://example.org/search?db=pubmed&term=sea+ice+strength+measurement",
        "doi:10.1016/j.jhydrol.2019.124567",
        "arXiv:2401.01234",
    ],
)
def test_ordinary_references_are_left_alone(url: str) -> None:
    assert remarks(url) == {}


def test_bits_grow_with_what_a_text_can_hold() -> None:
    assert bits("") == bits("aaaaaaaa") == 0
    assert bits("abcd") == 8
    assert bits(SECRET) > bits("a-few-plain-words-of-a-title-here") > 0
    assert looks_random(SECRET)
    assert not looks_random("short1A2b")


@given(st.text(max_size=300))
def test_any_text_is_a_reference(text: str) -> None:
    found = read_reference(text)
    assert found.text == text
    assert found.components
