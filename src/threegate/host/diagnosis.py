"""What the host adds to an examination: signed boxes, the operator's key, the verdict."""

import argparse
from collections.abc import Sequence

from threegate.errors import GateUnavailable, ThreeGateError
from threegate.host.context import Context
from threegate.host.gates import unapplied
from threegate.host.operator import known_keys
from threegate.host.signing import key_strength
from threegate.policy.change import Change
from threegate.sandbox.attacks.results import AttackResult
from threegate.sandbox.doctor import Check
from threegate.sandbox.profiles import PROFILES
from threegate.text import visible

_NAME = "boxes as signed"


def boxes_as_signed(context: Context, args: argparse.Namespace) -> list[Check]:
    """Return whether the policy of the workspace, if there is one here, holds these boxes."""
    try:
        root = context.root(args)
    except ThreeGateError as exc:
        named = args.workspace is not None or context.settings.workspace is not None
        return [Check(_NAME, "missing", "standard", exc.message, exc.hint)] if named else []
    try:
        with context.workspace(args) as ws:
            bundle = ws.bundle
    except ThreeGateError as exc:
        return [Check(_NAME, "missing", "standard", exc.message, exc.hint)]
    # A change of what holds for all gates is one change, not one for each of them.
    found: dict[str, Change] = {}
    for profile in PROFILES.values():
        found |= {change.path: change for change in unapplied(bundle, profile)}
    place = f"policy generation {bundle.generation} of {visible(str(root))}"
    if not found:
        return [Check(_NAME, "in-force", "standard", place)]
    fix = "`threegate policy diff` shows all, `threegate policy apply` signs them"
    first = next(iter(found.values())).sentence
    detail = f"{place} does not hold {len(found)} of them: {first}"
    return [Check(_NAME, "missing", "standard", detail, fix)]


def key_of_operator(context: Context) -> dict[str, str] | None:
    """Return the operator's key and what protects it, or None if none is known here."""
    try:
        keys = known_keys(context.settings)
        if not keys:
            return None
        return {"path": str(keys[0]), "strength": key_strength(keys[0], context.tools())}
    except ThreeGateError as exc:
        return {"path": "unknown", "strength": exc.message}


def refuse_weakness(checks: Sequence[Check], results: Sequence[AttackResult]) -> None:
    """Raise `GateUnavailable` unless every gate can be started as promised."""
    missing = [c.name for c in checks if c.state == "missing" and c.level == "standard"]
    if missing:
        detail = f"not as promised: {', '.join(missing)}"
        raise GateUnavailable(detail, code="TG-BOX-050", hint="see `to fix` above")
    escaped = sorted({result.name for result in results if not result.held})
    if escaped:
        detail = f"{len(escaped)} escapes were not stopped: {', '.join(escaped[:5])}"
        hint = "do not run gates on this machine; report it, SECURITY.md says how"
        raise GateUnavailable(detail, code="TG-BOX-051", hint=hint)
