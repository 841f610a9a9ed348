"""Programs that came with answers: checked, approved by a throw-away key, run in the real lane."""

from collections.abc import Mapping
from typing import Any, Final

from bench.evaluation.answers import Drafted
from bench.lite_requests import approve_once
from threegate.artifacts import registry
from threegate.artifacts.ids import make_id
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.handoff.admission import admit
from threegate.host.request.code import Ask, LaneUse, answer_of
from threegate.host.run.lifecycle import run_requests
from threegate.host.workspace.drafts import complete_request, lanes_of
from threegate.host.workspace.workspace import Workspace

LANE: Final = "monty"


def run_draft(ws: Workspace, request_id: str, request: ToolRequest) -> Drafted:
    """Approve a draft that lies in the workspace, run it, and return what it came to."""
    code = request.code.open_for_display()
    approve_once(ws, request_id, request)
    (report,) = run_requests(ws, [request_id])
    if report.made is None:
        return Drafted(code, exit="refused", value=str(report.error))
    result = report.made.result
    value = result.value_text.open_for_display()
    # What a program prints instead of leaving it as its value counts, too.
    printed = result.stdout_text.open_for_display().strip()
    return Drafted(code, exit=result.exit, value=printed if value in ("", "null") else value)


def run_program(ws: Workspace, code: str, sources: Mapping[str, str], ask: Ask) -> Drafted:
    """Do the same with a program that came as text: `request check` first, then approve and run.

    `sources` are the artifacts it may read, by the name it knows them by.
    """
    try:
        request = _request(ws, code, sources)
        used = LaneUse((), [one.name for one in request.inputs], lanes_of(ws.bundle)[LANE].profile)
        refused = answer_of(ask, code, used).refused
        if refused is not None:
            return Drafted(code, f"line {refused.line}: {refused.reason}")
        data = registry.emit(request)
        (answer,) = admit(ws.store, [Untrusted(data)], now=ws.now)
    except ThreeGateError as exc:
        return Drafted(code, str(exc))
    if answer.status != "accepted":
        return Drafted(code, answer.status)
    return run_draft(ws, make_id("tr", data), request)


def _request(ws: Workspace, code: str, sources: Mapping[str, str]) -> ToolRequest:
    inputs = [
        {"name": name, "artifact": one, "bytes": len(ws.store.read_bytes(one))}
        for name, one in sorted(sources.items())
    ]
    given: dict[str, Any] = {"format": "tr/1", "backend": LANE, "inputs": inputs}
    given["confidentiality"] = "internal"
    texts = {"purpose": "Compute what was asked for.", "code": code, "risks": "A model wrote it."}
    request = complete_request(ws, given, texts)
    registry.parse(Untrusted(registry.emit(request)))
    return request
