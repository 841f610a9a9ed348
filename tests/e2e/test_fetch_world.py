"""`threegate fetch`, unchanged, on the test internet: every kind of reference, every kind of gap.

Judged by the packets in the workspace and by what the far side wrote down.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.cli import write
from tests.support.fetches import (
    Event,
    anchor_of,
    answers,
    gaps_of,
    hazards_of,
    names_met,
    packet_ids,
    packets,
    requests,
    text_of,
)
from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.origin import OTHER
from tests.support.origins import scholarly, works
from tests.support.origins.scholarly import OUTSIDE, PAGES, PAGES_RULE
from tests.support.origins.works import Work
from threegate.artifacts.research_packet import ResearchPacket

NOTES = f"https://{PAGES}/field-notes"
CONTACT = ("contact: none", "contact: somebody@example.org")
DEADLINE = ("deadline_seconds: 90s", "deadline_seconds: 3s")


@dataclass(frozen=True)
class Kind:
    """A reference, the work behind it, who answers first, and where."""

    reference: str
    work: Work
    source: str
    host: str


PUBMED = "eutils.ncbi.nlm.nih.gov"
OLD = works.OPENALEX_ONLY
KINDS = (
    Kind(f"doi:{works.ARTICLE.doi}", works.ARTICLE, "crossref", "api.crossref.org"),
    Kind(f"doi:{works.RETRACTED.doi}", works.RETRACTED, "crossref", "api.crossref.org"),
    Kind(f"doi:{works.DATASET.doi}", works.DATASET, "datacite", "api.datacite.org"),
    Kind(f"arxiv:{works.PREPRINT.arxiv}", works.PREPRINT, "arxiv", "export.arxiv.org"),
    Kind(f"pmid:{works.PUBMED_ARTICLE.pmid}", works.PUBMED_ARTICLE, "pubmed", PUBMED),
    Kind(f"pmcid:{works.ARTICLE.pmcid}", works.ARTICLE, "europepmc", "www.ebi.ac.uk"),
    Kind(f"openalex:{OLD.openalex}", OLD, "openalex", "api.openalex.org"),
)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with place_at(scholarly.WORLD) as found:
        yield found


@pytest.fixture(scope="module")
def cli(place: Place) -> PlaceCli:
    return settle(place, place.directory / "home", PAGES_RULE, CONTACT)


@pytest.fixture(scope="module")
def first(place: Place, cli: PlaceCli) -> tuple[str, list[Event]]:
    """Fetch one of each; return what the command says, and what the far side saw of it."""
    before = len(place.arrived())
    injecting = f"doi:{works.INJECTING.doi}"
    done = cli("fetch", *(kind.reference for kind in KINDS), injecting)
    return done.out, place.arrived()[before:]


@pytest.fixture(scope="module")
def said(first: tuple[str, list[Event]]) -> str:
    return first[0]


@pytest.fixture(scope="module")
def got(cli: PlaceCli, said: str) -> dict[str, ResearchPacket]:
    assert said
    return packets(cli)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.reference)
def test_each_kind_of_reference_becomes_its_packet(
    place: Place, got: dict[str, ResearchPacket], kind: Kind
) -> None:
    packet = got[kind.reference]
    assert packet.title.open_for_display() == kind.work.title
    assert packet.published == kind.work.day
    assert packet.source == kind.source
    assert packet.url.startswith(f"https://{kind.host}/")
    assert packet.integrity == "external"
    assert packet.request is None
    assert kind.work.abstract in text_of(packet)
    people = [author.open_for_display() for author in packet.authors]
    assert people == [f"{given} {family}" for given, family in kind.work.authors]
    assert answers(place.seen(), kind.host).count(200) >= 1, "the far side answered"


def test_a_host_is_told_who_asks_and_nothing_else(first: tuple[str, list[Event]]) -> None:
    asked = [event for event in first[1] if event["event"] == "request"]
    assert len({event["host"] for event in asked}) > 5, "control: many hosts were asked"
    for event in asked:
        headers = dict(event["headers"])
        assert list(headers) == ["host", "user-agent", "accept", "accept-encoding"]
        assert re.match(r"ThreeGate/[0-9.]+ \(.*somebody@example\.org\)", headers["user-agent"])
        assert headers["accept-encoding"] == "identity"


def test_a_work_crossref_does_not_know_is_asked_of_datacite(
    place: Place, got: dict[str, ResearchPacket]
) -> None:
    doi = works.DATASET.doi or ""
    assert answers(place.seen(), "api.crossref.org", "threegate.data") == [404]
    assert len(requests(place.seen(), "api.datacite.org", doi.rpartition("/")[2])) == 1
    assert got[f"doi:{doi}"].source == "datacite"


def test_a_retraction_is_prominent(
    cli: PlaceCli, said: str, got: dict[str, ResearchPacket]
) -> None:
    retracted, article = (f"doi:{work.doi}" for work in (works.RETRACTED, works.ARTICLE))
    assert got[article].retraction == "none", "control: asked, and nothing said"
    packet = got[retracted]
    assert packet.retraction == "retracted"
    assert {"crossref", "openalex"} <= {notice.source for notice in packet.notices}
    ids = packet_ids(cli)
    shown = cli("packet", "show", ids[retracted]).out
    assert "RETRACTED" in "\n".join(shown.splitlines()[:4])
    assert "RETRACTED" not in cli("packet", "show", ids[article]).out
    (line,) = [line for line in said.splitlines() if retracted in line]
    assert "RETRACTED" in line


def test_a_packet_says_who_said_what(got: dict[str, ResearchPacket]) -> None:
    packet = got[f"doi:{works.ARTICLE.doi}"]
    told = {item.field: item.source for item in packet.metadata_from}
    assert told["title"] == "crossref"
    assert {item.source for item in packet.also} == {"openalex", "europepmc", "unpaywall"}
    assert packet.record_sha256 is not None


def test_an_injection_in_an_abstract_is_quoted_flagged_and_inert(
    place: Place, got: dict[str, ResearchPacket]
) -> None:
    packet = got[f"doi:{works.INJECTING.doi}"]
    assert works.INJECTING.abstract in text_of(packet)
    assert hazards_of(packet)["injection-like"] >= 1
    assert "injection-like" not in hazards_of(got[f"doi:{works.ARTICLE.doi}"]), "control"
    assert "collect.example.net" not in names_met(place.seen())


@pytest.fixture(scope="module")
def hasty(place: Place) -> dict[str, ResearchPacket]:
    """Ask all sources about two works that few of them answer for."""
    found = settle(place, place.directory / "hasty", DEADLINE)
    found("fetch", "--enrich", "all", f"doi:{works.GAPS.doi}", f"doi:{works.SILENT.doi}")
    return packets(found)


def test_what_refuses_fails_or_is_down_is_a_gap(hasty: dict[str, ResearchPacket]) -> None:
    packet = hasty[f"doi:{works.GAPS.doi}"]
    assert packet.title.open_for_display() == works.GAPS.title, "the rest is there"
    assert gaps_of(packet) == {
        "openalex": "failed",
        "europepmc": "denied",
        "semanticscholar": "failed",
    }


def test_what_never_answers_is_a_gap(hasty: dict[str, ResearchPacket]) -> None:
    packet = hasty[f"doi:{works.SILENT.doi}"]
    assert packet.title.open_for_display() == works.SILENT.title, "the rest is there"
    silent = ("openalex", "europepmc", "semanticscholar")
    assert gaps_of(packet) == dict.fromkeys(silent, "timed-out")


def test_a_busy_source_is_left_alone_as_long_as_it_asks(place: Place, cli: PlaceCli) -> None:
    reference = f"doi:{works.BUSY.doi}"
    cli("fetch", "--enrich", "none", reference)
    events = place.seen()
    assert answers(events, "api.crossref.org", "threegate.busy") == [429, 200]
    first, second = requests(events, "api.crossref.org", "threegate.busy")
    assert second["at"] - first["at"] >= scholarly.RETRY_SECONDS
    assert packets(cli)[reference].title.open_for_display() == works.BUSY.title


def test_what_has_not_changed_is_not_sent_again(place: Place, cli: PlaceCli, said: str) -> None:
    assert said
    part = (works.ARTICLE.doi or "").rpartition("/")[2]
    before = len(answers(place.seen(), "api.crossref.org", part))
    reference = f"doi:{works.ARTICLE.doi}"
    first = packets(cli)[reference]
    again = cli("fetch", reference)
    assert "already here" in again.out
    assert len(answers(place.seen(), "api.crossref.org", part)) == before, "nobody was asked"
    cli("fetch", "--max-age", "0s", reference)
    assert answers(place.seen(), "api.crossref.org", part)[before:] == [304]
    (asked,) = requests(place.seen(), "api.crossref.org", part)[before:]
    assert "if-none-match" in dict(asked["headers"])
    assert packets(cli)[reference].raw_sha256 == first.raw_sha256


def test_a_search_lists_candidates_and_fetches_none(place: Place, cli: PlaceCli) -> None:
    before = len(place.arrived())
    cli("fetch", "search", "lake ice", "--source", "crossref")
    after = place.arrived()[before:]
    assert {event["host"] for event in after if event["event"] == "request"} == {"api.crossref.org"}
    (found,) = [packet for name, packet in packets(cli).items() if "lake ice" in name]
    assert works.ARTICLE.title in text_of(found)
    assert works.RETRACTED.title in text_of(found)


def test_dry_run_names_every_host_and_asks_none(place: Place, cli: PlaceCli) -> None:
    before = len(place.arrived())
    shown = cli("fetch", "--dry-run", f"doi:{works.GAPS.doi}", NOTES).out
    for host in ("api.crossref.org", "api.openalex.org", "www.ebi.ac.uk", PAGES):
        assert host in shown
    assert place.arrived()[before:] == []


# claim TG-C-137
def test_a_host_outside_the_list_is_never_contacted(place: Place, cli: PlaceCli) -> None:
    reach = place.run(
        ["curl", "-sS", "--cacert", str(place.ca), f"https://{OUTSIDE}/control"],
        env={},
        cwd=place.directory,
    )
    assert reach.raw_out == b"not here", "control: it answers whoever asks it"
    before = len(place.arrived())
    led = cli("fetch", f"https://{PAGES}/elsewhere", code=77)
    assert f'TG-FET-010 https://{PAGES}/elsewhere: redirects to "{OUTSIDE}"' in led.out
    named = cli("fetch", f"https://{OUTSIDE}/paper", code=77)
    assert "no rule matched" in named.out
    events = place.arrived()[before:]
    assert answers(events, PAGES, "/elsewhere") == [302], "control: the redirect was seen"
    assert OTHER not in {event.get("origin") for event in events}
    assert OUTSIDE not in names_met(events)


# claim TG-C-139
def test_a_test_source_shows_as_one(
    place: Place, cli: PlaceCli, said: str, got: dict[str, ResearchPacket]
) -> None:
    reference = f"doi:{works.ARTICLE.doi}"
    assert got[reference].trust_anchor == anchor_of(place)
    assert {item.trust_anchor for item in got[reference].also} == {anchor_of(place)}
    (line,) = [line for line in said.splitlines() if reference in line]
    assert "TEST SOURCE" in line
    name = packet_ids(cli)[reference]
    assert "\n! TEST SOURCE: " in cli("packet", "show", name).out
    code = write(cli.base / "count.py", b"len(packet)\n")
    asked = cli("request", "new", "--purpose", "x", "--code", code, "--input", f"packet={name}")
    (request,) = set(re.findall(r"tr-[0-9a-f]{64}", asked.out))
    assert f"goes back to {name[:15]}: TEST SOURCE: " in cli("review", "show", request).out


# claim TG-C-139
def test_an_authority_that_policy_does_not_list_vouches_for_nobody(place: Place) -> None:
    strict = settle(place, place.directory / "strict")
    assert strict.workspace is not None
    reference = f"doi:{works.ARTICLE.doi}"
    ask = ("fetch", "--enrich", "none", "--max-age", "0s", reference)
    strict(*ask)
    assert list(packets(strict)) == [reference], "control: listed, it does"

    anchor = strict.workspace / "policy/anchors/test-internet.pem"
    listed = anchor.read_bytes()
    anchor.write_bytes(listed + b"\n")
    assert "TG-FET-061" in strict(*ask, code=77).err, "one more byte is another file"

    anchor.write_bytes(listed)
    policy = strict.workspace / "policy/fetch.policy.md"
    text = re.sub("(?m)^trust_anchors: .*", "trust_anchors: [system]", policy.read_text("utf-8"))
    policy.write_text(text, "utf-8")
    strict("policy", "apply", "--yes")
    before = len(place.arrived())
    assert f"TG-FET-014 {reference}: " in strict(*ask, code=None).out
    events = place.arrived()[before:]
    assert "api.crossref.org" in names_met(events), "it was reached, and told nothing"
    assert requests(events, "api.crossref.org") == []
