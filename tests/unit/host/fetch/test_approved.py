"""Approved fetch requests: claimed before anything is asked, ended whatever happens."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.fetches import ARTICLE, MISSING, RETRACTED, Bench
from tests.support.requests import approved, held
from tests.support.workspaces import Clock, make_workspace
from threegate.base.errors import PolicyDenied, ThreeGateError, UsageError, WaitingForHuman
from threegate.base.untrusted import Untrusted
from threegate.host.fetch.items import FetchReport
from threegate.host.fetch.session import (
    all_approved,
    claim_requests,
    claim_work,
    dry_run_work,
    targets_of,
)
from threegate.host.fetch.session import carry_out as carried_out
from threegate.host.review.approval import Terms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bench(tmp_path: Path, clock: Clock) -> Bench:
    return Bench(make_workspace(tmp_path, clock=clock))


def request_for(bench: Bench, *references: str, uses: int | None = 1) -> str:
    """Take a request in; approve it for so many uses, if any."""
    made = samples.fetch_request(
        references=tuple(map(Untrusted, references)), want="metadata", confidentiality="internal"
    )
    sheet = held(bench.ws, replace(made, nonce=f"{len(references):032x}"))
    if uses is not None:
        approved(bench.ws, sheet, Terms(uses=uses) if uses > 1 else None)
    return sheet.id


def carry_out(bench: Bench, *requests: str, stop: bool = False) -> list[FetchReport]:
    work = claim_work(bench.ws, [], requests, lambda _: None)
    stopping = (lambda: bool(bench.origins.asked)) if stop else (lambda: False)
    return list(carried_out(bench.ws, bench.run(), work, stop=stopping))


def state(bench: Bench, request_id: str) -> str | None:
    with bench.ws.store.locked():
        return bench.ws.store.standing(request_id)


def refusal(bench: Bench, request_id: str) -> ThreeGateError:
    claimed = claim_requests(bench.ws, [request_id])
    assert claimed.ready == []
    ((found, error),) = claimed.refused
    assert found == request_id
    return error


def test_its_packets_name_the_request_and_it_is_done(bench: Bench) -> None:
    request = request_for(bench, ARTICLE, RETRACTED)
    assert all_approved(bench.ws) == [request]
    reports = carry_out(bench, request)
    assert {item.status for item in reports} == {"made"}
    packets = [item.packet for item in reports if item.packet is not None]
    assert {packet.request for packet in packets} == {request}
    assert {packet.confidentiality for packet in packets} == {"internal"}
    assert state(bench, request) == "done"
    authority = bench.origins.asked[0].ask.authority
    assert authority is not None
    assert authority.request == bench.ws.store.read_bytes(request), "the box can look for itself"


def test_what_nobody_approved_is_not_asked_for(bench: Bench) -> None:
    waiting = request_for(bench, ARTICLE, uses=None)
    error = refusal(bench, waiting)
    assert isinstance(error, WaitingForHuman)
    assert (error.code, error.exit_code) == ("TG-ASK-002", 75)
    assert carry_out(bench, waiting) == []
    assert bench.origins.asked == []


def test_an_approval_counts_once(bench: Bench) -> None:
    request = request_for(bench, ARTICLE)
    carry_out(bench, request)
    error = refusal(bench, request)
    assert isinstance(error, PolicyDenied)
    assert error.exit_code == 77


def test_what_has_uses_left_stays_approved(bench: Bench) -> None:
    request = request_for(bench, ARTICLE, uses=2)
    carry_out(bench, request)
    assert state(bench, request) == "approved"
    carry_out(bench, request)
    assert state(bench, request) == "done"
    first = [task for task in bench.origins.asked if task.host == "api.crossref.org"]
    assert len(first) == 2, "what was approved is asked for, though it is here"


def test_an_expired_approval_sends_it_back_to_the_human(bench: Bench, clock: Clock) -> None:
    request = request_for(bench, ARTICLE)
    clock.now += 20 * 86_400
    error = refusal(bench, request)
    assert (error.code, error.exit_code) == ("TG-APR-007", 77)
    assert state(bench, request) == "held"
    assert bench.origins.asked == []


def test_a_run_that_is_stopped_gives_it_back(bench: Bench) -> None:
    request = request_for(bench, ARTICLE, MISSING)
    bench.origins.answers.clear()  # every first answer is a 404: there is a second question
    carry_out(bench, request, stop=True)
    assert state(bench, request) == "held"


def test_an_error_gives_it_back_too(bench: Bench) -> None:
    request = request_for(bench, ARTICLE)
    bench.origins.dies_at = 0
    with pytest.raises(ThreeGateError):
        carry_out(bench, request)
    assert state(bench, request) == "held"


def test_a_failure_is_an_end(bench: Bench) -> None:
    request = request_for(bench, MISSING)
    (report,) = carry_out(bench, request)
    assert report.status == "failed"
    assert state(bench, request) == "done"


def test_a_rehearsal_claims_nothing(bench: Bench) -> None:
    request = request_for(bench, ARTICLE)
    work = dry_run_work(bench.ws, [], [request], lambda _: None)
    assert [target.reference for target in work.targets] == [ARTICLE]
    assert state(bench, request) == "approved"


def test_what_is_no_reference_is_told_and_left_out(bench: Bench) -> None:
    notes: list[str] = []
    (ready,) = claim_requests(bench.ws, [request_for(bench, ARTICLE)]).ready
    names = (Untrusted(ARTICLE), Untrusted("a book my aunt told me of"))
    # No review approves such a request; one approved by an earlier program may be here.
    older = replace(ready, request=replace(ready.request, references=names))
    targets = list(targets_of(bench.ws, older, notes.append))
    assert [target.reference for target in targets] == [ARTICLE]
    assert len(notes) == 1
    assert "is not asked for" in notes[0]


def test_a_request_that_is_not_here_is_a_slip(bench: Bench) -> None:
    assert isinstance(refusal(bench, "fr-" + "0" * 64), UsageError)
