"""`import --lookup` and `packet lookup` on the test internet: identity is checked, then joined."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fetches import requests
from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.origins import scholarly, works
from tests.support.origins.scholarly import PAGES_RULE
from tests.support.pdfs import line, pdf

CLAIM = "Ice with much salt broke at 2.40 MPa."
QUESTION = "At which strength did ice with much salt break?"


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with place_at(scholarly.WORLD) as found:
        yield found


@pytest.fixture
def cli(place: Place, tmp_path: Path) -> PlaceCli:
    return settle(place, place.directory / f"home-{tmp_path.name}", PAGES_RULE)


def paper(cli: PlaceCli, name: str, title: str, doi: str, author: str = "G. Vane") -> Path:
    path = cli.base / name
    lines = (title, author, f"doi:{doi}", CLAIM)
    page = b"".join(line(text, y=700 - 40 * n) for n, text in enumerate(lines))
    path.write_bytes(pdf(page))
    return path


def labels(cli: PlaceCli) -> set[str]:
    found = cli("ask", "--extractive", QUESTION, "--json").json
    return {claim["label"] for claim in found["claims"] if "2.40" in claim["text"]}


# claim TG-C-576
def test_a_quote_from_a_file_is_of_a_retracted_work_once_a_registry_was_asked(
    place: Place, cli: PlaceCli
) -> None:
    doi = works.RETRACTED.doi or ""
    path = paper(cli, "salt.pdf", "Salt makes lake ice stronger", doi)
    made = cli("import", path, "--json").json["files"][0]
    assert labels(cli) == {"quote found"}, "control: before the lookup nobody was asked"
    (found,) = cli("packet", "lookup", "--json").json["packets"]
    assert (found["status"], found["retraction"]) == ("joined", "retracted")
    assert found["reference"] == f"doi:{doi}"
    assert requests(place.seen(), "api.crossref.org", "2021.7"), "the registry was asked"
    shown = cli("packet", "show", found["new_id"]).out
    assert "RETRACTED" in shown
    assert made["id"] in shown, "it names the packet that it replaces"
    assert labels(cli) == {"source retracted"}
    again = cli("import", path, "--json").json["files"][0]
    assert (again["status"], again["id"]) == ("already", found["new_id"])
    assert "verified" in cli("audit", "verify").out
    remade = cli("packet", "remake", found["new_id"]).out
    assert remade.startswith("same ")


# claim TG-C-576
def test_an_identifier_of_another_work_is_not_believed(cli: PlaceCli) -> None:
    path = paper(
        cli, "soup.pdf", "A cookbook of winter soups", works.RETRACTED.doi or "", "A. Cook"
    )
    done = cli("import", path, "--lookup")
    assert f"the file names doi:{works.RETRACTED.doi}, which is another work" in done.out
    assert "Salt makes lake ice stronger" in done.out
    (one,) = [
        item for item in cli("packet", "list", "--json").json["items"] if "soup" in item["title"]
    ]
    assert one["origin"] == "imported"


def test_a_lookup_that_nobody_answers_says_so_and_loses_nothing(cli: PlaceCli) -> None:
    path = paper(cli, "unknown.pdf", "A work nobody registered", "10.5555/threegate.nowhere.1")
    done = cli("import", path, "--lookup", code=None)
    assert done.code not in (0, 1, os.EX_SOFTWARE)
    assert "no registry answered doi:10.5555/threegate.nowhere.1" in done.out
    assert [item["origin"] for item in cli("packet", "list", "--json").json["items"]] == [
        "imported"
    ]


# claim TG-C-576
def test_a_packet_that_was_brought_is_not_looked_up_and_stays_brought(
    place: Place, cli: PlaceCli
) -> None:
    path = paper(cli, "salt.pdf", "Salt makes lake ice stronger", works.RETRACTED.doi or "")
    made = cli("import", path, "--json").json["files"][0]
    assert cli.workspace is not None
    packet = cli.workspace / "handoff" / "packets" / "accepted" / f"{made['id']}.md"
    other = settle(place, cli.base / "other", PAGES_RULE)
    before = len(place.seen())
    assert "accepted" in other("admit", packet).out
    assert "no imported file waits" in other("packet", "lookup").out
    refused = other("packet", "lookup", made["id"], code=65)
    assert "was not imported from a file" in refused.err
    assert len(place.seen()) == before, "nobody was asked"
    (one,) = other("packet", "list", "--json").json["items"]
    assert one["origin"] == "brought"
    (found,) = cli("packet", "lookup", "--json").json["packets"]
    assert found["status"] == "joined", "control: the same packet where its file was imported"
