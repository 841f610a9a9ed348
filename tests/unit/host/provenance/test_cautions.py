from dataclasses import replace

import pytest

from tests.support.samples import packet
from threegate.artifacts.research_packet import Also, Notice, ResearchPacket
from threegate.host.provenance import headlines as module
from threegate.host.provenance.headlines import BROUGHT, TEST_SOURCE, caution_words
from threegate.host.workspace.packets import RETRIEVED_HERE, UNKNOWN, PacketOrigin

ANCHOR = "ab" * 32


def cautions(found: ResearchPacket, origin: PacketOrigin = RETRIEVED_HERE) -> tuple[str, ...]:
    return module.cautions(found, origin)


def also(anchor: str) -> Also:
    return Also(
        "openalex", "https://api.openalex.org/", "2026-11-15T12:00:00Z", "0" * 64, 1, anchor
    )


def test_an_ordinary_packet_has_none() -> None:
    assert cautions(replace(packet(), retraction="none", notices=(), also=(also("system"),))) == ()
    assert cautions(replace(packet(), retraction="unknown", notices=())) == ()


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("retracted", "RETRACTED"),
        ("concern", "EXPRESSION OF CONCERN"),
        ("corrected", "CORRECTED"),
    ],
)
def test_a_work_that_does_not_stand_says_so_first_and_who_said_it(status: str, word: str) -> None:
    said = tuple(Notice(status, source, None, None, None) for source in ("pubmed", "crossref"))
    found = replace(packet(), retraction=status, notices=said, trust_anchor=ANCHOR)
    assert cautions(found)[0] == f"{word}: according to crossref, pubmed"
    assert caution_words(cautions(found)) == (word, TEST_SOURCE)


# claim TG-C-139
def test_one_answer_under_another_authority_makes_a_test_source() -> None:
    plain = replace(packet(), retraction="none", notices=(), also=(also("system"), also("system")))
    assert caution_words(cautions(plain)) == (), "control: the system's authorities alone"
    mixed = replace(plain, also=(also("system"), also(ANCHOR)))
    assert caution_words(cautions(mixed)) == (TEST_SOURCE,)
    assert ANCHOR[:12] in cautions(mixed)[0]
    assert caution_words(cautions(replace(plain, trust_anchor=ANCHOR))) == (TEST_SOURCE,)
    two = replace(plain, trust_anchor="cd" * 32, also=(also(ANCHOR),))
    assert (len(cautions(two)), caution_words(cautions(two))) == (2, (TEST_SOURCE,)), (
        "the word once"
    )


def test_nothing_of_the_source_is_in_it() -> None:
    hostile = replace(
        packet(),
        retraction="retracted",
        notices=(Notice("retracted", "crossref", packet().title, packet().title, None),),
    )
    title = packet().title.open_for_display()
    assert title, "control: the sample has a title"
    assert title not in "".join(cautions(hostile))


# claim TG-C-401
def test_a_brought_packet_says_so_and_names_no_source() -> None:
    said = (Notice("retracted", "crossref", None, None, None),)
    found = replace(packet(), retraction="retracted", notices=said)
    assert cautions(found) == ("RETRACTED: according to crossref",), "control: a retrieved one"
    first, second = cautions(found, UNKNOWN)
    assert first == "RETRACTED: according to the packet itself"
    assert second == "BROUGHT: somebody admitted this file; it was not retrieved here"
    assert caution_words(cautions(found, UNKNOWN)) == ("RETRACTED", BROUGHT)
