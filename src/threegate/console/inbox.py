"""What waits for the operator, riskiest first, and of equals the newest.

Rating a request means reading it, and a thousand of them take seconds: ratings are kept, and
whatever is on the page that is shown was read again for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.ids import is_id
from threegate.base.errors import HandoffTampered, UsageError
from threegate.console.workspace_threads import Desk
from threegate.host.review.requests import WAITING
from threegate.host.review.sheet import QueueItem, item_of, read_sheet

PAGE: Final = 25
AT_ONCE: Final = 5  # ratings before other work is let through
MAX_WAITING: Final = 100_000


@dataclass(frozen=True, slots=True)
class RatedRequest:
    """One request that waits; None and a problem if its file was meddled with."""

    id: str
    created: str
    item: QueueItem | None
    joins: int = 3  # of the rule of two; what cannot be read counts as the worst
    problem: str = ""

    @property
    def rank(self) -> tuple[int, int, int]:
        """How much there is to look at, most first."""
        if self.item is None:
            return (-9, 0, 0)
        return (-self.joins, -(self.item.lane == "era"), -self.item.flags)


@dataclass(frozen=True, slots=True)
class InboxPage:
    """A page of the inbox."""

    rows: Sequence[RatedRequest]
    number: int
    total: int
    unrated: int

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, -(-self.total // PAGE))


class Inbox:
    """The ratings of what waits, of one policy."""

    def __init__(self) -> None:
        self._policy = ""
        self._rated: dict[str, RatedRequest] = {}

    def page(self, desk: Desk, number: int) -> InboxPage:
        """Return a page of what waits."""
        ids = self._waiting(desk)
        unrated = [one for one in ids if one not in self._rated]
        for request_id in unrated[:AT_ONCE]:
            self._rate(desk, request_id)
        place = {request_id: at for at, request_id in enumerate(ids)}
        known = [self._rated[one] for one in ids if one in self._rated]
        # Older ones have the smaller place; ids are of one length, so time and place agree.
        known.sort(key=lambda one: (one.rank, -place[one.id]))
        chosen = known[(number - 1) * PAGE : number * PAGE]
        rows = [self._rate(desk, one.id) for one in chosen]
        return InboxPage(rows, number, len(ids), max(0, len(unrated) - AT_ONCE))

    def rate_some(self, desk: Desk) -> bool:
        """Rate a few requests that are not rated yet; tell whether there are more."""
        unrated = [one for one in self._waiting(desk) if one not in self._rated]
        for request_id in unrated[:AT_ONCE]:
            self._rate(desk, request_id)
        return len(unrated) > AT_ONCE

    def _waiting(self, desk: Desk) -> list[str]:
        """Return the ids of everything that waits, oldest first."""
        if desk.ws.bundle.digest != self._policy:
            self._policy, self._rated = desk.ws.bundle.digest, {}
        rows = desk.index.queue(WAITING, limit=MAX_WAITING, skip=0)
        ids = [row.id for row in rows if is_id(row.id)]
        for gone in self._rated.keys() - set(ids):
            del self._rated[gone]
        return ids

    def _rate(self, desk: Desk, request_id: str) -> RatedRequest:
        found = RatedRequest(request_id, "", None)
        try:
            sheet = read_sheet(desk.ws, request_id, desk.index, similar=False)
        except (HandoffTampered, UsageError) as exc:
            found = RatedRequest(request_id, "", None, problem=f"{exc.message} [{exc.code}]")
        else:
            two = sheet.rule_of_two
            joins = two.external + two.confidential + two.network
            found = RatedRequest(request_id, sheet.request.created, item_of(sheet), joins)
        self._rated[request_id] = found
        return found
