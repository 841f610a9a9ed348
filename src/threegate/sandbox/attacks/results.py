"""What came of an attempt, and whether that is what the profile promises.

SECURITY
    Judges what a box says about itself, so a box that lies could look intact: what canaries
    saw counts more than what was said, and an attempt without an answer never counts as held.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from threegate.sandbox.attacks.base import WORKER, Attempt

# The worker's filter ends the process, or refuses what its runtime may ask for.
WORKER_REASONS = ("SIGSYS", "EACCES", "EPERM", "ENOSYS")


@dataclass(frozen=True, slots=True)
class Said:
    """One attempt as reported: it worked, was blocked, or ended the process."""

    outcome: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class AttackResult:
    """One attempt in one profile."""

    profile: str
    name: str
    group: str
    held: bool  # stopped, and for a reason that counts
    outcome: str  # blocked | worked | ended | reached
    reason: str
    detail: str
    control: str  # worked, or why it did not
    counted: bool  # the control worked, so the attempt has teeth

    def plain(self) -> dict[str, str | bool]:
        """Return the result for JSON."""
        return {name: getattr(self, name) for name in AttackResult.__slots__}


def judged(
    item: Attempt, profile: str, said: Said, control: Said, *, reached: bool
) -> AttackResult:
    """Compare what was said with what must be."""
    expected = item.reasons(profile)
    if profile == WORKER and WORKER not in item.exceptions and not item.only:
        expected = WORKER_REASONS
    stopped = said.outcome in {"blocked", "ended"} and not reached
    held = stopped and bool(said.reason) and set(said.reason.split("+")) <= set(expected)
    return AttackResult(
        profile=profile,
        name=item.name,
        group=item.group,
        held=held,
        outcome="reached" if reached else said.outcome,
        reason=said.reason,
        detail=said.detail,
        control="worked" if control.outcome == "worked" else _excuse(item, control),
        counted=control.outcome == "worked",
    )


def _excuse(item: Attempt, control: Said) -> str:
    return f"{control.reason}: {item.control}" if item.control else f"FAILED: {control.detail}"


def said_of(value: Mapping[str, str]) -> Said:
    """Return a report of a payload as a value; missing fields are empty."""
    cut = {name: str(value.get(name, ""))[:200] for name in ("outcome", "reason", "detail")}
    return Said(**cut)
