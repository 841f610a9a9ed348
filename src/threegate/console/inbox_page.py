"""The inbox: requests that wait for the operator, riskiest first, then newest.

Rating a request means reading it, and a thousand of them take seconds.  So ratings are kept, and
the requests on the page that is shown are read again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.ids import is_id
from threegate.base.errors import HandoffTampered, UsageError
from threegate.console.messages import Malformed, Response, redirect
from threegate.console.page import Call, ConsolePage, page_number, pages_of
from threegate.host.provenance.headlines import headlines_on_retracted
from threegate.host.review.requests import WAITING
from threegate.host.review.sheet import QueueItem, item_of, read_sheet
from threegate.host.workspace.live import LiveWorkspace

PAGE: Final = 25
AT_ONCE: Final = 5  # ratings before other work is let through
MAX_WAITING: Final = 100_000


@dataclass(frozen=True, slots=True)
class RatedRequest:
    """One waiting request; without an item, but with a problem, if its file was tampered with."""

    id: str
    created: str
    item: QueueItem | None
    joins: int = 3  # of the rule of two; an unreadable request counts as the worst
    problem: str = ""

    @property
    def rank(self) -> tuple[int, int, int]:
        """The sort key: the riskiest request first."""
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
        return pages_of(self.total, PAGE)


class Inbox:
    """The ratings of waiting requests, under one policy."""

    def __init__(self) -> None:
        self._policy = ""
        self._rated: dict[str, RatedRequest] = {}

    def page(self, live: LiveWorkspace, number: int) -> InboxPage:
        """Return a page of waiting requests."""
        ids = self._waiting(live)
        unrated = [one for one in ids if one not in self._rated]
        for request_id in unrated[:AT_ONCE]:
            self._rate(live, request_id)
        place = {request_id: at for at, request_id in enumerate(ids)}
        known = [self._rated[one] for one in ids if one in self._rated]
        # The index lists the oldest first, so of equal ranks the largest place is the newest.
        known.sort(key=lambda one: (one.rank, -place[one.id]))
        chosen = known[(number - 1) * PAGE : number * PAGE]
        rows = [self._rate(live, one.id) for one in chosen]
        return InboxPage(rows, number, len(ids), max(0, len(unrated) - AT_ONCE))

    def rate_some(self, live: LiveWorkspace) -> bool:
        """Rate a few requests that are not rated yet; tell whether there are more."""
        unrated = [one for one in self._waiting(live) if one not in self._rated]
        for request_id in unrated[:AT_ONCE]:
            self._rate(live, request_id)
        return len(unrated) > AT_ONCE

    def _waiting(self, live: LiveWorkspace) -> list[str]:
        """Return the ids of all waiting requests, oldest first."""
        if live.ws.bundle.digest != self._policy:
            self._policy, self._rated = live.ws.bundle.digest, {}
        rows = live.index.queue(WAITING, limit=MAX_WAITING, skip=0)
        ids = [row.id for row in rows if is_id(row.id)]
        for gone in self._rated.keys() - set(ids):
            del self._rated[gone]
        return ids

    def _rate(self, live: LiveWorkspace, request_id: str) -> RatedRequest:
        found = RatedRequest(request_id, "", None)
        try:
            sheet = read_sheet(live.ws, request_id, live.index, similar=False)
        except (HandoffTampered, UsageError) as exc:
            found = RatedRequest(request_id, "", None, problem=f"{exc.message} [{exc.code}]")
        else:
            two = sheet.rule_of_two
            joins = two.external + two.confidential + two.network
            found = RatedRequest(request_id, sheet.request.created, item_of(sheet), joins)
        self._rated[request_id] = found
        return found


async def inbox(call: Call) -> Response:
    """Show the waiting requests, and answers that rest on retracted works."""
    number = page_number(call)
    page, retracted = await call.app.reading.do(
        lambda live: (
            call.app.inbox.page(live, number),
            headlines_on_retracted(live.ws.store, live.index),
        )
    )
    return call.show("inbox", page=page, retracted=retracted)


async def home(_: Call) -> Response:
    """Lead to the inbox."""
    return redirect("/inbox")


async def leave(call: Call) -> Response:
    """End the session."""
    call.app.sessions.leave(call.request.cookie(call.app.cookie))
    gone = f"{call.app.cookie}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
    return redirect("/inbox", ("Set-Cookie", gone))


async def events(call: Call) -> Response:
    """Stream events to a page."""
    if call.app.events.full:
        raise Malformed("too many pages listen")
    last = call.request.headers.get("last-event-id") or call.request.query.get("after", "")
    return Response(kind="text/event-stream; charset=utf-8", stream=call.app.events.stream(last))


PAGES: Final = (
    ConsolePage("/", home),
    ConsolePage("/inbox", inbox, title="Inbox", listed=True, follows=True),
    ConsolePage("/events", events),
    ConsolePage("/logout", post=leave),
)
