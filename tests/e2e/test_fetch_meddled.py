"""What befalls a fetch while it runs: it is killed, its proxy dies, the policy changes."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cli import PYTHON
from tests.support.fetches import answers, gaps_of, packets
from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.meddling import SOURCE
from tests.support.origins import scholarly, works

# One question a second, so that there is time to meddle.
SLOWLY = ("rate_per_minute: 240", "rate_per_minute: 60")
WANTED = tuple(
    f"doi:{work.doi}"
    for work in (works.ARTICLE, works.RETRACTED, works.INJECTING, works.PUBMED_ARTICLE)
)
ALONE = ("--enrich", "none")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with place_at(scholarly.WORLD) as found:
        yield found


def meddle(place: Place, cli: PlaceCli, what: str, *argv: str) -> dict[str, Any]:
    """Run a fetch, do something to it after its first packet, and return how it ended."""
    script = [PYTHON[0], "-c", SOURCE, what, str(cli.workspace), *PYTHON, *argv]
    ended: dict[str, Any] = place.run(script, env=cli.env(), cwd=cli.base).json
    return ended


def assert_goes_on(cli: PlaceCli) -> None:
    """Check that nothing is lost, and that the same command completes the rest."""
    assert cli("audit", "verify", "--json").json["ok"]
    kept = set(packets(cli))
    assert set() < kept < set(WANTED), "control: it ended between the first and the last"
    again = cli("fetch", "--json", *ALONE, *WANTED).json["items"]
    assert {item["reference"] for item in again if item["status"] == "already"} == kept
    assert set(packets(cli)) == set(WANTED)
    assert cli("audit", "verify", "--json").json["ok"]


# claim TG-C-127
def test_killed_at_once_it_goes_on_with_the_same_command(place: Place) -> None:
    cli = settle(place, place.directory / "killed", SLOWLY)
    ended = meddle(place, cli, "kill", "fetch", *ALONE, *WANTED)
    assert (ended["code"], ended["left"]) == (-9, []), "and nothing of it stays"
    assert_goes_on(cli)


# claim TG-C-127
def test_without_its_proxy_it_ends_with_a_clear_error_and_loses_nothing(place: Place) -> None:
    cli = settle(place, place.directory / "orphan", SLOWLY)
    ended = meddle(place, cli, "kill-proxy", "fetch", *ALONE, *WANTED)
    assert (ended["code"], ended["left"]) == (69, [])
    assert "the proxy ended" in ended["err"]
    assert "TG-FET-064" in ended["err"]
    assert "run the command again" in ended["err"]
    assert_goes_on(cli)


def test_a_policy_applied_meanwhile_holds_from_then_on(place: Place) -> None:
    openalex = "  api.openalex.org:\n    rate_per_minute: "
    cli = settle(place, place.directory / "changing", (f"{openalex}60", f"{openalex}4"))
    assert cli.workspace is not None
    file = cli.workspace / "policy/fetch.policy.md"
    text = file.read_text("utf-8")
    file.write_text(text.replace("  api.openalex.org:", "  api2.openalex.org:"), "utf-8")
    place.own(file)
    ended = meddle(place, cli, "apply", "fetch", *WANTED)
    assert ended["code"] == 0, ended
    found = packets(cli)
    assert set(found) == set(WANTED)
    asked = {name for name in WANTED if "openalex" not in gaps_of(found[name])}
    assert WANTED[0] in asked, "control: before, it was asked"
    assert asked < set(WANTED), "and not after"
    assert {gaps_of(found[name])["openalex"] for name in set(WANTED) - asked} == {"denied"}
    assert len(answers(place.seen(), "api.openalex.org")) == len(asked)
    told = cli("audit", "show", "--json", "--limit", "5000").json["items"]
    rules = [entry["data"]["generation"] for entry in told if entry["kind"] == "fetch.rules"]
    assert rules == [2, 3]
