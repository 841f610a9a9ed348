"""One command's work: the operator's own wishes and approved requests, from claim to end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import ThreeGateError
from threegate.handoff.approvals import approvals_by_request
from threegate.host.fetch.approved import (
    Claimed,
    claim_requests,
    finish_requests,
    make_ready,
    wishes_of,
)
from threegate.host.fetch.plan import Wish
from threegate.host.fetch.ports import Report
from threegate.host.fetch.run import Run
from threegate.host.workspace.workspace import Workspace

FULL_TEXT: Final = "full-text"
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be fetched."""

    wishes: tuple[Wish, ...]
    claimed: Claimed

    @property
    def refused(self) -> Sequence[tuple[str, ThreeGateError]]:
        """Return the requests that are not asked for, and why."""
        return self.claimed.refused


def rehearsed(ws: Workspace, own: Sequence[Wish], requests: Sequence[str], note: Note) -> Work:
    """Return the work of a dry run: nothing is claimed, no use is spent."""
    approvals, found = approvals_by_request(ws.store), Claimed()
    for request_id in requests:
        try:
            found.ready.append(make_ready(ws, request_id, approvals))
        except ThreeGateError as exc:
            found.refused.append((request_id, exc))
    return Work(_wishes(ws, own, found, note), found)


def begun(ws: Workspace, own: Sequence[Wish], requests: Sequence[str], note: Note) -> Work:
    """Claim what was approved, and return everything there is to fetch."""
    claimed = claim_requests(ws, requests)
    return Work(_wishes(ws, own, claimed, note), claimed)


def _wishes(ws: Workspace, own: Sequence[Wish], claimed: Claimed, note: Note) -> tuple[Wish, ...]:
    """Return every wish; a document that was wanted and that no source gives is told."""
    approved = (wish for ready in claimed.ready for wish in wishes_of(ws, ready, note))
    wishes = (*own, *approved)
    without = [wish for wish in wishes if wish.want == FULL_TEXT and not wish.wants_document]
    if without:
        named = without[0].reference if len(without) == 1 else f"{len(without)} references"
        note(f"{named}: no source gives the document; links to it stand in the packet")
    return wishes


def carried_out(
    ws: Workspace, run: Run, work: Work, *, stop: Callable[[], bool]
) -> Iterator[Report]:
    """Fetch everything; end every claim, whatever happens."""
    waiting = dict(enumerate(work.wishes))
    try:
        with closing(run.fetch(work.wishes, stop=stop)) as reports:
            for report in reports:
                del waiting[report.number]
                yield report
    finally:
        left = {wish.request_id for wish in waiting.values() if wish.request_id is not None}
        finish_requests(ws, work.claimed.ready, unfinished=left)
