"""Pages and PDF files through `threegate fetch` on the test internet."""

from collections.abc import Iterator

import pytest

from tests.support.boxes import STARTERS
from tests.support.fetches import hazards_of, names_met, packets, text_of
from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.origins import scholarly, works
from tests.support.origins.scholarly import ARXIV_RATES, PAGES, PAGES_RULE
from threegate.artifacts.research_packet import ResearchPacket

NOTES, MOVED = (f"https://{PAGES}/{name}" for name in ("field-notes", "moved"))
TEXT = f"https://{PAGES}/notes.txt"
PLAIN, HIDING = (f"arxiv:{work.arxiv}" for work in (works.PREPRINT, works.HIDING_PREPRINT))


@pytest.fixture(scope="module", params=STARTERS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with place_at(scholarly.WORLD, who=request.param) as found:
        yield found


@pytest.fixture(scope="module")
def cli(place: Place) -> PlaceCli:
    return settle(place, place.directory / "home", PAGES_RULE, *ARXIV_RATES)


@pytest.fixture(scope="module")
def got(cli: PlaceCli) -> dict[str, ResearchPacket]:
    cli("fetch", "--want", "full-text", PLAIN, HIDING, NOTES, MOVED, TEXT)
    return packets(cli)


def test_a_page_is_quoted_as_it_is_shown(got: dict[str, ResearchPacket]) -> None:
    packet = got[NOTES]
    assert packet.title.open_for_display() == "Field notes from the western basin"
    assert (packet.source, packet.media_type) == ("url", "text/html")
    assert works.STORY in text_of(packet)
    assert works.MORE in text_of(packet)


def test_hidden_text_is_removed_and_flagged(got: dict[str, ResearchPacket]) -> None:
    packet = got[NOTES]
    text = text_of(packet)
    assert works.STORY in text, "control: what the page shows is quoted"
    assert works.HIDDEN not in text
    assert hazards_of(packet)["hidden-text"] >= 1


def test_an_injection_is_quoted_flagged_and_inert(
    place: Place, got: dict[str, ResearchPacket]
) -> None:
    packet = got[NOTES]
    assert works.INJECTION in text_of(packet)
    assert hazards_of(packet)["injection-like"] >= 1
    assert "injection-like" not in hazards_of(got[TEXT]), "control: plain words are not flagged"
    assert "collect.example.net" not in names_met(place.seen())


def test_a_preprint_comes_with_its_pages(got: dict[str, ResearchPacket]) -> None:
    packet = got[PLAIN]
    assert {excerpt.page for excerpt in packet.excerpts} >= {1, 2}
    assert packet.title.open_for_display() == works.PREPRINT.title
    assert "The first beams of the winter" in text_of(packet)


def test_hidden_text_of_a_file_is_removed_and_flagged(got: dict[str, ResearchPacket]) -> None:
    assert "hidden-text" not in hazards_of(got[PLAIN]), "control: nothing hidden, nothing flagged"
    assert hazards_of(got[HIDING])["hidden-text"] >= 1
    assert "gnore all previous" not in text_of(got[HIDING])


def test_a_redirect_within_a_host_is_recorded(got: dict[str, ResearchPacket]) -> None:
    packet = got[MOVED]
    assert packet.url == NOTES
    assert [(hop.url, hop.status) for hop in packet.hops] == [(MOVED, 301)]
