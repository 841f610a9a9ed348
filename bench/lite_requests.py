"""Approved requests to run: made, signed and kept as the commands do, thousands in seconds.

Signed in this process with a throw-away key; `ssh-keygen` would be started for each.
"""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.lite_programs import Program
from tests.support.workspaces import Clock, make_workspace, soft_signer
from threegate.artifacts import registry
from threegate.artifacts.approval import BOUND_SECTIONS, Approval, PolicySection
from threegate.artifacts.ids import make_id, sha256_hex
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import admit
from threegate.handoff.approvals import approve
from threegate.handoff.journal import Put
from threegate.host.keys.operator import DEFAULT_PRINCIPAL
from threegate.host.workspace.drafts import complete_request, lanes_of
from threegate.host.workspace.workspace import Workspace
from threegate.policy.approvals import NAMESPACE
from threegate.policy.bundle import functions_sha256

VALID_SECONDS: Final = 3600
BACKEND: Final = "monty"


@dataclass
class RealClock(Clock):
    """The box judges by its own clock, so the workspace must too."""

    now: int = field(default=0)

    def __call__(self) -> int:
        return int(time.time())


def workspace(base: Path) -> Workspace:
    """Return a new workspace with the shipped policy, on the real clock."""
    base.mkdir(mode=0o700)
    return make_workspace(base, clock=RealClock())


def approved(ws: Workspace, programs: Sequence[Program], **limits: int) -> list[str]:
    """Keep a request for each program, approved for one use within the hour; return their ids."""
    _keep_inputs(ws, programs)
    requests = [_request(ws, program, limits) for program in programs]
    items = [Untrusted(registry.emit(request)) for request in requests]
    answers = list(admit(ws.store, items, now=ws.now))
    assert {answer.status for answer in answers} == {"accepted"}, answers
    ids = [make_id("tr", item.open_for_validation()) for item in items]
    for request_id, request in zip(ids, requests, strict=True):
        approve_once(ws, request_id, request)
    return ids


def approve_once(ws: Workspace, request_id: str, request: ToolRequest) -> None:
    """Approve a request that waits here for one use within the hour."""
    data = registry.emit(_approval(ws, request_id, request))
    signature = soft_signer().sign(data, NAMESPACE)
    approve(ws.store, request_id=request_id, approval=data, signature=signature)


def _keep_inputs(ws: Workspace, programs: Sequence[Program]) -> None:
    documents = {sha256_hex(data): data for data in _documents(programs)}
    with ws.store.locked() as journal:
        for digest, data in documents.items():
            if not ws.store.has_blob(digest):
                journal.run("blob", [Put(states.BLOBS, digest, data)])


def _documents(programs: Sequence[Program]) -> Iterator[bytes]:
    seen: set[int] = set()
    for program in programs:
        if id(program) not in seen:  # the same few, again and again
            seen.add(id(program))
            yield from program.documents.values()


def _request(ws: Workspace, program: Program, limits: Mapping[str, int]) -> ToolRequest:
    inputs = [
        {"name": name, "artifact": f"blob-{sha256_hex(data)}", "bytes": len(data)}
        for name, data in sorted(program.documents.items())
    ]
    given: dict[str, Any] = {"format": "tr/1", "backend": BACKEND, "inputs": inputs}
    given["confidentiality"] = "internal"
    if limits:
        given["limits"] = _limits(ws, limits)
    texts = {"purpose": f"Measure {program.name}.", "code": program.code, "risks": "None."}
    return complete_request(ws, given, texts)


def _limits(ws: Workspace, asked: Mapping[str, int]) -> dict[str, int]:
    default = lanes_of(ws.bundle)[BACKEND].limits
    return {name: asked.get(name, getattr(default, name)) for name in default.__slots__}


def _approval(ws: Workspace, request_id: str, request: ToolRequest) -> Approval:
    now = ws.clock()
    return Approval(
        request=request_id,
        backend=BACKEND,
        limits=request.limits,
        functions_sha256=functions_sha256(ws.bundle),
        network=request.network,
        rule_of_two="not-triggered",
        policy=tuple(
            PolicySection(name, ws.bundle.section_digest(name)) for name in BOUND_SECTIONS[BACKEND]
        ),
        approver=DEFAULT_PRINCIPAL,
        nonce=secrets.token_hex(16),
        not_before=_spelt(now),
        not_after=_spelt(now + VALID_SECONDS),
        max_uses=1,
        statement=Untrusted("A run to be measured."),
    )


def _spelt(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
