"""Requests that a human said yes to, as far as the handoff is concerned: nobody signed."""

from typing import Any

from tests.support import samples
from threegate.artifacts import registry
from threegate.artifacts.approval import PolicySection
from threegate.handoff import approvals
from threegate.handoff.claims import End, RunClaim, claim_group, finish_group
from threegate.handoff.store import Store

SIGNATURE = b"a signature, which the handoff only keeps\n"
ROOM = 4096


def approval_bytes(request_id: str, **changes: Any) -> bytes:
    """Return an approval of a request of either kind."""
    kind: dict[str, Any] = {"request": request_id}
    if request_id.startswith("fr-"):
        sections = tuple(PolicySection(name, samples.digest(name)) for name in ("fetch", "signers"))
        kind |= {"backend": "fetch", "limits": None, "functions_sha256": None, "policy": sections}
    return registry.emit(samples.approval(**{**kind, **changes}))


def approve(store: Store, request_id: str, **changes: Any) -> RunClaim:
    """Approve a held request; return what claims it."""
    data = approval_bytes(request_id, **changes)
    approval_id = approvals.approve(
        store, request_id=request_id, approval=data, signature=SIGNATURE, detail={}
    )
    return RunClaim(request_id, approval_id, changes.get("max_uses", 1))


def take(store: Store, *claims: RunClaim, room: int = ROOM) -> None:
    """Claim what must be there to be claimed; raise what refused the first that is not."""
    for refused in claim_group(store, claims, reserve_bytes=room):
        raise refused.error


def claim(store: Store, request_id: str, **changes: Any) -> RunClaim:
    """Approve a held request and claim it."""
    made = approve(store, request_id, **changes)
    take(store, made)
    return made


def finish(store: Store, request_id: str, to: str = "done") -> None:
    """End the claim of a request."""
    finish_group(store, [End(request_id, to)])
