"""The approval that covers a request now, and the return of requests that none covers to review.

The check here decides before a use is spent; the sandbox that acts on a request checks it again.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from threegate.artifacts.ids import short
from threegate.base.errors import (
    HandoffTampered,
    PolicyDenied,
    ThreeGateError,
    UsageError,
    WaitingForHuman,
)
from threegate.handoff.approvals import void
from threegate.handoff.store import Store
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace
from threegate.policy.approvals import Approved, Presented, check_approval
from threegate.policy.bundle import functions_sha256

NOT_APPROVED: Final = "TG-ASK-002"


def present(store: Store, request: bytes, approval_id: str) -> Presented:
    """Return request, approval and signature; raise `UsageError` if they were removed."""
    approval, place = store.read_bytes(approval_id), store.locate(approval_id)
    if place is not None:
        with suppress(FileNotFoundError):  # another command spent, revoked or withdrew it
            return Presented(request, approval, store.read_file(place, f"{approval_id}.sig"))
    raise UsageError(f"{short(approval_id)} was decided meanwhile", hint="run the command again")


def covering(
    ws: Workspace, request_id: str, request: bytes, candidates: Sequence[str]
) -> tuple[Approved, Presented]:
    """Return the first approval that covers the request now, or raise why none does."""
    refusal: ThreeGateError = WaitingForHuman(
        f"{short(request_id)} has no approval with uses left",
        code=NOT_APPROVED,
        hint="`threegate review` asks again",
    )
    for approval_id in candidates:
        try:
            presented = present(ws.store, request, approval_id)
            approved = check_approval(
                presented,
                ws.bundle,
                at=ws.clock(),
                functions_sha256=functions_sha256(ws.bundle),
            )
            return approved, presented
        except (PolicyDenied, UsageError) as exc:
            refusal = exc
    raise refusal


def waits_for_review(request_id: str) -> WaitingForHuman:
    """Return the error for a request that is not decided yet."""
    name = short(request_id)
    hint = f"`threegate review show {name}`, then `threegate review approve {name}`"
    return WaitingForHuman(f"{name} waits for review", code=NOT_APPROVED, hint=hint)


def void_if_refused(
    ws: Workspace, request_id: str, approval_ids: Sequence[str], error: ThreeGateError
) -> None:
    """Send a request back to review if its approvals no longer count."""
    # Race: rules that were replaced meanwhile must not withdraw anything.
    if isinstance(error, PolicyDenied) and applied.is_current(ws.store, ws.bundle):
        for approval_id in approval_ids:
            # Decided meanwhile, or moved by hand: the other approvals still have to be checked.
            with suppress(UsageError, HandoffTampered):
                void(ws.store, request_id, approval_id, reason=error.code)
