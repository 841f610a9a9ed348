"""Stored requests: read again from their files, and several decided by one command.

SECURITY
    Reads a request again and checks it by digest and by the log.  `decide_each` decides nothing:
    it only says whether a refusal concerns one request, so that the others go on, or all.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.registry import Request
from threegate.audit.entry import unix_of
from threegate.base.errors import (
    EX_TAMPERED,
    ArtifactRejected,
    HandoffTampered,
    PolicyDenied,
    ThreeGateError,
    UsageError,
)
from threegate.base.untrusted import Untrusted
from threegate.handoff.states import directory_of
from threegate.handoff.store import OF_ONE_FILE
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle

WAITING: Final = ("draft", "held")
POLICY_MOVED: Final = "TG-APR-014"
_ABOUT_ONE: Final = (UsageError, HandoffTampered, PolicyDenied)


def read_request(ws: Workspace, request_id: str) -> tuple[bytes, Request, str]:
    """Return bytes, content and state of a stored request, all of one moment."""
    if prefix_of(request_id) not in ("fr", "tr"):
        raise UsageError(f"{short(request_id)} is not a request", hint="review is for fr- and tr-")
    with ws.store.locked():
        state = ws.store.standing(request_id)
        if state is None:
            hint = "`threegate review list` shows what waits"
            raise UsageError(f"no request {request_id} in this workspace", hint=hint)
        data = ws.store.read_file(directory_of(prefix_of(request_id), state), f"{request_id}.md")
    try:
        request = registry.parse(Untrusted(data))
    except ArtifactRejected as exc:
        raise HandoffTampered(f"{request_id} does not parse: {exc.message}") from exc
    if not isinstance(request, Request):
        raise HandoffTampered(f"{request_id} is not a request")
    return data, request, state


def expiry_of(request: Request, bundle: Bundle) -> int:
    """Return when a request stops waiting for a human."""
    return unix_of(request.created) + bundle.integer("handoff", "held_expiry_seconds")


def decide_each(
    ids: Iterable[str], decide: Callable[[str], None], name: Callable[[ThreeGateError], None]
) -> list[int]:
    """Decide one request after the other; return the exit codes of those that were refused.

    Each refusal is passed to `name`.  An error that concerns all requests is raised: a wrong clock,
    a key that may not sign, nobody to ask, a replaced policy.
    """
    codes: list[int] = []
    for request_id in ids:
        try:
            decide(request_id)
        except _ABOUT_ONE as exc:
            if not _is_about_one(exc):
                raise
            name(exc)
            codes.append(exc.exit_code)
    return codes


def report_tampered(
    aside: Mapping[str, HandoffTampered], name: Callable[[ThreeGateError], None]
) -> int:
    """Report every request that was tampered with; return the exit code."""
    for error in aside.values():
        name(error)
    return worst(error.exit_code for error in aside.values())


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of a command: 76 after tampering, else the largest."""
    return max(codes, key=lambda code: (code == EX_TAMPERED, code), default=0)


def _is_about_one(error: ThreeGateError) -> bool:
    if isinstance(error, HandoffTampered):
        return error.code in OF_ONE_FILE
    # Its subclasses are about a signature, the clock or the policy as a whole.
    return isinstance(error, UsageError) or (
        type(error) is PolicyDenied and error.code != POLICY_MOVED
    )
