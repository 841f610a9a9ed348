"""What time, policy and a crash decided, in one line each; told to people who came for more."""

from collections.abc import Callable, Iterator
from typing import Final

from threegate.artifacts.ids import short
from threegate.base.errors import ClockRefused
from threegate.handoff.claims import release_dead
from threegate.handoff.misplaced import Aside
from threegate.host.output import counted
from threegate.host.review.decisions import Swept, sweep
from threegate.host.workspace.workspace import Workspace

MOST_LINES: Final = 10


def settle(ws: Workspace, note: Callable[[str], None], aside: Aside = None) -> Swept:
    """Let time and policy decide first, and say what they decided, and what a dead run left.

    Requests that somebody meddled with are put into `aside`, for the caller to name; without
    it the first one is raised.
    """
    if ws.read_only:
        return Swept((), ())
    for line in _released(ws, aside):
        note(line)
    try:
        ws.store.journal.log.refuse_clock_ahead()
    except ClockRefused as exc:  # by such a clock nothing expires
        note(exc.message)
        return Swept((), ())
    swept = sweep(ws, aside)
    for line in told(swept):
        note(line)
    return swept


def _released(ws: Workspace, aside: Aside) -> Iterator[str]:
    dead = release_dead(ws.store, aside)
    for request_id in dead[:MOST_LINES]:
        waits = "it waits again" if ws.store.standing(request_id) == "held" else "it can run again"
        yield f"{short(request_id)} was under way when an earlier run died: {waits}"
    left = len(dead) - MOST_LINES
    if left > 0:
        yield f"{counted(left, 'more request')} were under way"


def told(swept: Swept) -> Iterator[str]:
    """Yield a line for each decision; of many, the first ones and how many more."""
    if swept.expired:
        named = ", ".join(short(request_id) for request_id in swept.expired[:MOST_LINES])
        more = " and more" if len(swept.expired) > MOST_LINES else ""
        yield f"{counted(len(swept.expired), 'request')} waited too long and expired: {named}{more}"
    for one in swept.voided[:MOST_LINES]:
        yield f"{short(one.request)} waits again: {one.reason} [{one.code}]"
    left = len(swept.voided) - MOST_LINES
    if left > 0:
        yield f"{counted(left, 'more request')} wait again"
