"""A workspace that stays open while others change it: when it changed, and by whose rules."""

from dataclasses import replace
from pathlib import Path

from threegate.handoff.store import AUDIT
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace

Mark = tuple[str, int]


def mark_of(root: Path) -> Mark:
    """Return name and size of the log's last segment: everything that happens makes it grow."""
    found = max((root / AUDIT).glob("segment-*.jsonl"), default=None)
    try:
        return ("", 0) if found is None else (found.name, found.stat().st_size)
    except OSError:  # sealed between two looks
        return ("", -1)


def followed(ws: Workspace) -> Workspace:
    """Return the workspace with the policy in force, which another process may have changed."""
    with ws.store.locked():
        bundle = applied.read_current(ws.store)
    if bundle.digest == ws.bundle.digest:
        return ws
    ws.store.journal.quotas = applied.quotas_of(bundle)
    return replace(ws, bundle=bundle)
