"""Runtimes without a code mode: the ring's no-op for each box that was started, in the log.

A model is no executor, and no rule of the ring is about it: that is said only of a box that
tried to execute and to fork just before it began, and found both refused.
"""

from collections.abc import Callable
from typing import Final

from threegate.host.proxy.supervisor import Noter
from threegate.policy.ring.compiler import NoOp, compile_no_op
from threegate.sandbox.launch import Evidence

NO_OP: Final = "ring.no-op"  # the entry of the log, before anything is asked of the box

Noted = Callable[[NoOp], None]


def no_op_of(evidence: Evidence) -> NoOp:
    """Return the no-op of a box that has proved its lock, or raise `ProfileRejected`."""
    return compile_no_op(evidence.profile, frozenset(evidence.proofs))


def noted_by(noter: Noter) -> Noted:
    """Return who writes a no-op to the log."""

    def note(no_op: NoOp) -> None:
        noter.announce(NO_OP, {"executor": no_op.kind, "proved": list(no_op.proved)})

    return note
