"""Identifiers of works: the usual spellings of one are one name, and two works stay two."""

import pytest

from tests.support.samples import box, packet
from threegate.artifacts.research_packet import Identifier
from threegate.host.workspace.packets import names_of

SPELLINGS = {
    ("doi", "10.5555/abc"): (
        *("10.5555/ABC", "https://doi.org/10.5555/abc", "http://dx.doi.org/10.5555/Abc"),
        *("doi:10.5555/abc", "10.5555%2Fabc", "10.5555/ab%63"),
    ),
    ("doi", "10.1002/(sici)1<16::a>3"): ("10.1002/(sici)1%3C16::A%3E3",),
    ("arxiv", "math/0309136"): ("math.GT/0309136", "math/0309136v2", "math/0309136v0"),
    ("arxiv", "2610.99901"): ("2610.99901V3", "arXiv:2610.99901"),
    ("pmid", "31452104"): ("PMID:31452104", "031452104"),
    ("pmcid", "pmc7029158"): ("PMC7029158", "7029158"),
    ("openalex", "w1"): ("W1", "https://openalex.org/W1"),
}


def names(scheme: str, value: str) -> tuple[tuple[str, str], ...]:
    named = (Identifier(scheme, box(value)),)
    return names_of(packet("Ice.", identifiers=named, reference=box("https://a.example/x")))


@pytest.mark.parametrize(
    ("name", "spelled"), [(name, one) for name, all_ in SPELLINGS.items() for one in all_]
)
def test_every_usual_spelling_of_an_identifier_is_one_name(
    name: tuple[str, str], spelled: str
) -> None:
    assert names(name[0], spelled) == (name,)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("https://doi.org/10.5555/ABC", ("doi", "10.5555/abc")),
        ("doi:10.5555/ABC", ("doi", "10.5555/abc")),
        ("https://arxiv.org/abs/2610.99901v2", ("arxiv", "2610.99901")),
    ],
)
def test_what_was_asked_for_names_the_work_as_an_address_too(
    asked: str, name: tuple[str, str]
) -> None:
    assert names_of(packet("Ice.", identifiers=(), reference=box(asked))) == (name,)
    other = packet("Ice.", identifiers=(), reference=box("https://a.example/10.5555/abc"))
    assert names_of(other) == (), "control: another host's page is not the work"


def test_the_doi_of_an_arxiv_paper_is_the_paper() -> None:
    for spelled in ("10.48550/arXiv.math.GT/0309136", "10.48550/ARXIV.math/0309136v2"):
        assert names("doi", spelled) == (("arxiv", "math/0309136"),)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10.5555/kelvin", "10.5555/\u212aelvin"),
        ("10.5555/abc", "10.5555/abc."),
        ("10.5555/\u00c9", "10.5555/\u00e9"),
    ],
)
def test_other_letters_are_another_work(one: str, other: str) -> None:
    assert names("doi", one) != names("doi", other)
