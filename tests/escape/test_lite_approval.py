"""Claim: the box checks the approval itself, whatever the host that started it believes.

Every attack hands a job straight to a real box, as a confused host would.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.requests import approval_for, live_workspace, request_for
from tests.support.workspaces import soft_signer
from threegate.artifacts import registry
from threegate.artifacts.approval import Approval, PolicySection
from threegate.artifacts.tool_request import ToolRequest
from threegate.audit.entry import time_of
from threegate.gates.tool_exec.monty.messages import LiteJob, LiteOutcome, Mode
from threegate.host.run.lite import LiteBox, open_lite
from threegate.host.workspace.workspace import Workspace
from threegate.policy.approvals import NAMESPACE


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return live_workspace(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def box(ws: Workspace) -> Iterator[LiteBox]:
    with open_lite(ws.bundle) as opened:
        yield opened


def ask(
    box: LiteBox,
    request: ToolRequest,
    approval: Approval,
    *,
    key: str = "operator",
    namespace: str = NAMESPACE,
    mode: Mode = "run",
    at: int = 0,
) -> LiteOutcome:
    data = registry.emit(approval)
    signature = soft_signer(key).sign(data, namespace)
    job = LiteJob(mode, at, registry.emit(request), data, signature, ())
    return box.run(job, wall_ms=request.limits.wall_ms).outcome


Changes = Callable[[Workspace], dict[str, Any]]


def _window(begin: int, end: int) -> Changes:
    def changes(ws: Workspace) -> dict[str, Any]:
        now = ws.clock()
        return {"not_before": time_of(now + begin), "not_after": time_of(now + end)}

    return changes


def _other_policy(ws: Workspace) -> dict[str, Any]:
    digest = ws.bundle.section_digest("tool-exec")
    return {"policy": (PolicySection("signers", digest), PolicySection("tool-exec", digest))}


ATTACKS: dict[str, tuple[Changes, str]] = {
    "expired": (_window(-7200, -3600), "TG-APR-007"),
    "of the future": (_window(3600, 7200), "TG-APR-007"),
    "for ever": (_window(-60, 30 * 86400), "TG-APR-008"),
    "too often": (lambda _: {"max_uses": 1000}, "TG-APR-008"),
    "other policy": (_other_policy, "TG-APR-005"),
    "other functions": (lambda _: {"functions_sha256": "0" * 64}, "TG-APR-004"),
    "other request": (lambda _: {"request": "tr-" + "0" * 64}, "TG-APR-002"),
    "other person": (lambda _: {"approver": "somebody"}, "TG-APR-006"),
    "a rule of two that is not there": (lambda _: {"rule_of_two": "accepted"}, "TG-APR-009"),
}


@pytest.mark.parametrize("attack", ATTACKS)
# claim TG-C-105
def test_the_box_refuses_an_approval(ws: Workspace, box: LiteBox, attack: str) -> None:
    request = request_for(ws, "6 * 7")
    assert ask(box, request, approval_for(ws, request)).value == b"42", "control"
    make_changes, code = ATTACKS[attack]
    forged = replace(approval_for(ws, request), **make_changes(ws))
    refused = ask(box, request, forged)
    assert (refused.exit, refused.code, refused.value) == ("refused:approval", code, b"")


# claim TG-C-105
def test_the_box_refuses_a_signature_that_does_not_count(ws: Workspace, box: LiteBox) -> None:
    request = request_for(ws, "6 * 7")
    approval = approval_for(ws, request)
    assert ask(box, request, approval).exit == "ok", "control"
    stranger = ask(box, request, approval, key="stranger")
    elsewhere = ask(box, request, approval, namespace="threegate-policy")
    assert (stranger.code, elsewhere.code) == ("TG-KEY-003", "TG-KEY-004")
    assert {stranger.exit, elsewhere.exit} == {"refused:approval"}


# claim TG-C-105
def test_the_box_refuses_code_and_limits_that_were_swapped(ws: Workspace, box: LiteBox) -> None:
    shown = request_for(ws, "1")
    approval = approval_for(ws, shown)
    assert ask(box, shown, approval).exit == "ok", "control"
    other = request_for(ws, "2")
    assert ask(box, other, approval).code == "TG-APR-002"
    wider = replace(shown, limits=replace(shown.limits, wall_ms=30_000))
    assert ask(box, wider, approval).code == "TG-APR-002"
    named = approval_for(ws, wider, limits=shown.limits)
    assert ask(box, wider, named).code == "TG-APR-003"


# claim TG-C-105
def test_only_a_replay_is_judged_at_another_time(ws: Workspace, box: LiteBox) -> None:
    request = request_for(ws, "6 * 7")
    old = approval_for(ws, request, **_window(-7200, -3600)(ws))
    then = ws.clock() - 5000
    assert ask(box, request, old, mode="replay", at=then).value == b"42", "control"
    assert ask(box, request, old, mode="run", at=then).code == "TG-APR-007"
    assert ask(box, request, old, mode="replay", at=ws.clock()).code == "TG-APR-007"
