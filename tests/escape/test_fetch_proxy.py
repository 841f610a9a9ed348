"""The real proxy in its real box on a test internet: what it reaches, and what it does not.

Judged by the proxy's own lines and by what the far side wrote down, not by the client's word.
"""

from typing import Any

import pytest

from tests.support.boxes import STARTERS, played_as
from tests.support.origin import HERE, INSIDE, ORIGIN, OTHER
from tests.support.origins.simple import PAGE

Told = dict[str, Any]
SCENES = "tests.support.fetch_scenes:proxy_scenes"


@pytest.fixture(scope="module", params=STARTERS)
def told(request: pytest.FixtureRequest) -> Told:
    return played_as(request.param, SCENES)


def verdicts(scene: Told) -> list[tuple[str, str]]:
    return [(line["verdict"], line["reason"]) for line in scene["proxy"]]


def test_allowlisted_origin_is_reached_at_the_judged_address(told: Told) -> None:
    scene = told["allowed"]
    assert scene["client"] == PAGE.decode()
    assert verdicts(scene) == [("allow", "opened"), ("closed", "done")]
    opened = scene["proxy"][0]
    assert (opened["host"], opened["address"]) == ("api.crossref.org", ORIGIN)
    assert opened["rule"].startswith("policy/fetch.policy.md:")
    (asked,) = [event for event in scene["world"] if event["event"] == "request"]
    assert (asked["origin"], asked["line"]) == (ORIGIN, "GET /works HTTP/1.1")


def test_an_answer_cut_in_a_datagram_is_asked_for_again_by_stream(told: Told) -> None:
    scene = told["truncated"]
    assert scene["client"] == PAGE.decode()
    asked = [event for event in told["whole"] if event["event"] == "dns"]
    ways = [event["by"] for event in asked if event["name"] == "export.arxiv.org"]
    assert sorted(ways) == ["tcp", "tcp", "udp", "udp"]


def test_a_name_without_a_rule_is_not_even_asked_for(told: Told) -> None:
    assert told["reach"][OTHER] == "connected", "control: within the proxy's reach"
    assert verdicts(told["other name"]) == [("deny", "not-allowed")]
    assert [event for event in told["whole"] if event.get("name") == "evil.example"] == []


@pytest.mark.parametrize("title", ["private", "mixed", "after rebinding"])
# claim TG-C-73
def test_a_name_that_leads_inside_is_refused(told: Told, title: str) -> None:
    assert told["reach"][INSIDE] == "connected", "control: within the proxy's reach"
    scene = told[title]
    assert verdicts(scene) == [("deny", "address-refused")]
    assert INSIDE in scene["proxy"][0]["addresses"]
    assert scene["proxy"][0]["detail"] == f"{INSIDE} is private"


# claim TG-C-73
def test_a_rebinding_name_is_resolved_once_for_each_tunnel(told: Told) -> None:
    scene = told["before rebinding"]
    assert scene["client"] == PAGE.decode()
    assert scene["proxy"][0]["address"] == ORIGIN
    asked = [e for e in told["whole"] if e.get("name") == "doi.org" and e["event"] == "dns"]
    assert [event["kind"] for event in asked].count(1) == 2, "two tunnels, two questions"


# claim TG-C-73
def test_the_machine_itself_is_refused_under_its_public_address(told: Told) -> None:
    assert told["reach"][HERE] == "connected", "control: somebody listens there"
    scene = told["own address"]
    assert verdicts(scene) == [("deny", "address-refused")]
    assert scene["proxy"][0]["detail"] == f"{HERE} is this machine"


def test_another_name_behind_an_allowed_address_is_refused(told: Told) -> None:
    assert verdicts(told["fronting"]) == [("deny", "sni-differs")]
    names = {event["name"] for event in told["whole"] if event["event"] == "hello"}
    assert names == {"api.crossref.org", "export.arxiv.org", "doi.org"}


def test_plain_bytes_do_not_reach_the_origin(told: Told) -> None:
    scene = told["plain"]
    assert verdicts(scene) == [("deny", "not-tls")]
    assert scene["client"].endswith("then b''")
    lines = [event["line"] for event in told["whole"] if event["event"] == "request"]
    assert len(lines) == 4, "those of the tunnels that were allowed"


# claim TG-C-73
def test_other_rules_end_an_open_tunnel_and_refuse_the_next(told: Told) -> None:
    assert verdicts(told["reload"]) == [("allow", "opened"), ("cut", "not-allowed")]
    assert verdicts(told["after reload"]) == [("deny", "not-allowed")]


def test_nobody_outside_the_list_was_connected_to(told: Told) -> None:
    connects = [event["origin"] for event in told["whole"] if event["event"] == "connect"]
    assert connects.count(ORIGIN) > 2, "control: the far side writes connections down"
    # The test's own two connections each, past the proxy.
    assert (connects.count(OTHER), connects.count(INSIDE)) == (2, 2)
