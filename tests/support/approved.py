"""Approved requests in a real workspace, signed without starting `ssh-keygen`."""

import secrets
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support import samples
from tests.support.workspaces import OPERATOR, make_workspace, soft_signer, take_in
from threegate.artifacts import registry
from threegate.artifacts.approval import BOUND_SECTIONS, Approval, PolicySection
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_request import ToolRequest
from threegate.audit.entry import time_of
from threegate.base.untrusted import Untrusted
from threegate.handoff.approvals import approve
from threegate.host.workspace.drafts import lanes_of
from threegate.host.workspace.workspace import Workspace
from threegate.policy.approvals import NAMESPACE
from threegate.policy.bundle import functions_sha256


def now() -> int:
    return int(time.time())


def live_workspace(base: Path) -> Workspace:
    """Return a workspace whose clock is the machine's, as a box's is."""
    return make_workspace(base, clock=now)


def request_for(ws: Workspace, code: str, **changes: Any) -> ToolRequest:
    """Return a request as the operator would make it, within the lane's defaults."""
    lane = lanes_of(ws.bundle)["monty"]
    base = samples.tool_request(
        created=ws.now(),
        nonce=secrets.token_hex(16),
        profile=lane.profile,
        limits=lane.limits,
        inputs=(),
        functions=(),
        code=Untrusted(code),
        code_sha256=sha256_hex(code.encode()),
    )
    return replace(base, **changes)


def approval_for(ws: Workspace, request: ToolRequest, **changes: Any) -> Approval:
    """Return the approval the operator would sign for a request."""
    sections = BOUND_SECTIONS[request.backend]
    base = samples.approval(
        request=registry.id_of(request),
        backend=request.backend,
        limits=request.limits,
        network=request.network,
        functions_sha256=functions_sha256(ws.bundle),
        policy=tuple(PolicySection(name, ws.bundle.section_digest(name)) for name in sections),
        approver=OPERATOR,
        nonce=secrets.token_hex(16),
        not_before=ws.now(),
        not_after=time_of(ws.clock() + 3600),
        max_uses=1,
    )
    return replace(base, **changes)


def approve_for(ws: Workspace, request: ToolRequest, **changes: Any) -> str:
    """Sign and keep an approval for a request that waits; return its id."""
    data = registry.emit(approval_for(ws, request, **changes))
    signature = soft_signer().sign(data, NAMESPACE)
    request_id = registry.id_of(request)
    return approve(ws.store, request_id=request_id, approval=data, signature=signature, detail={})


def approved_request(ws: Workspace, code: str, *, uses: int = 1, **changes: Any) -> str:
    """Return the id of a new request that is approved and waits to run."""
    request = request_for(ws, code, **changes)
    (request_id,) = take_in(ws, request)
    approve_for(ws, request, max_uses=uses)
    return request_id
