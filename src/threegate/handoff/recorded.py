"""Where the log last put a file: the state of a request is that, not where its file lies.

SECURITY
    A request that ran lies in `done`; renamed into `approved` it would run again without
    anybody being asked, and an approval renamed out of `spent` would count once more.  So
    whoever moves one along asks the log first.
"""

from collections.abc import Iterable
from typing import Final

from threegate.audit.entry import Entry
from threegate.audit.limits import SEGMENT_EVENTS
from threegate.audit.log import AuditLog
from threegate.errors import HandoffTampered
from threegate.handoff.records import INTENT, OUTCOME, RECOVERED

MISPLACED: Final = "TG-HND-015"


def refuse_misplaced(log: AuditLog, directory: str, name: str) -> None:
    """Raise `HandoffTampered` unless the log put this file there last; the lock is held."""
    if recorded_place(log, name) != directory:
        detail = f"{name} is in {directory}, where the log did not put it"
        raise HandoffTampered(detail, code=MISPLACED)


def recorded_place(log: AuditLog, name: str) -> str | None:
    """Return the directory the log last put a file into; None if there is none, or it is gone.

    Reads backwards, further each time: what is moved was nearly always moved not long ago.
    """
    newest = log.head.seq - log.head.seq % SEGMENT_EVENTS
    back = SEGMENT_EVENTS
    while True:
        start = max(0, newest - back)
        mentioned, place = _last(log.entries(start), name)
        if mentioned or start == 0:
            return place
        back *= 4


def _last(entries: Iterable[Entry], name: str) -> tuple[bool, str | None]:
    """Return whether a change that was carried out names the file, and where the last put it."""
    mentioned, place = False, None
    announced: list[str | None] = []
    for entry in entries:
        if entry.kind == INTENT and entry.data.get("name") == name:
            announced.append(entry.data.get("to"))
        elif entry.kind in (OUTCOME, RECOVERED):
            if announced and entry.data.get("direction") != "back":
                mentioned, place = True, announced[-1]
            announced = []
    return mentioned, place
