"""Escape attempts: what an owned gate would try, and how a machine is attacked with them."""

from __future__ import annotations

TYPE_CHECKING = False  # this package is imported inside boxes, where every import costs
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from threegate.sandbox.attacks.base import AttackResult
    from threegate.sandbox.machine import Machine


def run(
    machine: Machine,
    profile_names: Iterable[str],
    progress: Callable[[str], None] | None = None,
) -> list[AttackResult]:
    """Start each profile, make every attempt inside it, and the same one outside as control."""
    from threegate.sandbox.attacks.runner import attack

    return attack(machine, profile_names, progress=progress)
