"""What people and scripts are told: one line per item, the worst first, nothing raw."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fetches import ARTICLE, MISSING, RETRACTED, Bench
from tests.support.workspaces import make_workspace
from threegate.artifacts.research_packet import Gap, Hazard
from threegate.base.untrusted import Untrusted
from threegate.host.fetch.items import FetchMoment, FetchReport
from threegate.host.fetch.text_form import MOST_SHOWN, FetchProgress, document, lines, totals


@pytest.fixture
def reports(tmp_path: Path) -> dict[str, FetchReport]:
    bench = Bench(make_workspace(tmp_path))
    found = bench.fetch(ARTICLE, RETRACTED, MISSING, "https://publisher.example/x")
    return {item.target.reference: item for item in found}


def test_a_packet_is_one_line_with_its_id_and_title(reports: dict[str, FetchReport]) -> None:
    report = reports[ARTICLE]
    (line,) = lines(report)
    assert report.packet is not None
    title = report.packet.title.open_for_display()
    words = f'"{title} (Ingrid Solheim et al., 2024)"'
    assert line == f"made {(report.packet_id or '')[:15]} {ARTICLE}: {words}"


def test_a_retraction_stands_before_the_title(reports: dict[str, FetchReport]) -> None:
    line = next(lines(reports[RETRACTED]))
    packet = reports[RETRACTED].packet
    assert packet is not None
    assert packet.title.open_for_display().startswith("RETRACTED: "), "control"
    assert f'{RETRACTED} RETRACTED: "Salt makes lake ice stronger (' in line
    assert line.count("RETRACTED") == 1


def test_a_test_source_is_named(reports: dict[str, FetchReport]) -> None:
    packet = reports[ARTICLE].packet
    assert packet is not None
    shown = replace(reports[ARTICLE], packet=replace(packet, trust_anchor="0" * 64))
    assert f"{ARTICLE} TEST SOURCE: " in next(lines(shown))
    assert document(shown)["cautions"][0].startswith("TEST SOURCE: ")


def test_gaps_and_hazards_stand_below(reports: dict[str, FetchReport]) -> None:
    packet = reports[ARTICLE].packet
    assert packet is not None
    packet = replace(
        packet,
        gaps=(Gap("openalex", Untrusted(ARTICLE), "timed-out"),),
        hazards=(Hazard("injection-like", 2),),
    )
    shown = replace(reports[ARTICLE], packet=packet)
    assert list(lines(shown))[1:] == ["  missing: openalex timed-out", "  found: injection-like 2"]
    told = document(shown)
    assert told["hazards"] == {"injection-like": 2}
    assert told["gaps"][0]["reason"] == "timed-out"


def test_what_is_no_packet_says_why(reports: dict[str, FetchReport]) -> None:
    failed = list(lines(reports[MISSING]))
    assert failed[0].startswith(f"failed TG-FET-018 {MISSING}: crossref: ")
    refused = list(lines(reports["https://publisher.example/x"]))
    assert refused[0].startswith("refused TG-FET-073 https://publisher.example/x: ")
    assert refused[1].startswith("  hint: ")
    kept = replace(reports[MISSING], status="refused", kept="ab" * 32)
    assert "  kept in quarantine: `threegate quarantine show abababababab`" in lines(kept)


def test_a_script_gets_the_same_fields_for_every_item(reports: dict[str, FetchReport]) -> None:
    told = [document(report) for report in reports.values()]
    assert len({tuple(item) for item in told}) == 1
    statuses = {item["reference"]: item["status"] for item in told}
    assert statuses[ARTICLE] == "made"
    assert statuses[MISSING] == "failed"


def test_totals_name_what_was_not_finished(reports: dict[str, FetchReport]) -> None:
    told = totals(list(reports.values()), 6)
    assert told == "6 references: 2 made, 1 refused, 1 failed, 2 not finished"


def test_the_board_has_a_line_per_item_under_way() -> None:
    drawn: list[list[str]] = []
    progress = FetchProgress(lambda rows: drawn.append(list(rows)), 40)
    for number in range(MOST_SHOWN + 3):
        progress.moment(FetchMoment(number, f"doi:10.5555/{number}", "asking api.crossref.org"))
    assert drawn[-1][0] == "fetching: 0 of 40"
    assert drawn[-1][1] == "  doi:10.5555/0: asking api.crossref.org"
    assert drawn[-1][-1] == "  and 3 more"
    assert len(drawn[-1]) == MOST_SHOWN + 2


def test_the_board_counts_what_ended(reports: dict[str, FetchReport]) -> None:
    drawn: list[list[str]] = []
    progress = FetchProgress(lambda rows: drawn.append(list(rows)), 2)
    report = reports[ARTICLE]
    progress.moment(FetchMoment(report.number, ARTICLE, "making the packet"))
    progress.ended(report)
    assert drawn[-1] == ["fetching: 1 of 2 (1 made)"]


def test_a_long_wait_is_worth_a_line_anywhere() -> None:
    notes: list[str] = []
    progress = FetchProgress(lambda _: None, 2, note=notes.append)
    for seconds in (2.0, 30.0):
        words = f"waiting {seconds:.0f} s for export.arxiv.org: its turn"
        progress.moment(FetchMoment(0, "arxiv:2610.99901", words, seconds))
    assert notes == ["arxiv:2610.99901: waiting 30 s for export.arxiv.org: its turn"]
