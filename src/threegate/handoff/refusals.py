"""Monty's refusals, the evidence that an escalation to the heavy lane must name.

A refusal is kept as raw bytes by digest, written by an operation of its own.

SECURITY
    Raw bytes also come from the web and from files: a page could spell a refusal of any code.
    So the bytes prove nothing; only the log entry that this host stored them as a refusal does.
"""

from typing import Final

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_request import refusal_record
from threegate.audit.entry import SEGMENT_EVENTS
from threegate.audit.log import AuditLog
from threegate.base.errors import ArtifactRejected
from threegate.handoff import states
from threegate.handoff.journal import Put
from threegate.handoff.records import INTENT, OUTCOME, RECOVERED
from threegate.handoff.store import Store

OP: Final = "refusal"
FORGOTTEN: Final = "TG-HND-010"


def keep_refusal(store: Store, *, code_sha256: str, construct: str, line: int, reason: str) -> str:
    """Store a refusal, unless it is stored already; return the digest of its record."""
    record = refusal_record(code_sha256=code_sha256, construct=construct, line=line, reason=reason)
    digest = sha256_hex(record)
    with store.locked() as journal:
        refuse_forgotten(store, digest)
        if not was_refused(store, digest):
            journal.run(OP, [Put(states.BLOBS, digest, record)], {"code_sha256": code_sha256})
    return digest


def refuse_forgotten(store: Store, digest: str) -> None:
    """Raise `ArtifactRejected` if raw bytes were forgotten here: keeping them would undo it."""
    if store.holds(states.TOMBSTONES, f"blob-{digest}.json"):
        raise ArtifactRejected("these bytes were forgotten here", code=FORGOTTEN)


def was_refused(store: Store, digest: str) -> bool:
    """Tell whether a record is here and this host wrote it as a refusal; the lock is held."""
    return store.has_blob(digest) and _written(store.journal.log, digest)


def _written(log: AuditLog, digest: str) -> bool:
    """Look for the operation backwards, further each time: most escalations follow at once."""
    newest = log.head.seq - log.head.seq % SEGMENT_EVENTS
    back = SEGMENT_EVENTS
    while True:
        start = max(0, newest - back)
        if _written_since(log, start, digest):
            return True
        if start == 0:
            return False
        back *= 4


def _written_since(log: AuditLog, start: int, digest: str) -> bool:
    announced = False
    for entry in log.entries(start):
        if entry.kind == INTENT:
            named = (entry.data.get("op"), entry.data.get("to"), entry.data.get("name"))
            announced = announced or named == (OP, states.BLOBS, digest)
        elif entry.kind in (OUTCOME, RECOVERED):
            if announced and entry.data.get("direction") != "back":
                return True
            announced = False
    return False
