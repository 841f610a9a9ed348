"""The state of each file according to the log, which decides; the place on disk does not.

Fed with every entry the store sees.  Older entries are read backwards on demand, more each time and
only once: most moves concern
recent files.  Only requests, approvals and leases are kept, because only these move.

SECURITY
    Attacks by rename: a request moved from `done` to `approved` would run again without a new
    approval, an approval moved out of `spent` would be valid again, and an old counter of uses
    would grant one more.  So every move is checked here.
    Reads a log that somebody may have edited: a value of the wrong kind is equal to no
    directory and to no digest.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from threegate.audit.entry import CLOCK, HEADER, SEGMENT_EVENTS, Entry, LogBroken, LogFault
from threegate.audit.log import AuditLog
from threegate.handoff.records import (
    INTENT,
    OUTCOME,
    RECOVERED,
    Intent,
    IntentOutcome,
    parse_intent,
    parse_outcome,
)
from threegate.handoff.states import LEASES, content_digest_in

MOVING: Final = ("fr-", "tr-", "ap-")

Older = Callable[[int], Iterator[Entry]]
Place = tuple[str, str]  # directory and digest; the digest is empty if only moves were seen


class Ledger:
    """File names and their places, from the entries fed so far and older ones on demand."""

    def __init__(self, older: Older | None = None) -> None:
        """`older` returns the entries of the log from a sequence number on."""
        self.older = older
        self.reaches = -1  # every change from this entry on is known
        self.latest_before = ""  # no entry before that one is later than this
        self.before = ""  # digest of the entry before that one
        self._seen = -1
        self._latest = ""  # time of any entry that was fed, or lies before those
        self._span = SEGMENT_EVENTS  # how much to read at the next look back
        self._announced: list[Entry] = []
        self.places: dict[str, Place | None] = {}  # None: the log removed it

    def feed(self, entry: Entry) -> None:
        """Take the next entry; one that was fed before changes nothing."""
        if entry.seq <= self._seen:
            return
        if self.reaches < 0:
            # Not the time of this entry: after the clock was set back, earlier entries may be
            # later.
            known = entry.data.get("latest") if entry.kind == HEADER else entry.time
            self._latest = str(known)
            self._start(entry.seq, entry.prev, self._latest)
        self._seen, self._latest = entry.seq, max(self._latest, entry.time)
        if entry.kind == INTENT:
            self._announced.append(entry)
        elif entry.kind in (OUTCOME, RECOVERED):
            self._close(entry)

    def place(self, name: str) -> Place | None:
        """Return where a file of those kinds is, and its digest; None if it is nowhere.

        The lock is held.  Raises `AuditTampered` if what was written before does not lead here.
        """
        assert self.reaches >= 0, "the newest entries were fed when the log was opened"
        while not self._is_whole(name) and self.reaches > 0:
            self._read_back()
        found = self.places.get(name)
        return None if found is None else (found[0], found[1] or (content_digest_in(name) or ""))

    def mentions(self, name: str, *, since: str) -> bool:
        """Tell whether a change at that time or later named a file, even one that is gone."""
        while name not in self.places and self.reaches > 0 and self.latest_before >= since:
            self._read_back()
        return name in self.places

    def _is_whole(self, name: str) -> bool:
        found = self.places.get(name, ("", ""))
        return found is None or bool(found[1]) or bool(found[0] and content_digest_in(name))

    def _start(self, seq: int, before: str, latest: str) -> None:
        self.reaches, self.before, self.latest_before = seq, before, latest

    def _close(self, outcome: Entry) -> None:
        announced, self._announced = self._announced, []
        first, last = outcome.data.get("first"), outcome.data.get("last")
        if type(first) is not int or type(last) is not int:
            return
        if first < self.reaches:  # its beginning was not fed: read backwards, it is whole
            self._start(outcome.seq + 1, outcome.digest, self._latest)
        elif outcome.data.get("direction") != "back":
            for entry in announced:
                if first <= entry.seq <= last:
                    self._apply(entry.data)

    def _apply(self, act: Any) -> None:
        name, source, to = str(act.get("name")), act.get("from"), act.get("to")
        if not (name.startswith(MOVING) or LEASES in (source, to)):
            return
        now = self.places.get(name)
        if to is not None:
            digest = act.get("sha256") or (now[1] if now is not None else "")
            self.places[name] = (str(to), str(digest))
        elif now is None or now[0] == source:  # else it was put elsewhere in the same change
            self.places[name] = None

    def _read_back(self) -> None:
        """Learn what happened before; the further back, the more at once."""
        assert self.older is not None, "somebody must say where the log is"
        start = max(0, self.reaches // SEGMENT_EVENTS * SEGMENT_EVENTS - self._span)
        self._span *= 4
        earlier, digest = Ledger(), ""
        for entry in self.older(start):
            if entry.seq >= self.reaches:
                break
            earlier.feed(entry)
            digest = entry.digest
        # A partial read was not followed to the head, so the link between both parts is checked
        # here.
        if digest != self.before:
            raise LogBroken(
                LogFault.CHAIN, segment=self.reaches // SEGMENT_EVENTS, seq=self.reaches
            )
        self._prepend(earlier)

    def _prepend(self, earlier: "Ledger") -> None:
        for name, place in earlier.places.items():
            known = self.places.setdefault(name, place)
            if known is not None and not known[1] and place is not None:
                self.places[name] = (known[0], place[1])
        self._start(earlier.reaches, earlier.before, earlier.latest_before)


# The end of the log: changes that were announced and not closed, and how the last one closed.
#
# Fed with each entry while the log is verified at opening and at each refresh, so that no segment
# is read twice to find out what a crash left.

BOOKKEEPING: Final = frozenset({"segment", "seal", "log.recovered"})


class Tail:
    """Changes that the entries fed so far announced and did not close."""

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

    def outcome(self) -> IntentOutcome | None:
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
