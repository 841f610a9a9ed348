"""The host's side of a box of the lite lane: whatever a box does is an outcome, and told."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from tests.support import requests
from tests.support.lite import Program, job_for
from tests.support.policies import policy
from tests.support.requests import approved_request, live_workspace
from threegate.base.errors import GateUnavailable
from threegate.gates.tool_exec.monty.messages import CheckCode, CodeChecked, LiteJob, LiteOutcome
from threegate.handoff import states
from threegate.host.run import lifecycle, lite
from threegate.host.run.lite import GRACE_SECONDS, MAX_JOBS, Boxes, LiteBox, LiteRun
from threegate.host.workspace.workspace import Workspace
from threegate.sandbox.machine import Machine
from threegate.sandbox.session import Reply, Session

RULES = policy().bundle()
JOB = job_for(Program("1"), RULES)
CHECK = CheckCode("1", (), (), "pure")
DONE = Reply(LiteOutcome("ok", value=b"1").to_bytes(), "done", 5, 7)


@dataclass
class FakeSession:
    """Gives one reply to every question."""

    reply: Reply = DONE
    alive: bool = True
    closed: bool = False
    deadlines: list[float] = field(default_factory=list)

    def ask(self, request: bytes, *, deadline_seconds: float) -> Reply:
        assert request
        self.deadlines.append(deadline_seconds)
        return self.reply

    def close(self) -> None:
        self.closed = True


def box_with(session: FakeSession) -> LiteBox:
    return LiteBox(cast("Session", session), requests.BOX)


def test_an_ordinary_answer_leaves_the_box_for_the_next() -> None:
    session = FakeSession()
    box = box_with(session)
    ran = box.run(JOB, wall_ms=1500)
    assert ran == LiteRun(LiteOutcome("ok", value=b"1"), 5, 7)
    assert session.deadlines == [1.5 + GRACE_SECONDS], "the host has a limit of its own"
    assert box.usable
    session.alive = False
    assert not box.usable


@pytest.mark.parametrize(
    ("why", "state"),
    [
        ("deadline", "limit:time"),
        ("output", "limit:output"),
        ("protocol", "crashed"),
        ("exit", "crashed"),
        ("crashed", "crashed"),
    ],
)
def test_a_box_that_gives_no_answer_is_an_outcome_and_the_last_of_that_box(
    why: str, state: str
) -> None:
    # Bytes that came before the end are no answer, even if they read like one.
    box = box_with(FakeSession(replace(DONE, why=why)))
    ran = box.run(JOB, wall_ms=1000)
    assert (ran.outcome, ran.refused, ran.sent) == (LiteOutcome(state), None, True)
    assert not box.usable


@pytest.mark.parametrize("message", [b"", b"{}\n", b"\xff" * 9, CodeChecked(None).to_bytes()])
def test_what_is_no_answer_is_kept_as_it_is_and_counts_as_crashed(message: bytes) -> None:
    box = box_with(FakeSession(replace(DONE, message=message)))
    ran = box.run(JOB, wall_ms=1000)
    assert ran.outcome == LiteOutcome("crashed")
    assert ran.refused is not None
    assert ran.refused.open_for_validation() == message
    assert not box.usable


@pytest.mark.parametrize("state", ["crashed", "limit:time", "limit:memory", "limit:recursion"])
def test_a_box_is_not_used_again_after_a_program_that_reached_a_limit(state: str) -> None:
    box = box_with(FakeSession(replace(DONE, message=LiteOutcome(state).to_bytes())))
    assert box.run(JOB, wall_ms=1000).outcome.exit == state
    assert not box.usable


def test_a_box_serves_so_many_jobs_and_no_more() -> None:
    box = box_with(FakeSession())
    for _ in range(MAX_JOBS):
        assert box.usable
        box.run(JOB, wall_ms=1000)
    assert not box.usable


@pytest.mark.parametrize(
    "reply",
    [replace(DONE, why="exit"), replace(DONE, why="deadline"), replace(DONE, message=b"{}\n")],
)
def test_a_check_without_an_answer_says_so_and_what_to_do(reply: Reply) -> None:
    told = replace(DONE, message=CodeChecked(None).to_bytes())
    assert box_with(FakeSession(told)).check(CHECK) == CodeChecked(None), "control"
    box = box_with(FakeSession(reply))
    with pytest.raises(GateUnavailable, match="the lite lane ended") as refused:
        box.check(CHECK)
    assert "doctor" in (refused.value.hint or "")
    assert not box.usable


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeSession]]:
    sessions: list[FakeSession] = []

    def start(*_: object, **__: object) -> LiteBox:
        sessions.append(FakeSession())
        return box_with(sessions[-1])

    monkeypatch.setattr(lite, "start_box", start)
    yield sessions


def test_a_box_sees_one_level_only(started: list[FakeSession]) -> None:
    both = Boxes(RULES, cast("Machine", object()))
    first = both.box("public")
    assert both.box("public") is first, "control: the same level, the same box"
    assert both.box("confidential") is not first
    assert [session.closed for session in started] == [True, False]
    started[1].reply = replace(DONE, why="exit")
    both.box("confidential").run(JOB, wall_ms=1)
    both.box("confidential")
    assert [session.closed for session in started] == [True, True, False], "it was the last of it"
    both.close()
    both.close()
    assert all(session.closed for session in started)


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return live_workspace(tmp_path)


def held(ws: Workspace) -> list[str]:
    names = ws.store.names(states.directory_of("tr", "held"))
    return sorted(name.removesuffix(".md") for name in names if name.endswith(".md"))


def test_a_job_no_box_saw_is_tried_again_and_then_a_human_s(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    lost = approved_request(ws, "1")
    late = approved_request(ws, "2")

    def answer(job: LiteJob) -> LiteRun:
        seen.append(job.request)
        gone = job.request == ws.store.read_bytes(lost) or seen.count(job.request) < 2
        return LiteRun(LiteOutcome("crashed"), 0, 0, sent=False) if gone else requests.ok(job)

    requests.install(monkeypatch, answer)
    told = {report.request_id: report for report in lifecycle.run_requests(ws, [lost, late])}
    assert told[late].made is not None, "control: the second box saw it"
    assert isinstance(told[lost].error, GateUnavailable)
    assert seen.count(ws.store.read_bytes(lost)) == lifecycle.MAX_TRIES
    assert held(ws) == [lost], "its use is spent: nobody runs it again by themselves"


def test_a_job_a_box_has_seen_is_never_tried_again(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []

    def answer(job: LiteJob) -> LiteRun:
        seen.append(job.request)
        return LiteRun(LiteOutcome("crashed"), 0, 0)

    requests.install(monkeypatch, answer)
    (report,) = lifecycle.run_requests(ws, [approved_request(ws, "1")])
    assert report.made is not None
    assert report.made.result.exit == "crashed"
    assert len(seen) == 1
