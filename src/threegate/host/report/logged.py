"""What the audit log says about how artifacts came here: one pass over it for all of them.

SECURITY
    Reads entries only; who can rewrite the log is seen by `audit verify`, which the report
    names first.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from threegate.audit.entry import Entry
from threegate.audit.log import AuditLog
from threegate.handoff.records import INTENT


@dataclass(frozen=True, slots=True)
class Stored:
    """The change that put an artifact into the workspace."""

    op: str
    seq: int
    time: str
    detail: dict[str, Any]


def stored(log: AuditLog, artifact_ids: Collection[str]) -> dict[str, Stored]:
    """Return how each of these artifacts came here, as far as the log says."""
    wanted = {f"{artifact_id}.md": artifact_id for artifact_id in artifact_ids}
    found: dict[str, Stored] = {}
    for entry in log.entries():
        name = entry.data.get("name")
        if entry.kind == INTENT and entry.data.get("act") == "put" and name in wanted:
            found.setdefault(wanted[name], _stored(entry))
    return found


def _stored(entry: Entry) -> Stored:
    detail = entry.data.get("detail")
    op = str(entry.data.get("op"))
    return Stored(op, entry.seq, entry.time, detail if isinstance(detail, dict) else {})
