"""A dry run: every question with its verdict, how each host would be asked, nothing done."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fetches import ARTICLE, Bench
from tests.support.workspaces import Clock, files_below, make_workspace, settings_for
from threegate.artifacts.references import parse_reference
from threegate.host.fetch import credentials
from threegate.host.fetch.budgets import Budgets
from threegate.host.fetch.dry_run import (
    PlannedQuestion,
    bounds,
    host_document,
    host_line,
    line,
    plan_questions,
)
from threegate.host.fetch.targets import FetchTarget, contact_of, refusal, search_target, target_for

OUTSIDE = "https://publisher.example/paper"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(make_workspace(tmp_path, clock=Clock()))


def rich(bench: Bench) -> FetchTarget:
    return target_for(
        parse_reference(ARTICLE),
        bench.ws.bundle,
        want="metadata",
        enrich=("openalex",),
        confidentiality="public",
    )


def rehearsal(bench: Bench, *targets: FetchTarget, age: int = 86_400) -> list[PlannedQuestion]:
    settings = settings_for(bench.ws.root.parent)
    return list(plan_questions(bench.ws, settings, targets, max_age_seconds=age))


def test_every_question_is_shown_with_its_verdict(bench: Bench) -> None:
    found = rehearsal(bench, rich(bench), bench.target(OUTSIDE))
    assert [(item.source, item.verdict) for item in found] == [
        ("crossref", "ask"),
        ("datacite", "ask-if"),
        ("openalex", "ask"),
        ("url", "refused"),
    ]
    shown = [line(item) for item in found]
    assert shown[0].startswith("ask crossref https://api.crossref.org/works/")
    assert shown[1].endswith("(if crossref does not have it)")
    assert shown[3] == f"refused url {OUTSIDE} (no rule matched)"


def test_a_key_is_redacted_where_it_would_stand(bench: Bench) -> None:
    settings = settings_for(bench.ws.root.parent)
    credentials.store(settings, bench.ws.bundle, "api.openalex.org", b"canary-4711")
    (asked,) = [item for item in rehearsal(bench, rich(bench)) if item.source == "openalex"]
    assert asked.url.endswith("?api_key=REDACTED")


def test_what_is_here_is_not_asked_for(bench: Bench) -> None:
    (report,) = bench.fetch(ARTICLE)
    found = rehearsal(bench, bench.target(ARTICLE))
    assert {item.verdict for item in found} == {"here"}
    assert line(found[0]) == f"already here {(report.packet_id or '')[:15]}"
    assert rehearsal(bench, bench.target(ARTICLE), age=0)[0].verdict == "ask"


def test_how_a_host_would_be_asked(bench: Bench, tmp_path: Path) -> None:
    budgets = Budgets(tmp_path / "budgets", bench.ws.clock)
    rules = {"rate_per_minute": 240, "bytes_per_day": 512 * 2**20}
    budgets.spend("api.crossref.org", requests=40, bytes=2**20, **rules)
    found = {item.host: item for item in bounds(bench.ws, budgets, rehearsal(bench, rich(bench)))}
    assert list(found) == ["api.crossref.org", "api.datacite.org", "api.openalex.org"]
    shown = host_line(found["api.crossref.org"])
    assert "1 question at most, 240 a minute, 1 at a time" in shown
    assert "200 requests left in this minute, 511MiB left today" in shown
    assert host_document(found["api.crossref.org"])["requests_left"] == 200


def test_nothing_is_written_but_what_is_known(bench: Bench) -> None:
    before = files_below(bench.ws.root)
    rehearsal(bench, rich(bench))
    new = {name for name in files_below(bench.ws.root) if name not in before}
    assert all(name.startswith("fetched.sqlite") for name in new)
    assert bench.origins.asked == []


def test_a_refusal_names_host_and_reason_once(bench: Bench) -> None:
    assert refusal(bench.ws.bundle, bench.target(ARTICLE)) is None, "control"
    error = refusal(bench.ws.bundle, bench.target(OUTSIDE))
    assert error is not None
    assert error.message == "publisher.example: no rule matched"
    odd = refusal(bench.ws.bundle, bench.target("https://publisher.example:8443/paper"))
    assert odd is not None
    assert odd.message == "URL refused: a port other than 443"


def test_the_same_questions_at_another_level_are_another_plan(bench: Bench) -> None:
    target = bench.target(ARTICLE)
    assert target.plan == bench.target(ARTICLE).plan
    assert target.plan != replace(target, confidentiality="internal").plan
    assert target.plan != rich(bench).plan


def test_a_search_is_a_wish_of_one_question(bench: Bench) -> None:
    found = search_target(
        "lake ice", bench.ws.bundle, source="crossref", rows=5, confidentiality="public"
    )
    assert (found.scheme, found.want, len(found.questions)) == ("search", "search", 1)
    assert contact_of(bench.ws.bundle) is None
