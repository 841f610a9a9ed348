"""Approved requests through real boxes: what a run leaves, and what it refuses to start."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.requests import approve_for, approved_request, live_workspace, request_for
from tests.support.workspaces import keep_blob, take_in
from threegate.artifacts import registry
from threegate.artifacts.tool_request import Input
from threegate.artifacts.tool_result import ToolResult
from threegate.base.errors import GateUnavailable
from threegate.handoff import states
from threegate.host.run import lite
from threegate.host.run.lifecycle import Report, run_requests
from threegate.host.workspace.backup import silent
from threegate.host.workspace.verification import verify_workspace
from threegate.host.workspace.workspace import Workspace
from threegate.sandbox.machine import find_machine


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return live_workspace(tmp_path)


def run(ws: Workspace, *request_ids: str) -> list[Report]:
    return list(run_requests(ws, request_ids))


def result_of(ws: Workspace, *request_ids: str) -> ToolResult:
    (report,) = run(ws, *request_ids)
    assert report.error is None, report.error
    assert report.made is not None
    stored = ws.store.read(report.made.id)
    assert isinstance(stored, ToolResult)
    return stored


def state(ws: Workspace, artifact_id: str) -> str:
    place = ws.store.locate(artifact_id)
    assert place is not None
    return states.state_of(place)


def approvals(ws: Workspace, where: str) -> int:
    names = ws.store.names(states.directory_of("ap", where))
    return sum(name.endswith(".md") for name in names)


def test_an_approved_request_runs_once_and_leaves_a_result(ws: Workspace) -> None:
    request_id = approved_request(ws, "print('counted')\n{'sum': 1 + 1}")
    result = result_of(ws, request_id)
    assert (result.exit, result.value_text.open_for_display()) == ("ok", '{"sum": 2}')
    assert result.stdout_text.open_for_display() == "counted\n"
    assert result.request == request_id
    proved = {item.mechanism for item in result.evidence}
    assert proved >= {"call", "landlock", "network", "socket", "limit", "read-only"}
    assert {item.name for item in result.versions} >= {"monty-sha256", "threegate", "kernel"}
    assert (state(ws, request_id), approvals(ws, "spent")) == ("done", 1)
    (again,) = run(ws, request_id)
    assert again.error is not None
    assert "has run" in again.error.message


def test_inputs_are_values_and_labels_travel(ws: Workspace) -> None:
    rows = json.dumps([{"x": 1}, {"x": 41}]).encode()
    digest = keep_blob(ws, rows)
    request_id = approved_request(
        ws,
        "sum(row['x'] for row in rows)",
        inputs=(Input("rows", f"blob-{digest}", len(rows), None),),
        confidentiality="confidential",
    )
    result = result_of(ws, request_id)
    assert (result.value_text.open_for_display(), result.confidentiality) == ("42", "confidential")
    assert result.integrity == "external"


def test_an_approval_with_uses_left_keeps_its_request_approved(ws: Workspace) -> None:
    request_id = approved_request(ws, "7", uses=2)
    result_of(ws, request_id)
    assert (state(ws, request_id), approvals(ws, "accepted")) == ("approved", 1)
    result_of(ws, request_id)
    assert (state(ws, request_id), approvals(ws, "spent")) == ("done", 1)


@pytest.mark.parametrize(
    ("code", "exit_state"),
    [
        ("1/0", "error"),
        ("while True:\n    pass", "limit:time"),
        ("x = 'a' * 10**9", "limit:memory"),
        ("import os", "refused:import"),
    ],
)
def test_however_it_ends_there_is_a_result(ws: Workspace, code: str, exit_state: str) -> None:
    request = request_for(ws, code)
    request = replace(request, limits=replace(request.limits, wall_ms=500))
    take_in(ws, request)
    approve_for(ws, request)
    assert result_of(ws, registry.id_of(request)).exit == exit_state


def test_many_of_several_levels_run_in_order_of_asking_and_verify(ws: Workspace) -> None:
    levels = ("public", "confidential", "internal")
    ids = [approved_request(ws, str(n), confidentiality=levels[n % 3]) for n in range(9)]
    reports = run(ws, *ids)
    values = {r.request_id: r.made.result.value_text.open_for_display() for r in reports if r.made}
    assert values == {request_id: str(n) for n, request_id in enumerate(ids)}
    report = verify_workspace(ws.root, given=(), clock=ws.clock, progress=silent)
    assert not report.findings


def test_what_waits_for_a_human_does_not_run(ws: Workspace) -> None:
    request = request_for(ws, "1")
    (request_id,) = take_in(ws, request)
    (report,) = run(ws, request_id)
    assert report.error is not None
    assert (report.error.code, report.error.exit_code) == ("TG-ASK-002", 75)
    approve_for(ws, request)  # control: with an approval it does
    assert result_of(ws, request_id).exit == "ok"


# claim TG-C-107
def test_without_a_box_nothing_runs_and_no_use_is_spent(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_id = approved_request(ws, "1")
    machine = replace(find_machine(), bwrap="/nowhere/bwrap")
    with monkeypatch.context() as patched:
        patched.setattr(lite, "find_machine", lambda: machine)
        with pytest.raises(GateUnavailable) as refused:
            run(ws, request_id)
    assert refused.value.code.startswith("TG-BOX")
    assert (state(ws, request_id), approvals(ws, "accepted")) == ("approved", 1)
    assert result_of(ws, request_id).exit == "ok"  # control, and nothing was lost
