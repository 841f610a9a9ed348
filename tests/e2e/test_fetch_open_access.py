"""`threegate fetch --want full-text` follows open copies to listed hosts, on the test internet."""

from collections.abc import Iterator
from urllib.parse import unquote

import pytest

from tests.support.fetches import Event, answers, gaps_of, names_met, packets, requests, text_of
from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.origin import OTHER
from tests.support.origins import scholarly, works
from tests.support.origins.scholarly import OUTSIDE, PAGES, PAGES_RULE

OPEN = f"doi:{works.OPEN.doi}"
UNLISTED = f"doi:{works.UNLISTED.doi}"
LURING = f"doi:{works.LURING.doi}"
WHOLE = ("--want", "full-text", "--max-age", "0s")
ASK = ("operator_requests: allow", "operator_requests: ask")
KEY = "canary-5c0ffee1d2"


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with place_at(scholarly.WORLD) as found:
        yield found


@pytest.fixture(scope="module")
def cli(place: Place) -> PlaceCli:
    return settle(place, place.directory / "home", PAGES_RULE)


def after(place: Place, before: int) -> list[Event]:
    return place.arrived()[before:]


def reach_outside(place: Place) -> None:
    """Show that the host which no policy lists answers whoever asks it."""
    words = ["curl", "-sS", "--cacert", str(place.ca), f"https://{OUTSIDE}/control"]
    assert place.run(words, env={}, cwd=place.directory).raw_out == b"not here", "control"


# claim TG-C-541
def test_an_open_copy_at_a_listed_host_is_the_document_of_the_packet(
    place: Place, cli: PlaceCli
) -> None:
    reach_outside(place)
    before = len(place.arrived())
    cli("fetch", OPEN, *WHOLE)
    events = after(place, before)
    packet = packets(cli)[OPEN]
    assert (packet.url, packet.media_type) == (f"https://{PAGES}/open.pdf", "application/pdf")
    assert packet.title.open_for_display() == works.OPEN.title, "a registry says so, not the file"
    assert [one.source for one in packet.also][:2] == ["crossref", "openalex"]
    assert "beams of the winter" in text_of(packet)
    assert gaps_of(packet)["url"] in ("denied", "not-found"), "copies before it gave nothing"
    asked = [event["line"].split(" ")[1] for event in requests(events, PAGES)]
    assert asked == ["/elsewhere", "/gone.pdf", "/open.pdf"], (
        "one after the other, until one is read"
    )
    assert answers(events, PAGES) == [302, 404, 200]
    assert OTHER not in {event.get("origin") for event in events}, "not by a link or a redirect"
    assert OUTSIDE not in names_met(events)


# claim TG-C-541
def test_a_host_that_policy_does_not_list_is_named_and_not_contacted(
    place: Place, cli: PlaceCli
) -> None:
    reach_outside(place)
    before = len(place.arrived())
    done = cli("fetch", UNLISTED, *WHOLE)
    events = after(place, before)
    (said,) = [line.strip() for line in done.out.splitlines() if "full text:" in line]
    assert f"full text: not fetched from {OUTSIDE}, which policy does not list" in said
    assert OTHER not in {event.get("origin") for event in events}
    assert OUTSIDE not in names_met(events)
    again = cli("fetch", UNLISTED, "--want", "full-text", "--json").json["items"][0]
    assert again["status"] == "already"
    assert again["notes"] == [said], "a list of notes for scripts, also for what is here"
    file = cli.base / "ws" / "policy" / "fetch.policy.md"
    text = file.read_text("utf-8")
    rule = PAGES_RULE[1].replace(PAGES, OUTSIDE, 1)
    file.write_text(text.replace(PAGES_RULE[0], rule, 1), "utf-8")
    diff = [line for line in cli("policy", "diff").out.splitlines() if OUTSIDE in line]
    file.write_text(text, "utf-8")
    assert diff[0] in said, "the line of `policy diff`, word for word"


# claim TG-C-541
def test_a_key_for_a_host_does_not_go_to_an_address_that_a_source_named(
    place: Place, cli: PlaceCli
) -> None:
    cli("credential", "set", "api.openalex.org", stdin=KEY.encode())
    before = len(place.arrived())
    cli("fetch", LURING, *WHOLE)
    lines = [unquote(one["line"]) for one in requests(after(place, before), "api.openalex.org")]
    cli("credential", "remove", "api.openalex.org")
    own, lured = lines
    assert KEY in own, "control: our own question carries it"
    assert "lured=yes" in lured
    assert KEY not in lured


# claim TG-C-541
def test_an_approval_covers_no_open_copy(place: Place, cli: PlaceCli) -> None:
    assert cli("fetch", OPEN, *WHOLE).code == 0
    assert requests(place.arrived(), PAGES, "/open.pdf"), "control: the operator's own does"
    careful = settle(place, place.directory / "careful", PAGES_RULE, ASK)
    careful("fetch", OPEN, *WHOLE, code=75)
    (request,) = careful("request", "list", "--json", "--state", "held").json["items"]
    careful("review", "approve", request["id"], "--yes")
    before = len(place.arrived())
    done = careful("fetch", request["id"])
    assert "no source provides the document; the packet lists links to it" in done.err
    assert packets(careful)[OPEN].source == "crossref"
    events = after(place, before)
    assert requests(events, "api.openalex.org"), "control: it was fetched"
    assert requests(events, PAGES) == []


def test_without_a_wish_for_the_document_no_copy_is_asked_for(place: Place, cli: PlaceCli) -> None:
    before = len(place.arrived())
    done = cli("fetch", OPEN, "--max-age", "0s")
    assert requests(after(place, before), PAGES) == []
    assert "full text" not in done.out


def test_a_work_without_open_copies_says_so(cli: PlaceCli) -> None:
    done = cli("fetch", f"doi:{works.PUBMED_ARTICLE.doi}", *WHOLE)
    assert "full text: no source names an open copy" in done.out


def test_a_dry_run_says_that_a_copy_may_be_asked_for(place: Place, cli: PlaceCli) -> None:
    before = len(place.arrived())
    shown = cli("fetch", "--dry-run", OPEN, *WHOLE)
    assert f"{OPEN}: an open copy is asked for if policy lists its host" in shown.err
    assert after(place, before) == []
