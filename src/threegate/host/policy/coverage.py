"""Which approval covers a request now; what becomes of requests that none covers any more.

The check here decides before a use is spent; the box that acts on a request checks it again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from threegate.policy.bundle import Bundle
    from threegate.policy.nodes import Value


NOT_APPROVED: Final = "TG-ASK-002"


def present(store: Store, request: bytes, approval_id: str) -> Presented:
    """Return request, approval and signature as they lie here; raise `UsageError` if they go."""
    approval, place = store.read_bytes(approval_id), store.locate(approval_id)
    if place is not None:
        with suppress(FileNotFoundError):  # another command spent, revoked or withdrew it
            return Presented(request, approval, store.read_file(place, f"{approval_id}.sig"))
    raise UsageError(f"{short(approval_id)} was decided meanwhile", hint="give the command again")


def covering(
    ws: Workspace, request_id: str, request: bytes, candidates: Sequence[str]
) -> tuple[Approved, Presented]:
    """Return the first approval that covers the request now, or raise why none does."""
    refusal: ThreeGateError = WaitingForHuman(
        f"{short(request_id)} has no approval that is left",
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
    """Return the error for a request that nobody has decided about."""
    name = short(request_id)
    hint = f"`threegate review show {name}`, then `threegate review approve {name}`"
    return WaitingForHuman(f"{name} waits for review", code=NOT_APPROVED, hint=hint)


def void_if_refused(
    ws: Workspace, request_id: str, approval_ids: Sequence[str], error: ThreeGateError
) -> None:
    """Send a request back to the human whose approvals do not count any more."""
    # By rules that were replaced meanwhile nothing is taken back.
    if isinstance(error, PolicyDenied) and applied.is_current(ws.store, ws.bundle):
        for approval_id in approval_ids:
            # Decided meanwhile, or moved by hand: that must not keep others from their turn.
            with suppress(UsageError, HandoffTampered):
                void(ws.store, request_id, approval_id, reason=error.code)


# The rules in force, one by one: file and line, path and value.

SECTIONS: Final = (
    *("core", "fetch", "tool-exec", "handoff", "instruction-hierarchy", "signers", "gates"),
)


def rules_of(bundle: "Bundle", section: str) -> Iterator[tuple[str, str, str]]:
    """Yield where each rule stands, its path and its value; a list is one rule."""
    if section == "signers":
        for entry in bundle.signers.entries:
            where = bundle.ref(section, entry.key.fingerprint)
            yield str(where), f"signers/{entry.principal}", entry.line.partition(" ")[2]
        return
    if section == "gates":
        yield from _profiles(bundle)
        return
    lines = bundle.refs[section]
    for path in sorted(lines, key=lambda path: lines[path]):
        value: Value = bundle.sections[section]
        for key in path.split("/"):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None and not isinstance(value, Mapping):
            where = bundle.ref(section, path)
            yield str(where), f"{section}/{path}", _shown(value)


def _profiles(bundle: "Bundle") -> Iterator[tuple[str, str, str]]:
    gates = bundle.sections["gates"]
    assert isinstance(gates, Mapping)
    for name, profile in gates.items():
        assert isinstance(profile, Mapping)
        for field, value in profile.items():
            yield "the program", f"gates/{name}/{field}", _shown(value)


def _shown(value: "Value") -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
