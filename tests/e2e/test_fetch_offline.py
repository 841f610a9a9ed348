"""A fetch without a network: one question each is enough to know, and the run says so.

The real command, boxes and proxy in a network namespace whose only cable is taken away.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.origin import GATEWAY
from tests.support.origins import scholarly, works

DOIS = [f"doi:{work.doi}" for work in (works.ARTICLE, works.RETRACTED, works.GAPS)]
NOWHERE = "no-such-host.example"
NOWHERE_RULE = (scholarly.PAGES_RULE[0], scholarly.PAGES_RULE[1].replace(scholarly.PAGES, NOWHERE))


@pytest.fixture
def place() -> Iterator[Place]:
    with place_at(scholarly.WORLD) as found:
        yield found


def ip(place: Place, *words: str) -> None:
    """Change the namespace's network."""
    done = place.run(["ip", *words], env={"PATH": os.environ["PATH"]}, cwd=place.directory)
    assert done.code == 0, done.raw_err


def entries(cli: PlaceCli, kind: str) -> list[dict[str, Any]]:
    told = cli("audit", "show", "--json", "--limit", "5000").json["items"]
    return [entry["data"] for entry in told if entry["kind"] == kind]


# claim TG-C-473
def test_without_a_network_no_question_is_asked_twice(place: Place) -> None:
    cli = settle(place, place.directory / "home", NOWHERE_RULE)
    ip(place, "link", "set", "tg0", "down")
    done = cli("fetch", *DOIS, code=69)
    assert "error: no network: no name server answers [TG-FET-032]" in done.err
    assert "connect this machine to a network" in done.err
    assert {one["reason"] for one in entries(cli, "proxy.decision")} == {"no-network"}
    tried = len(entries(cli, "proxy.decision"))
    assert tried <= len(entries(cli, "fetch.asked")), "no question is tried again"
    assert {one["tries"] for one in entries(cli, "fetch.answered")} == {1}
    before = len(entries(cli, "fetch.answered"))

    ip(place, "link", "set", "tg0", "up")
    ip(place, "route", "add", "default", "via", GATEWAY)
    done = cli("fetch", f"https://{NOWHERE}/", code=69)
    assert "TG-FET-031" in done.out
    (answered,) = entries(cli, "fetch.answered")[before:]
    assert (answered["code"], answered["tries"]) == ("TG-FET-031", 1), "an answer, not a loss"

    cli("fetch", *DOIS, "--enrich", "none")  # control: the same command goes on
    assert cli("packet", "list", "--json").json["total"] == len(DOIS)
