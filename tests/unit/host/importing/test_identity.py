"""Identifiers that a document names, and whether a record describes it."""

from dataclasses import replace

import pytest

from tests.support.samples import box, packet
from threegate.artifacts.research_packet import Identifier, ResearchPacket
from threegate.host.importing.identity import MAX_PROPOSALS, describes, proposals


def document(text: str, *, title: str = "", **changes: object) -> ResearchPacket:
    made = packet(text, title=box(title), authors=(), identifiers=())
    return replace(made, **changes)  # type: ignore[arg-type]


def record(title: str, *authors: str) -> ResearchPacket:
    return packet("abstract", title=box(title), authors=tuple(map(box, authors)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See https://doi.org/10.5555/abc.1 for data.", ["doi:10.5555/abc.1"]),
        ("DOI: 10.5555/s0022(99)12-x.", ["doi:10.5555/s0022(99)12-x"]),
        ("(doi:10.5555/abc)", ["doi:10.5555/abc"]),
        ("arXiv:1706.03762v5 [cs.CL] 6 Dec 2017", ["arxiv:1706.03762v5"]),
        ("PMID: 31452104", ["pmid:31452104"]),
        ("version 10.5 of the tool, 3/4 of it", []),
    ],
)
def test_identifiers_are_read_as_articles_print_them(text: str, found: list[str]) -> None:
    assert [one.text for one in proposals(document(text))] == found


def test_what_a_file_states_of_itself_comes_before_what_it_prints() -> None:
    stated = (Identifier("doi", box("10.5555/stated")),)
    found = proposals(document("doi:10.5555/printed", identifiers=stated))
    assert [one.text for one in found] == ["doi:10.5555/stated", "doi:10.5555/printed"]


def test_a_reference_list_cannot_cause_more_than_a_few_questions() -> None:
    text = "\n".join(f"doi:10.5555/{number}" for number in range(50))
    assert len(proposals(document(text))) == MAX_PROPOSALS


def test_a_record_describes_a_document_that_shows_its_title() -> None:
    work = record("Salt makes lake ice stronger: a measurement", "Gregor Vane")
    assert describes(work, document("Salt Makes Lake Ice Stronger:\na Measurement\n\nG. Vane"))
    assert describes(work, document("text", title="Salt makes lake ice stronger: a measurement"))
    assert not describes(work, document("A cookbook of soups. doi:10.5555/salt"))


def test_a_work_that_a_document_only_cites_does_not_describe_it() -> None:
    work = record("Salt makes lake ice stronger", "Gregor Vane")
    cited = "A reading list. " + "Some other words. " * 60 + "Salt makes lake ice stronger"
    assert not describes(work, document(cited))
    assert not describes(work, document("The lake makes ice; stronger salt is there."))
    assert describes(work, document("Salt makes lake ice stronger")), "control"


def test_an_identifier_cannot_carry_text_of_the_file_away() -> None:
    assert proposals(document(f"doi:10.5555/{'a' * 40}")), "control"
    assert not proposals(document(f"doi:10.5555/{'a' * 110}"))
    assert not proposals(document("doi:10.5555/gehälter-2026"))


def test_a_short_title_needs_an_author_too() -> None:
    work = record("Editorial", "Maren Holm")
    assert describes(work, document("Editorial\nMaren Holm\nDear reader"))
    assert not describes(work, document("Editorial\nSomebody Else\nDear reader"))


def test_a_record_without_a_title_describes_nothing() -> None:
    assert not describes(record(""), document("anything"))
