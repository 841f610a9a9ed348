"""The host's part of `threegate doctor`: signed profiles, the operator's key, the verdict."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from threegate.base.errors import GateUnavailable, StorageFailed, ThreeGateError
from threegate.base.text import visible
from threegate.host.command_context import Context
from threegate.host.gate_profiles import unapplied
from threegate.host.keys.operator import known_keys
from threegate.host.keys.signatures import key_strength
from threegate.policy.bundle import Bundle
from threegate.policy.nodes import Change
from threegate.sandbox.attacks.base import AttackResult
from threegate.sandbox.doctor import Check
from threegate.sandbox.profiles import PROFILES

_NAME = "sandboxes as signed"
_LANE = ("tool-exec", "lanes", "era")


def of_workspace(context: Context, args: argparse.Namespace) -> list[Check]:
    """Return the checks of the workspace, if there is one here."""
    try:
        context.root(args)
    except ThreeGateError as exc:
        named = args.workspace is not None or context.settings.workspace is not None
        return [_unreadable(exc)] if named else []
    try:
        with context.workspace(args) as ws:
            root, bundle = ws.root, ws.bundle
    except ThreeGateError as exc:
        return [_unreadable(exc)]
    return of_policy(context, root, bundle)


def of_policy(context: Context, root: Path, bundle: Bundle) -> list[Check]:
    """Return whether a policy was signed with these sandboxes, and which engines answer."""
    return [_boxes_as_signed(root, bundle), *_heavy_lane(context, bundle)]


def _unreadable(error: ThreeGateError) -> Check:
    return Check(_NAME, "missing", "standard", error.message, error.hint)


def _boxes_as_signed(root: Path, bundle: Bundle) -> Check:
    # A change of the part common to all gates is reported once, not for each gate.
    found: dict[str, Change] = {}
    for profile in PROFILES.values():
        found |= {change.path: change for change in unapplied(bundle, profile)}
    place = f"policy generation {bundle.generation} of {visible(str(root))}"
    if not found:
        return Check(_NAME, "in-force", "standard", place)
    fix = "`threegate policy diff` shows all, `threegate policy apply` signs them"
    first = next(iter(found.values())).sentence
    detail = f"{place} does not hold {len(found)} of them: {first}"
    return Check(_NAME, "missing", "standard", detail, fix)


def _heavy_lane(context: Context, bundle: Bundle) -> list[Check]:
    """Return which engines answer; a machine is started for each one named."""
    if bundle.text(*_LANE, "enabled") != "yes":
        return [Check("heavy lane", "not-applicable", "information", "policy does not enable it")]
    with context.out.progress("starting a guest of the heavy lane", 1):
        return [_engine(context, bundle, name) for name in sorted(bundle.words(*_LANE, "engines"))]


def _engine(context: Context, bundle: Bundle, name: str) -> Check:
    from threegate.host.images.choice import current
    from threegate.host.run.heavy.lane import open_backend, smallest
    from threegate.host.run.heavy.runsc import KIND, RUNSC

    places = context.settings
    try:
        image = partial(current, config_home=places.config_home)
        backend = open_backend(bundle, name, places.cache_home, image)
        want = smallest(backend.image.manifest)
        backend.prepare(want)
        probes = backend.probe(want)
    except (GateUnavailable, StorageFailed) as exc:
        detail = f"{exc.message}; {exc.hint}" if exc.hint else exc.message
        return Check(f"engine {name}", "missing", "information", detail)
    digest = backend.image.digest[:12]
    what = f"{KIND}; " if name == RUNSC else ""
    detail = (
        f"{what}a guest of image {digest} answered; {len(probes)} promises held, by its own word"
    )
    return Check(f"engine {name}", "in-force", "information", detail)


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
