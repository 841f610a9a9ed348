"""What an executor enforces, and whether it may be given work: in words that the log keeps.

`applied`           it enforces the policy named here: read back, and probed again, before this
`restart-required`  it cannot take the rules over as it is, and gets no work until it is restarted
`unavailable`       it could not be started, refused the rules, or enforces other ones
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from threegate.base.errors import ThreeGateError
from threegate.host.gate_profiles import named_failure

APPLIED: Final = "applied"
RESTART: Final = "restart-required"
UNAVAILABLE: Final = "unavailable"
STATES: Final = (APPLIED, RESTART, UNAVAILABLE)
NONE: Final = "none"  # policy has no such executor: it stands in no table

OTHER_RULES: Final = "TG-PSH-003"
QUARANTINED: Final = "TG-PSH-005"
STARTING: Final = "starting"
MAX_REASON_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Status:
    """One executor, as it is acknowledged."""

    executor: str
    kind: str
    state: str
    generation: int = 0  # of the policy it enforces; 0: none
    policy: str = ""  # its digest
    reason: str = ""
    code: str = ""

    def plain(self) -> dict[str, Any]:
        """Return it as the log and `--json` hold it."""
        return {
            "code": self.code,
            "executor": self.executor,
            "generation": self.generation,
            "kind": self.kind,
            "policy": self.policy,
            "reason": self.reason,
            "state": self.state,
        }


def status_of(value: Any) -> Status | None:
    """Return the status in plain data of the log, or None if it is none."""
    try:
        found = Status(**value)
    except TypeError:
        return None
    words = (found.executor, found.kind, found.policy, found.reason, found.code)
    right = all(isinstance(word, str) for word in words) and type(found.generation) is int
    return found if right and found.state in STATES else None


def with_state(status: Status, state: str, reason: str) -> Status:
    """Return the same executor, with the rules it has, in another state."""
    return replace(status, state=state, reason=reason[:MAX_REASON_CHARS], code="")


def failed(status: Status, error: Exception) -> Status:
    """Return the same executor as one that enforces nothing, and why."""
    known = named_failure(error)
    if isinstance(known, ThreeGateError):
        reason, code = known.message[:MAX_REASON_CHARS], known.code
    else:
        reason, code = f"unexpected {type(error).__name__}", ""
    return Status(status.executor, status.kind, UNAVAILABLE, reason=reason, code=code)
