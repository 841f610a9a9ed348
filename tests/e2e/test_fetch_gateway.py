"""`threegate fetch` with Squid as its gateway: client, bridge and Squid are the real ones."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.containers import DOI
from tests.support.internet import played
from tests.support.origin import ORIGIN

Told = dict[str, Any]
URL = "https://api.crossref.org/works/10.5555%2Fthreegate.ice.2024.17"


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with played("tests.support.containers:gateway_scenes") as found:
        yield found


def test_a_work_becomes_a_packet_and_its_url_stands_in_squids_log(told: Told) -> None:
    (item,) = told["fetched"]
    assert (item["reference"], item["status"], item["hosts"]) == (DOI, "made", ["api.crossref.org"])
    assert item["cautions"][0].startswith("TEST SOURCE"), "which anchor vouched is not hidden"
    asked = [line.split(" ") for line in told["log"]]
    assert asked[0][6] == URL
    requests = [event for event in told["world"] if event["event"] == "request"]
    assert requests[0]["origin"] == ORIGIN


def test_an_unknown_work_is_asked_of_the_second_agency(told: Told) -> None:
    (item,) = told["unknown"]
    assert (item["status"], item["hosts"]) == ("failed", ["api.crossref.org", "api.datacite.org"])
    assert [line.split(" ")[1] for line in told["log"]] == ["200", "404", "404"]


def test_a_page_without_a_rule_reaches_nobody(told: Told) -> None:
    (item,) = told["refused"]
    assert (item["status"], item["hosts"]) == ("refused", [])
    assert [line for line in told["log"] if "evil.example" in line] == []
    names = {event["name"] for event in told["world"] if event["event"] == "dns"}
    assert "api.crossref.org" in names, "control"
    assert "evil.example" not in names
