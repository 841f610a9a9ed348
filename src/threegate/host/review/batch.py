"""Several requests that one command decides: each by itself, whatever becomes of the others.

SECURITY
    Decides nothing.  What is refused is refused; this module only says whether that is about
    one request, so that the others go on, or about all of them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from threegate.base.errors import (
    EX_TAMPERED,
    HandoffTampered,
    PolicyDenied,
    ThreeGateError,
    UsageError,
)
from threegate.handoff.misplaced import OF_ONE_FILE
from threegate.host.review.approval import POLICY_MOVED

_ABOUT_ONE: Final = (UsageError, HandoffTampered, PolicyDenied)


def decide_each(
    ids: Iterable[str], decide: Callable[[str], None], name: Callable[[ThreeGateError], None]
) -> list[int]:
    """Decide one request after the other; return the exit codes of those that were refused.

    Each refusal is handed to `name`.  What would refuse the others as well is raised: a clock
    that is wrong, a key that may not sign, nobody to ask, a policy that was replaced.
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


def name_meddled(
    aside: Mapping[str, HandoffTampered], name: Callable[[ThreeGateError], None]
) -> int:
    """Name every request that somebody meddled with; return the exit code."""
    for error in aside.values():
        name(error)
    return worst(error.exit_code for error in aside.values())


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of a command: 76 if somebody meddled, else the largest."""
    return max(codes, key=lambda code: (code == EX_TAMPERED, code), default=0)


def _is_about_one(error: ThreeGateError) -> bool:
    if isinstance(error, HandoffTampered):
        return error.code in OF_ONE_FILE
    # Its subclasses are about a signature, the clock or the policy as a whole.
    return isinstance(error, UsageError) or (
        type(error) is PolicyDenied and error.code != POLICY_MOVED
    )
