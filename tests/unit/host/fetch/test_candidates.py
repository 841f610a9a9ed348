"""What a search found: numbered, with references that can be given to `fetch`."""

import pytest

from tests.support.holdings import found_by_search, paper
from threegate.host.fetch.candidates import candidates, listed
from threegate.host.workspace.packets import is_search


# claim TG-C-452
def test_each_candidate_has_the_reference_that_says_most() -> None:
    shown = found_by_search(
        "title: Ice\nauthors: A; B\npublished: 2024-03-17\npmid:31452104\ndoi:10.5555/a\n"
        "openalex:W1",
        "title: [Retracted] RETRACTED: Older ice\narxiv:1706.03762v5\nretraction: retracted",
        "title: none given",
        "title: Old\ndoi:10.1002/1(2000)42:2%3Caid>3.0.co;2-v",
    )
    assert list(listed(shown)) == [
        "1. doi:10.5555/a  Ice (A; B, 2024)",
        "2. arxiv:1706.03762v5  RETRACTED: Older ice",
        "3. no reference  none given",
        "4. doi:10.1002/1(2000)42:2<aid>3.0.co;2-v  Old",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "title: doi:10.5555/evil",
        "doi:10.5555/evil and more",
        "https://evil.example/",
        "doi:10.5555/../evil",
        "x doi:10.5555/evil",
    ],
)
def test_text_of_a_source_is_no_reference(line: str) -> None:
    (one,) = candidates(found_by_search(f"title: t\n{line}"))
    assert one.reference is None
    (control,) = candidates(found_by_search("title: t\ndoi:10.5555/good"))
    assert control.reference is not None


def test_a_later_line_cannot_replace_the_title() -> None:
    (one,) = candidates(found_by_search("title: first\ncontainer: x\ntitle: second"))
    assert one.title == "first"


def test_other_texts_of_a_packet_are_no_candidates() -> None:
    assert list(candidates(found_by_search("title: t\ndoi:10.5555/a", label="abstract"))) == []


def test_a_packet_says_whether_it_answers_a_search() -> None:
    assert is_search(found_by_search("title: t"))
    assert is_search(found_by_search()), "also one that found nothing"
    assert not is_search(paper(1, "search:crossref:ice"))
