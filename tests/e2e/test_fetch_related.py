"""`threegate fetch references` and `cited-by` on the test internet, with the real sandboxes.

Judged by the packets in the workspace and by what the far side wrote down.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fetches import gaps_of, hazards_of, packet_ids, packets, text_of
from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.origins import scholarly, works

ARTICLE = f"doi:{works.ARTICLE.doi}"
SECOND = f"doi:{works.SECOND_ARTICLE.doi}"
RETRACTED = f"doi:{works.RETRACTED.doi}"
PREPRINT = f"arxiv:{works.PREPRINT.arxiv}"
INJECTING = f"doi:{works.INJECTING.doi}"
ASK = ("operator_requests: allow", "operator_requests: ask")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with place_at(scholarly.WORLD) as found:
        yield found


@pytest.fixture(scope="module")
def cli(place: Place) -> PlaceCli:
    return settle(place, place.directory / "home", *scholarly.ARXIV_RATES)


def asked(place: Place, before: int) -> list[tuple[str, str]]:
    events = place.arrived()[before:]
    return [(one["host"], one["line"].split(" ")[1]) for one in events if one["event"] == "request"]


@pytest.fixture(scope="module")
def cited(place: Place, cli: PlaceCli) -> tuple[str, list[tuple[str, str]]]:
    before = len(place.arrived())
    return cli("fetch", "references", ARTICLE).out, asked(place, before)


def test_what_a_work_cites_is_one_list_of_three_sources(
    cli: PlaceCli, cited: tuple[str, list[tuple[str, str]]]
) -> None:
    said, _ = cited
    packet = packets(cli)[f"references:{ARTICLE}"]
    assert [packet.source, *(one.source for one in packet.also)] == [
        "crossref",
        "openalex",
        "semanticscholar",
    ]
    lines = [line.strip() for line in said.splitlines() if line.strip()[:1].isdigit()]
    assert lines[0] == f"1. {SECOND}  {works.SECOND_ARTICLE.title} (Holm, 2022)"
    title = works.RETRACTED.title.removeprefix("RETRACTED: ")
    assert lines[1] == f"2. {RETRACTED}  RETRACTED: {title} (Vane, 2021)"
    assert lines[2].startswith("3. no reference  Ferreira. A grain-size law"), "as it is printed"
    assert lines[3].startswith(f"4. {PREPRINT}  A grain-size law"), "as Semantic Scholar knows it"
    assert len(lines) == 4


# claim TG-C-540
def test_only_the_three_sources_are_asked_and_nothing_of_the_list_is_fetched(
    cli: PlaceCli, cited: tuple[str, list[tuple[str, str]]]
) -> None:
    _, lines = cited
    hosts = ["api.crossref.org", "api.openalex.org", "api.semanticscholar.org"]
    assert sorted({host for host, _ in lines}) == hosts
    assert not any(str(one.doi) in line for one in works.CITES[works.ARTICLE] for _, line in lines)
    filtered = [line for host, line in lines if host == hosts[1] and "filter=" in line]
    assert ["cited_by:W9100000017" in line for line in filtered] == [True]
    got = packets(cli).keys()
    assert {ARTICLE, f"references:{ARTICLE}"} <= got, "the work, for its OpenAlex identifier"
    assert not {SECOND, RETRACTED} & got


def test_chosen_numbers_are_fetched_and_then_marked_as_here(
    place: Place, cli: PlaceCli, cited: tuple[str, list[tuple[str, str]]]
) -> None:
    assert cited
    before = len(place.arrived())
    done = cli("fetch", "references", ARTICLE, "--get", "2,4", "--enrich", "none")
    assert f"already here {packet_ids(cli)[f'references:{ARTICLE}'][:15]}" in done.out
    lines = asked(place, before)
    assert {host for host, _ in lines} == {"api.crossref.org", "export.arxiv.org"}
    got = packet_ids(cli)
    assert {RETRACTED, PREPRINT} <= got.keys()
    assert SECOND not in got, "not chosen"
    again = cli("fetch", "references", packet_ids(cli)[ARTICLE]).out
    (line,) = [line for line in again.splitlines() if line.strip().startswith("2.")]
    assert f"{RETRACTED} (already here {got[RETRACTED][:15]}" in line
    assert "which says RETRACTED" in line


def test_who_cites_a_work_is_hostile_text(place: Place, cli: PlaceCli) -> None:
    before = len(place.arrived())
    done = cli("fetch", "cited-by", ARTICLE, "--json")
    (listed,) = [one for one in json.loads(done.out)["items"] if one["candidates"]]
    found: list[dict[str, Any]] = listed["candidates"]
    assert [one["reference"] for one in found] == [f"doi:{works.PUBMED_ARTICLE.doi}", INJECTING]
    assert [one["number"] for one in found] == [1, 2]
    assert found[1]["title"] == works.INJECTING.title
    packet = packets(cli)[f"cited-by:{ARTICLE}"]
    assert packet.integrity == "external"
    assert hazards_of(packet)["injection-like"] >= 1
    assert "collect.example.net" not in text_of(packet), "a list has no abstracts"
    hosts = {host for host, _ in asked(place, before)}
    assert {"api.openalex.org", "api.semanticscholar.org"} <= hosts
    assert "api.crossref.org" not in {h for h, line in asked(place, before) if "cites" in line}


def test_a_source_that_withholds_its_list_is_a_gap(cli: PlaceCli) -> None:
    cli("fetch", "references", RETRACTED)
    packet = packets(cli)[f"references:{RETRACTED}"]
    assert gaps_of(packet) == {"openalex": "not-found", "semanticscholar": "denied"}
    assert str(works.SILENT.doi) in text_of(packet), "control: Crossref lists it"


def test_a_list_of_one_source(place: Place, cli: PlaceCli) -> None:
    before = len(place.arrived())
    cli("fetch", "cited-by", PREPRINT, "--source", "semanticscholar", "--rows", "7")
    (only,) = asked(place, before)
    assert only[0] == "api.semanticscholar.org"
    assert "/ARXIV:2610.99901/citations?" in only[1]
    assert only[1].endswith("limit=7")


def test_a_work_that_nobody_cites_is_said(cli: PlaceCli) -> None:
    done = cli("fetch", "cited-by", f"doi:{works.BUSY.doi}", "--source", "semanticscholar", code=69)
    assert "no source lists any" in done.out


def test_dry_run_names_the_lists_and_asks_nobody(place: Place, cli: PlaceCli) -> None:
    before = len(place.arrived())
    known = cli("fetch", "--dry-run", "cited-by", ARTICLE, "--max-age", "0s").out
    assert "filter=cites:W9100000017" in known
    unknown = cli("fetch", "--dry-run", "references", f"doi:{works.BUSY.doi}")
    assert "/works/doi:10.5555%2Fthreegate.busy.2020.9" in unknown.out
    assert "/references?fields=" in unknown.out
    assert "openalex is asked for the list if" in unknown.err
    assert asked(place, before) == []


# claim TG-C-540
def test_a_list_leaves_only_where_policy_lets_the_operator_ask(place: Place, cli: PlaceCli) -> None:
    careful = settle(place, place.directory / "careful", ASK)
    assert cli("fetch", "cited-by", PREPRINT).code == 0, "control: it leaves where policy allows"
    before = len(place.arrived())
    for words in (("references", ARTICLE), ("cited-by", ARTICLE), ("cited-by", PREPRINT)):
        done = careful("fetch", *words, code=77)
        assert "cannot be held for approval" in done.out, words
    assert asked(place, before) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("references",), "`fetch references` takes one work"),
        (("cited-by", ARTICLE, SECOND), "`fetch cited-by` takes one work"),
        (("cited-by", ARTICLE, "--source", "crossref"), "does not list cited-by"),
        (("cited-by", "https://example.org/"), "sources list what works cite, not pages"),
        (("references", ARTICLE, "--rows", "1000"), "rows are between 1 and 100"),
        (("references", ARTICLE, "--get", "2-1"), "is not a choice from a list"),
        (("references", ARTICLE, "--get", "1,x"), "is not a choice from a list"),
        (("references", ARTICLE, "--get", "1", "--dry-run"), "has no list to choose from"),
        (("references", ARTICLE, "--approved"), "do not go with `fetch references`"),
        ((ARTICLE, "--get", "1"), "--source, --rows and --get belong to a list"),
    ],
)
def test_wrong_words_are_a_usage_error(
    place: Place, cli: PlaceCli, words: tuple[str, ...], said: str
) -> None:
    before = len(place.arrived())
    assert said in cli("fetch", *words, code=2).err
    assert asked(place, before) == []


# claim TG-C-540
def test_a_number_that_is_not_in_the_list_fetches_nothing(place: Place, cli: PlaceCli) -> None:
    cli("fetch", "references", ARTICLE)
    before = len(place.arrived())
    for numbers, said in (("9", "the list has no number 9; its last is 4"),
                          ("3", "number 3 has no identifier that can be fetched")):  # fmt: skip
        assert said in cli("fetch", "references", ARTICLE, "--get", numbers, code=2).err
    assert asked(place, before) == []
