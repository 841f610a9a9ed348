"""Whether policy lets a command begin: asked before review, before a claim, and in the gate.

SECURITY
    Reads the words of a command from a stored request.  If this module is wrong, a human is
    asked for what policy denies; the guest looks again before it starts anything.
"""

from collections.abc import Sequence
from typing import Final

from threegate.base.errors import PolicyDenied
from threegate.base.text import quote
from threegate.policy.bundle import Compiled
from threegate.policy.decision import Allow, Decision, Deny, RuleRef
from threegate.policy.ring.commands import Refusal
from threegate.policy.ring.compiler import ProfileRejected, compile_ring
from threegate.policy.sections.argument_rules import ARGUMENT_RULES
from threegate.policy.sections.tool_exec import RING

COMMAND_REFUSED: Final = "TG-RNG-004"
_SECTION: Final = "tool-exec"


def may_command(policy: Compiled, kind: str, name: str, argv: Sequence[str]) -> Decision:
    """Decide whether an executor of this kind may start a command under the profile `name`."""
    try:
        ring = compile_ring(policy, kind, name)
    except ProfileRejected as exc:
        return Deny(exc.rule, exc.reason)
    found = ring.command(argv)
    if found is None:
        path = (_SECTION, RING, name, "allowed_binaries")
        return Allow(policy.ref(*path), f"no rule of profile {name} refuses the command")
    return Deny(_place(policy, name, found), _reason(found))


def refuse_command(policy: Compiled, kind: str, name: str, argv: Sequence[str]) -> None:
    """Raise `PolicyDenied` for a command that may not begin."""
    decision = may_command(policy, kind, name, argv)
    if isinstance(decision, Deny):
        error = decision.error("the command is")
        raise PolicyDenied(error.message, code=COMMAND_REFUSED, hint=error.hint)


def _place(policy: Compiled, name: str, found: Refusal) -> RuleRef:
    if found.rule == ARGUMENT_RULES:
        return policy.ref(_SECTION, ARGUMENT_RULES, found.item)
    path = (_SECTION, RING, name, found.rule)
    return policy.ref(*path) if found.rule == "allowed_binaries" else policy.ref(*path, found.item)


def _reason(found: Refusal) -> str:
    argument = quote(found.argument)
    if found.rule == "allowed_binaries":
        return f"program {argument} is not allowed"
    if found.rule == ARGUMENT_RULES:
        return f"argument rule {found.item} refuses {argument}"
    return f"pattern {quote(found.item)} is denied: {argument}"
