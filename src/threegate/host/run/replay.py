"""A second run of an old request, to see whether it ends the same.

The log says that the request was approved and ran here.  The sandbox judges that approval at the
time of the result, under the policy of that time.  Only the comparison is stored, in the audit log;
a replay spends no use and makes no result.
"""

from dataclasses import dataclass
from typing import Final, TypeVar

from threegate.artifacts.approval import Approval
from threegate.artifacts.ids import short
from threegate.artifacts.tool_request import ToolRequest
from threegate.artifacts.tool_result import ToolResult
from threegate.audit.entry import unix_of
from threegate.base.errors import GateUnavailable, PolicyDenied, UsageError
from threegate.gates.tool_exec.monty.messages import OTHER_FUNCTIONS, REFUSED_APPROVAL, LiteJob
from threegate.handoff.approvals import was_used
from threegate.host.policy.coverage import present
from threegate.host.run.lite import open_lite
from threegate.host.run.ready import read_inputs
from threegate.host.run.results import NOT_REPRODUCIBLE, Measured, make_result
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle

SAME: Final = "same"
DIFFERENT: Final = "different"
CANNOT: Final = "not-reproducible"
OTHER_ARITHMETIC: Final = "not-comparable"
UNLIKE: Final = (DIFFERENT, OTHER_ARITHMETIC)  # it was compared, and is not the same
# What the last bits of a number depend on besides the program and its inputs.
ARITHMETIC: Final = ("libm-sha256", "monty-sha256", "processor")
KIND: Final = "replay"
NEVER_RAN: Final = "TG-LITE-003"

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Replayed:
    """How the second run compares with the first; `why` says why it could not be compared."""

    verdict: str
    result_id: str
    recorded: ToolResult
    again: ToolResult | None
    why: str = ""
    other_versions: tuple[str, ...] = ()


def replay(ws: Workspace, result_id: str) -> Replayed:
    """Run what led to a result once more, and record whether it ended the same."""
    recorded = _read(ws, result_id, ToolResult)
    _refuse_unused(ws, recorded)
    if recorded.backend != "monty":
        why = "a microVM has a clock and randomness of its own"
        return Replayed(CANNOT, result_id, recorded, None, why)
    if recorded.exit in NOT_REPRODUCIBLE:
        why = f"it ended with {recorded.exit}, which depends on the machine and the moment"
        return Replayed(CANNOT, result_id, recorded, None, why)
    if recorded.exit == REFUSED_APPROVAL:  # its use is spent, but this would be the first run
        why = "nothing ran: the sandbox did not accept its approval"
        return Replayed(CANNOT, result_id, recorded, None, why)
    try:
        again = _run_again(ws, recorded)
    except GateUnavailable as exc:
        if exc.code != OTHER_FUNCTIONS:
            raise
        why = "its external functions are others than the ones this program has"
        return Replayed(CANNOT, result_id, recorded, None, why)
    verdict, why = _compare(recorded, again)
    outcome = {"again": again.outcome_sha256, "recorded": recorded.outcome_sha256}
    with ws.store.locked() as journal:
        journal.log.append([(KIND, {"result": result_id, "verdict": verdict, **outcome})])
    return Replayed(verdict, result_id, recorded, again, why, _other_versions(recorded, again))


def _refuse_unused(ws: Workspace, recorded: ToolResult) -> None:
    """Refuse a result whose approval was never used: a replay is never the first run.

    Otherwise a forged result would run a request whose approval is unspent, or was revoked before
    anything ran.
    """
    if not was_used(ws.store, recorded.approval):
        name = short(recorded.request)
        hint = "only what ran in this workspace can be replayed"
        raise PolicyDenied(f"{name} never ran under that approval", code=NEVER_RAN, hint=hint)


def _compare(recorded: ToolResult, again: ToolResult) -> tuple[str, str]:
    if again.outcome_sha256 == recorded.outcome_sha256:
        return SAME, ""
    if again.exit in NOT_REPRODUCIBLE:
        return CANNOT, f"this time it ended with {again.exit}"
    others = [name for name in _other_versions(recorded, again) if name in ARITHMETIC]
    if others:
        why = f"it ran with another {', '.join(others)}, on which the outcome depends"
        return OTHER_ARITHMETIC, why
    return DIFFERENT, ""


def _run_again(ws: Workspace, recorded: ToolResult) -> ToolResult:
    request = _read(ws, recorded.request, ToolRequest)
    approval = _read(ws, recorded.approval, Approval)
    at = unix_of(recorded.started)
    bundle = _bundle_of(ws, approval)
    given = present(ws.store, ws.store.read_bytes(recorded.request), recorded.approval)
    inputs = read_inputs(ws.store, bundle, request)
    job = LiteJob("replay", at, given.request, given.approval, given.signature, inputs)
    with open_lite(bundle, signed=ws.bundle) as box:
        ran = box.run(job, wall_ms=request.limits.wall_ms)
        measured = Measured(ws.now(), ran.wall_ms, ran.peak_memory_bytes)
        ids = (recorded.request, recorded.approval)
        return make_result(request, ids, ran.outcome, measured, box.box).result


def _bundle_of(ws: Workspace, approval: Approval) -> Bundle:
    """Return the newest policy with exactly the rules the approval binds."""
    bundle = ws.bundle
    while True:
        if all(bundle.section_digest(item.name) == item.sha256 for item in approval.policy):
            return bundle
        if bundle.previous is None:
            raise UsageError("the rules it ran under are not kept here")
        bundle = applied.read_bundle(ws.store, bundle.previous)


def _other_versions(recorded: ToolResult, again: ToolResult) -> tuple[str, ...]:
    """Return the components that are of another version now."""
    now = {item.name: item.version for item in again.versions}
    then = {item.name: item.version for item in recorded.versions}
    return tuple(sorted(name for name in now | then if now.get(name) != then.get(name)))


def _read(ws: Workspace, artifact_id: str, kind: type[A]) -> A:
    artifact = ws.store.read(artifact_id)
    if not isinstance(artifact, kind):
        raise UsageError(f"{artifact_id} is not a {kind.__name__}")
    return artifact
