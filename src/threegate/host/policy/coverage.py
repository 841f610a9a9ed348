"""Approved requests that may go now: the approval that covers each, its claim and its end.

The check here decides before a use is spent; the sandbox that acts on a request checks it again.  A
request that no approval covers returns to review.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import short
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import (
    HandoffTampered,
    PolicyDenied,
    ThreeGateError,
    UsageError,
    WaitingForHuman,
)
from threegate.handoff import states
from threegate.handoff.approvals import void
from threegate.handoff.claims import End, RunClaim
from threegate.handoff.journal import Act
from threegate.handoff.store import Store
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace
from threegate.policy.approvals import Approved, Presented, check_approval
from threegate.policy.bundle import functions_sha256

NOT_APPROVED: Final = "TG-ASK-002"

R = TypeVar("R", FetchRequest, ToolRequest)


@dataclass(frozen=True, slots=True)
class ReadyRequest(Generic[R]):
    """A request that may go now, and the approval that covers it."""

    request_id: str
    approval_id: str
    max_uses: int
    request: R
    presented: Presented
    inputs: tuple[tuple[str, bytes], ...] = ()  # documents of a tool request, by name

    @property
    def claim(self) -> RunClaim:
        """Return the claim, which spends a use of the approval."""
        return RunClaim(self.request_id, self.approval_id, self.max_uses)

    def end(self, acts: Sequence[Act] = (), *, held: bool = False) -> End:
        """Return the end of the claim; a request that is not `held` keeps its remaining uses."""
        to = "approved" if self.max_uses > 1 else "done"
        return End(self.request_id, "held" if held else to, acts, self.approval_id)


def ready_request(
    ws: Workspace,
    request_id: str,
    approvals: Mapping[str, Sequence[str]],
    kind: type[R],
    refusal: Callable[[str, str], ThreeGateError],
) -> ReadyRequest[R]:
    """Return an approved request that may go now, or raise why not; nothing is spent.

    `refusal` returns the error for a request in another state that was decided before.
    """
    place = ws.store.locate(request_id)
    if place is None:
        raise UsageError(f"no request {request_id} in this workspace")
    state, name = states.state_of(place), short(request_id)
    if state in ("draft", "held"):
        hint = f"`threegate review show {name}`, then `threegate review approve {name}`"
        raise WaitingForHuman(f"{name} waits for review", code=NOT_APPROVED, hint=hint)
    if state != "approved":
        raise refusal(name, state)
    request = ws.store.read_bytes(request_id)
    approved, presented = _covering(ws, request_id, request, approvals.get(request_id, ()))
    assert isinstance(approved.request, kind)
    uses = approved.approval.max_uses
    return ReadyRequest(request_id, approved.approval_id, uses, approved.request, presented)


def present(store: Store, request: bytes, approval_id: str) -> Presented:
    """Return request, approval and signature; raise `UsageError` if they were removed."""
    approval, place = store.read_bytes(approval_id), store.locate(approval_id)
    if place is not None:
        with suppress(FileNotFoundError):  # another command spent, revoked or withdrew it
            return Presented(request, approval, store.read_file(place, f"{approval_id}.sig"))
    raise UsageError(f"{short(approval_id)} was decided meanwhile", hint="run the command again")


def _covering(
    ws: Workspace, request_id: str, request: bytes, candidates: Sequence[str]
) -> tuple[Approved, Presented]:
    """Return the first approval that covers the request now, or raise why none does."""
    refusal: ThreeGateError = WaitingForHuman(
        f"{short(request_id)} has no approval with uses left",
        code=NOT_APPROVED,
        hint="`threegate review` asks again",
    )
    # The candidates are a hint from file names; signature and fields are checked here.
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
