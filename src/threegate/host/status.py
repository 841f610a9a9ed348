"""The overview of `threegate status`; it changes nothing in the workspace."""

import os
from pathlib import Path
from typing import Any

from threegate.audit.entry import time_of
from threegate.base.errors import PolicyInvalid
from threegate.handoff import states
from threegate.handoff.claims import is_alive, leases
from threegate.handoff.store import Store
from threegate.host.policy import changes
from threegate.host.provenance.headlines import headlines_on_retracted
from threegate.host.workspace import applied, log_signatures
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import diff


def overview(ws: Workspace, index: Index) -> dict[str, Any]:
    """Return everything as one document."""
    log = ws.store.journal.log
    return {
        "workspace": str(ws.root),
        "id": ws.marker.id,
        "created": ws.marker.created,
        "policy": _policy(ws),
        "log": {"entries": log.size, "last": log.head.time, "head": log.head.digest},
        "checkpoint": _checkpoint(ws.root),
        "clock_behind_seconds": log.clock_behind(),
        "waiting": _waiting(ws.store),
        "claims": _claims(ws.store),
        "answers_on_retracted": [
            {"id": one.id, "question": one.title} for one in headlines_on_retracted(ws.store, index)
        ],
        "strays": _strays(ws.store),
        "usage": _usage(ws),
    }


def _policy(ws: Workspace) -> dict[str, Any]:
    digest, at = applied.read_pointer(ws.store)
    known = {"generation": ws.bundle.generation, "digest": digest, "applied": time_of(at)}
    try:
        edited = changes.edited(ws)
    except PolicyInvalid as exc:
        return {**known, "files": "invalid", "problem": exc.message}
    found = diff(ws.bundle, edited)
    if not found:
        same = applied.is_in_force(ws.bundle, edited)
        return {**known, "files": "as applied" if same else "reworded"}
    widening = sum(change.effect == "widens" for change in found)
    return {**known, "files": "edited", "changes": len(found), "widening": widening}


def _checkpoint(root: Path) -> int | None:
    sizes = [kept.checkpoint.size for kept in log_signatures.stored_checkpoints(root)]
    return max(sizes, default=None)


def _waiting(store: Store) -> dict[str, int]:
    names = {"held": "handoff/requests/held", "draft": "handoff/requests/draft"}
    return {state: sum(1 for _ in store.names(path)) for state, path in names.items()}


def _claims(store: Store) -> dict[str, list[str]]:
    claims: dict[str, list[str]] = {"alive": [], "dead": []}
    held = leases(store)
    for name in sorted(store.names("handoff/requests/claimed")):
        request_id = name.removesuffix(".md")
        found = held.get(request_id)
        alive = found is not None and is_alive(found.lease)
        claims["alive" if alive else "dead"].append(request_id)
    return claims


def _strays(store: Store) -> list[str]:
    return sorted(
        f"{directory}/{name}"
        for directory, pattern in states.NAMES.items()
        for name in os.listdir(store.directories.fd(directory))
        if not pattern.match(name)
    )


def _usage(ws: Workspace) -> list[dict[str, Any]]:
    journal = ws.store.journal
    rows = []
    for directory, quota in journal.quotas.items():
        files, size = journal.usage.of(directory)
        limits = {"max_files": quota.files, "max_bytes": quota.bytes}
        rows.append({"directory": directory, "files": files, "bytes": size, **limits})
    return rows
