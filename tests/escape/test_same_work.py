"""Two packets of one work: each view knows of both, however the identifiers are spelled.

The attack in each test is a second packet with another spelling of the DOI; the control is a
packet of a different work, or the same view before the second packet came.
"""

from pathlib import Path

import pytest

from tests.support.cli import Cli, made
from tests.support.console import console
from tests.support.holdings import paper
from tests.support.normalization import STRENGTH, fetched, retrieval
from tests.support.samples import box
from threegate.artifacts import registry
from threegate.artifacts.ids import digest_of, short
from threegate.artifacts.research_packet import Identifier, ResearchPacket
from threegate.host.provenance.headlines import RESTS_ON_RETRACTED
from threegate.host.workspace.workspace import open_workspace

QUESTION = "How thick is lake ice?"
WORK = paper(7, "Lake ice is 31 cm thick.", title="On lake ice")
OTHER = paper(8, "Lake snow is 12 cm thick.", title="On lake snow")
SPELLINGS = ("10.5555/TG.7", "https://doi.org/10.5555/tg.7")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


def again(spelled: str, **changes: object) -> ResearchPacket:
    """Return another packet of `WORK` under another spelling of its DOI."""
    named = {"reference": box("pmid:31452104"), "identifiers": (Identifier("doi", box(spelled)),)}
    made = {"title": "A notice", **named, **changes}
    return paper(7, f"A notice on {spelled}.", **made)  # type: ignore[arg-type]


def admitted(cli: Cli, *packets: ResearchPacket) -> list[str]:
    for one in packets:
        cli("admit", "-", stdin=registry.emit(one))
    return [registry.id_of(one) for one in packets]


def items(cli: Cli, *argv: str) -> dict[str, dict[str, object]]:
    return {one["id"]: one for one in cli(*argv, "--json").json["items"]}


@pytest.mark.parametrize("spelled", SPELLINGS)
# claim TG-C-457
def test_withdraw_and_forget_name_the_other_packets_of_the_work(cli: Cli, spelled: str) -> None:
    first, second, third, other = admitted(
        cli, WORK, again(spelled), again(spelled.upper(), published="2023"), OTHER
    )
    ask = ("--reason", "wrong", "--yes")
    alone = cli("withdraw", other, *ask, "--json").json
    assert alone["same_work"] == [], "control: a different work"
    done = cli("withdraw", first, *ask, "--json").json
    assert sorted(done["same_work"]) == sorted([second, third])
    said = cli("forget", second, *ask).out.splitlines()
    assert f"of the same work, still here: {third}" in said
    assert cli("forget", third, *ask, "--json").json["same_work"] == []


@pytest.mark.parametrize("spelled", SPELLINGS)
# claim TG-C-457
def test_a_list_says_which_packet_is_of_a_work_that_is_listed_above(cli: Cli, spelled: str) -> None:
    first, other = admitted(cli, WORK, OTHER)
    assert {one["note"] for one in items(cli, "packet", "list").values()} == {""}, "control"
    (second,) = admitted(cli, again(spelled))
    for argv in (("packet", "list"), ("packet", "search", "lake")):
        notes = {one: item["note"] for one, item in items(cli, *argv).items()}
        if second in notes:  # newest first
            assert notes == {second: "", other: "", first: f"same work as {short(second)}"}
        else:
            assert notes == {first: "", other: ""}, "control: the other one is not in this list"
    line = next(one for one in cli("packet", "list").out.splitlines() if short(first) in one[:20])
    assert f"same work as {short(second)}" in line


# claim TG-C-457
def test_an_export_has_one_entry_for_a_work_and_says_retracted_once(cli: Cli) -> None:
    admitted(cli, WORK, OTHER)
    assert cli("packet", "export", "--format", "bibtex").out.count("doi = {10.5555/tg.7}") == 1
    notice = again(SPELLINGS[0], retraction="retracted", container=None, authors=())
    bare = again(SPELLINGS[1], title="RETRACTED: RETRACTED: On lake ice", container=None)
    admitted(cli, notice, bare)
    for form in ("bibtex", "ris"):
        done = cli("packet", "export", "--format", form)
        titles = [one for one in done.out.splitlines() if "On lake ice" in one]
        assert len(titles) == 1, done.out
        assert titles[0].count("RETRACTED") == 1, "of any packet of the work"
        assert done.out.count("On lake snow") == 1
        assert "left out 2 packets of works that have an entry" in done.err
        (snow,) = [one for one in done.out.splitlines() if "On lake snow" in one]
        assert "RETRACTED" not in snow, "control: a different work"


def seen(cli: Cli, answer: str, packet: str, request: str) -> dict[str, bool]:
    """Tell for each view whether it says RETRACTED beside the source."""
    text = cli("analysis", "show", answer).out
    (cite,) = [one for one in text.splitlines() if one.endswith(f", {short(packet)}")]
    report = cli("report", answer, "--format", "md").out
    sheet = cli("review", "show", request).out
    listed = items(cli, "analysis", "list")[answer]
    return {
        "cite": "RETRACTED" in cite,
        "label": "Claim 1: source retracted" in text,
        "report": "RETRACTED: according to" in report,
        "graph": "RETRACTED" in cli("audit", "graph", answer).out,
        "review": "RETRACTED" in sheet,
        "flag": "RETRACTED: according to" in cli("review", "show", request, "--json").out,
        "analysis list": listed["cautions"] == [RESTS_ON_RETRACTED],
        "lines": RESTS_ON_RETRACTED in cli("analysis", "list").out,
        "status": "1 answer on retracted works" in cli("status").out,
        "status --json": cli("status", "--json").json["answers_on_retracted"]
        == [{"id": answer, "question": QUESTION}],
    }


# claim TG-C-457, TG-C-481
def test_a_second_packet_that_says_retracted_is_heard_in_every_view(
    cli: Cli, tmp_path: Path
) -> None:
    packet, other = admitted(cli, WORK, OTHER)
    answer = cli("ask", "--extractive", "--json", QUESTION, "--packets", packet).json["id"]
    code = tmp_path / "code.py"
    code.write_text("len(table)")
    asked = ("--purpose", "Count.", "--code", code, "--input", f"table={packet}")
    request = cli("request", "new", *asked, "--json").json["id"]
    assert not any(seen(cli, answer, packet, request).values()), "control: before"
    admitted(cli, again(SPELLINGS[0], retraction="retracted"))
    found = seen(cli, answer, packet, request)
    assert all(found.values()), [view for view, heard in found.items() if not heard]
    about = ("ask", "--extractive", "--json", "How thick is lake snow?", "--packets", other)
    cites = [one for claim in cli(*about).json["claims"] for one in claim["cites"]]
    assert cites
    assert not any("RETRACTED" in one["cautions"] for one in cites), "control: a different work"
    about = ("ask", "--extractive", "--json", QUESTION, "--packets", packet)
    (claim,) = cli(*about).json["claims"]
    assert claim["label"] == "source retracted"
    assert "RETRACTED" in claim["cites"][0]["cautions"]


# claim TG-C-481
def test_status_and_the_inbox_name_answers_on_retracted_works_by_their_question(cli: Cli) -> None:
    (packet,) = admitted(cli, WORK)
    answer = cli("ask", "--extractive", "--json", QUESTION, "--packets", packet).json["id"]
    with console(cli, "--no-run") as served:
        known = served.login()

        def inbox() -> str:
            return served.ask("GET", "/inbox", **known)[2].decode()

        assert "retracted" not in inbox(), "control"
        assert "RETRACTED" not in cli("status").out, "control"
        admitted(cli, again(SPELLINGS[1], retraction="retracted"))
        page = inbox()
        assert "1 answer on retracted works" in page
        assert QUESTION in page
        assert f'href="/artifact/{answer}"' in page
        listing = served.ask("GET", "/analyses", **known)[2].decode()
        assert RESTS_ON_RETRACTED in listing
    lines = cli("status").out.splitlines()
    assert f'  RETRACTED {short(answer)} "{QUESTION}"' in lines
    assert any(one.startswith("RETRACTED ") and "1 answer" in one for one in lines)


# claim TG-C-14
def test_a_packet_whose_record_or_raw_bytes_were_forgotten_does_not_read_as_retrieved(
    cli: Cli,
) -> None:
    assert cli.workspace is not None
    both = [retrieval(), retrieval(STRENGTH.replace("1.31", "2.62"))]
    ws = open_workspace(cli.workspace)
    packet, other = (fetched(ws.store, one) for one in both)
    ws.close()
    origins = {one: item["origin"] for one, item in items(cli, "packet", "list").items()}
    assert origins == {packet: "retrieved", other: "retrieved"}, "control"
    for forgotten in (both[0].packet.record_sha256, both[0].packet.raw_sha256):
        cli("forget", f"blob-{forgotten}", "--reason", "private", "--yes")
        origins = {one: item["origin"] for one, item in items(cli, "packet", "list").items()}
        assert origins == {packet: "raw-forgotten", other: "retrieved"}
    shown = cli("packet", "show", packet).out
    assert "! RAW BYTES FORGOTTEN: retrieved here; its record or raw bytes were forgotten" in shown
    told = cli("packet", "remake", "--json").json["packets"]
    assert {one["packet_id"]: one["verdict"] for one in told}[other] == "same", "control"
    assert digest_of(packet) in cli("packet", "show", packet, "--json").out
