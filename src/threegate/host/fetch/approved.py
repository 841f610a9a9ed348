"""Fetch requests a human approved: which may be asked now, claimed before anything leaves.

The check here decides before a use is spent; the box that asks checks the approval again, and
that each URL is one of the questions of what was approved.

SECURITY
    References may have been written by CORE under the influence of hostile text.  Without an
    approval that covers the request's bytes there is no authority, and the box refuses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import short
from threegate.artifacts.references import DEFAULT_ENRICH, parse_reference
from threegate.base.errors import PolicyDenied, ThreeGateError, UsageError
from threegate.base.text import quote
from threegate.gates.fetch.retrieve.messages import Authority
from threegate.handoff import states
from threegate.handoff.approvals import approvals_by_request
from threegate.handoff.claims import MAX_CLAIMS, End, RunClaim, claim_group, finish_group
from threegate.host.fetch.plan import Leave, Wish, wish_for
from threegate.host.policy.coverage import NOT_APPROVED, covering, void_if_refused, waits_for_review
from threegate.host.workspace.workspace import Workspace
from threegate.policy.approvals import Presented

RESERVE_BYTES: Final = 8 * 1024 * 1024  # for log and packets of one request
APPROVED: Final = states.directory_of("fr", "approved")
_AGAIN: Final = "`threegate fetch` with its references asks anew"


@dataclass(frozen=True, slots=True)
class Ready:
    """A request that may be asked for, under which approval."""

    request_id: str
    approval_id: str
    max_uses: int
    request: FetchRequest
    presented: Presented

    def leave(self) -> Leave:
        """Return what its questions are asked by."""
        given = self.presented
        authority = Authority(given.request, given.approval, given.signature)
        return Leave(self.request_id, authority, self.request.integrity)


@dataclass(slots=True)
class Claimed:
    """Requests that are claimed by this process, and those that were refused."""

    ready: list[Ready] = field(default_factory=list)
    refused: list[tuple[str, ThreeGateError]] = field(default_factory=list)


def all_approved(ws: Workspace) -> list[str]:
    """Return the ids of every approved fetch request."""
    names = (name for name in ws.store.names(APPROVED) if name.startswith("fr-"))
    return sorted(name.removesuffix(".md") for name in names)


def claim_requests(ws: Workspace, request_ids: Sequence[str]) -> Claimed:
    """Claim every request that may be asked for; a use of its approval is spent with it."""
    claimed = Claimed()
    approvals = approvals_by_request(ws.store)
    ready: list[Ready] = []
    for request_id in request_ids:
        try:
            ready.append(make_ready(ws, request_id, approvals))
        except ThreeGateError as exc:
            void_if_refused(ws, request_id, approvals.get(request_id, ()), exc)
            claimed.refused.append((request_id, exc))
    for group in (ready[at : at + MAX_CLAIMS] for at in range(0, len(ready), MAX_CLAIMS)):
        claims = [RunClaim(item.request_id, item.approval_id, item.max_uses) for item in group]
        gone = claim_group(ws.store, claims, reserve_bytes=RESERVE_BYTES)
        claimed.refused += [(item.request_id, item.error) for item in gone]
        lost = {item.request_id for item in gone}
        claimed.ready += [item for item in group if item.request_id not in lost]
    return claimed


def make_ready(ws: Workspace, request_id: str, approvals: Mapping[str, Sequence[str]]) -> Ready:
    """Return what may be asked for, or raise the reason it may not; nothing is spent."""
    place = ws.store.locate(request_id)
    if place is None:
        raise UsageError(f"no request {request_id} in this workspace")
    if place != APPROVED:
        raise _not_approved(request_id, states.state_of(place))
    request = ws.store.read_bytes(request_id)
    approved, presented = covering(ws, request_id, request, approvals.get(request_id, ()))
    assert isinstance(approved.request, FetchRequest)
    uses = approved.approval.max_uses
    return Ready(request_id, approved.approval_id, uses, approved.request, presented)


def _not_approved(request_id: str, state: str) -> ThreeGateError:
    name = short(request_id)
    if state in ("draft", "held"):
        return waits_for_review(request_id)
    if state == "claimed":
        hint = "if no other command fetches it, `threegate review` gives it back to you"
        return UsageError(f"{name} is being fetched", hint=hint)
    words = {"done": "was fetched", "denied": "was denied", "expired": "expired"}
    return PolicyDenied(f"{name} {words[state]}", code=NOT_APPROVED, hint=_AGAIN)


def wishes_of(ws: Workspace, ready: Ready, note: Callable[[str], None]) -> Iterator[Wish]:
    """Yield the wishes of an approved request; what is no reference is told and left out."""
    request = ready.request
    for reference in request.references:
        text = reference.open_for_validation()
        try:
            parsed = parse_reference(text)
        except ValueError as exc:
            note(f"{short(ready.request_id)}: {quote(text)} is not asked for: {exc}")
            continue
        yield wish_for(
            parsed,
            ws.bundle,
            want=request.want,
            enrich=DEFAULT_ENRICH,
            confidentiality=request.confidentiality,
            leave=ready.leave(),
        )


def finish_requests(ws: Workspace, ready: Sequence[Ready], *, unfinished: set[str]) -> None:
    """End every claim: done, or back to the human if the run was stopped before its end."""
    ends = []
    for item in ready:
        to = "approved" if item.max_uses > 1 else "done"
        to = "held" if item.request_id in unfinished else to
        ends.append(End(item.request_id, to, (), item.approval_id))
    if ends:
        finish_group(ws.store, ends)
