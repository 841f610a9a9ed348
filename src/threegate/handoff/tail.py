"""The end of the log: which changes were announced and not closed, and how the last closed.

Fed with each entry while the log is verified at opening and at each refresh, so that nobody
reads a segment twice to find out what a crash left.
"""

from typing import Final

from threegate.audit.entry import CLOCK, Entry
from threegate.audit.limits import SEGMENT_EVENTS
from threegate.audit.log import AuditLog
from threegate.handoff.records import (
    INTENT,
    OUTCOME,
    RECOVERED,
    Intent,
    Outcome,
    parse_intent,
    parse_outcome,
)

BOOKKEEPING: Final = frozenset({"segment", "seal", "log.recovered"})


class Tail:
    """What the entries fed so far leave open."""

    def __init__(self) -> None:
        self.clock: Entry | None = None  # the last entry that set the clock
        self._seen = -1
        self._announced: list[Entry] = []
        self._closing: Entry | None = None

    def feed(self, entry: Entry) -> None:
        """Take the next entry; one that was fed before changes nothing."""
        if entry.seq <= self._seen:  # a refresh that failed half way shows its entries again
            return
        if entry.kind == CLOCK:
            self.clock = entry
        self._seen = entry.seq
        if entry.kind == INTENT:
            self._announced.append(entry)
        elif entry.kind in (OUTCOME, RECOVERED):
            self._announced, self._closing = [], entry
        elif entry.kind not in BOOKKEEPING:
            self._announced = []

    @property
    def is_known(self) -> bool:
        """Tell whether a batch was closed in what was fed, so that no totals lie further back."""
        return self._closing is not None

    def pending(self) -> list[Intent]:
        """Return the acts without an outcome, or raise `AuditTampered`."""
        return [parse_intent(entry) for entry in self._announced]

    def outcome(self) -> Outcome | None:
        """Return how the last batch ended, or raise `AuditTampered`."""
        return None if self._closing is None else parse_outcome(self._closing)


def longer_tail(log: AuditLog) -> Tail:
    """Return what the log leaves open, from as far back as the last batch that was closed.

    Two segments nearly always, for a batch may lie across them; more when gates and
    checkpoints alone filled those.
    """
    newest = log.head.seq - log.head.seq % SEGMENT_EVENTS
    back = SEGMENT_EVENTS
    while True:
        tail, start = Tail(), max(0, newest - back)
        for entry in log.entries(start):
            tail.feed(entry)
        if tail.is_known or start == 0:
            return tail
        back *= 4
