"""`threegate model pull`, unchanged, from a publisher on the test internet: a real model."""

import shutil
from collections.abc import Iterator

import pytest

from tests.support import models
from tests.support.internet_place import Place, place_at, settle
from tests.support.origins.publisher import FRONT, REAL, STORE

WORLD = "tests.support.origins.publisher:real_world"


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    own = models.smallest()
    with place_at(WORLD) as found:
        shutil.copyfile(own, found.directory / REAL)
        found.own(found.directory / REAL)
        yield found


# claim TG-C-205
def test_a_real_model_comes_from_its_publisher_through_the_proxy(place: Place) -> None:
    cli = settle(place, place.directory / "puller")
    done = cli("model", "pull", models.NAME, "--source", "publisher")
    assert done.out == f"{models.NAME}  brought, and its digest is right\n"
    kept = cli.base / ".cache/threegate/models" / f"{models.SHA256}.gguf"
    assert kept.stat().st_size == models.smallest().stat().st_size
    hosts = {event["host"] for event in place.seen() if event["event"] == "request"}
    assert hosts == {FRONT, STORE}
    items = cli("audit", "show", "--json", "--limit", "1000").json["items"]
    [asked] = [item["data"] for item in items if item["kind"] == "model.pull"]
    [ended] = [item["data"] for item in items if item["kind"] == "model.pulled"]
    assert (asked["sha256"], asked["from"]) == (models.SHA256, 0)
    assert ended["hosts"] == [FRONT, STORE]
    assert cli("audit", "verify").code == 0
    assert "was here, and is intact" in cli("model", "pull", models.NAME).out


def test_a_publisher_that_is_not_listed_is_not_asked_and_the_command_says_why(
    place: Place,
) -> None:
    listed = "hosts: [huggingface.co, cas-bridge.xethub.hf.co]"
    cli = settle(place, place.directory / "other", (listed, "hosts: [models.example.org]"))
    before = len(place.arrived())
    refused = cli("model", "pull", models.NAME, "--source", "publisher", code=69)
    assert "the list of downloads does not have the host huggingface.co" in refused.err
    assert "[TG-MDL-046]" in refused.err
    assert place.arrived()[before:] == []
    assert not list((cli.base / ".cache/threegate/models").glob("*.gguf"))
