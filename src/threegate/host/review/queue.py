"""The requests in some states, oldest first, each with the number of its flags."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from threegate.base.errors import UsageError
from threegate.handoff.misplaced import Aside, set_aside
from threegate.host.review.sheet import Sheet, read_sheet
from threegate.host.workspace.workspace import Workspace

if TYPE_CHECKING:
    from threegate.host.workspace.index import Index


@dataclass(frozen=True, slots=True)
class QueueItem:
    """One request in a listing; the purpose is foreign text."""

    id: str
    kind: str
    state: str
    lane: str
    origin: str
    age_seconds: int
    expires_in_seconds: int | None
    flags: int
    purpose: str


def listed(
    ws: Workspace,
    index: "Index",
    states: tuple[str, ...],
    *,
    limit: int,
    skip: int,
    aside: Aside = None,
) -> Iterator[QueueItem]:
    """Yield a page of the requests in these states, each read again from its file."""
    for row in index.queue(states, limit=limit, skip=skip):
        sheet = None
        with suppress(UsageError), set_aside(aside, row.id):  # or gone meanwhile
            sheet = read_sheet(ws, row.id, index, similar=False)
        if sheet is None:
            continue
        yield item_of(sheet)


def item_of(sheet: Sheet) -> QueueItem:
    """Return a sheet as one line of a listing."""
    left = None if sheet.expires is None else sheet.expires - sheet.now
    return QueueItem(
        sheet.id,
        sheet.kind,
        sheet.state,
        sheet.lane,
        sheet.request.origin,
        sheet.age_seconds,
        left,
        len(sheet.flags),
        sheet.purpose,
    )


def total(index: "Index", states: tuple[str, ...]) -> int:
    """Return how many requests are in these states."""
    return sum(index.count(("fr", "tr"), state=state) for state in states)
