"""One command's work: the operator's own wishes and approved requests, from claim to end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from threegate.errors import ThreeGateError
from threegate.handoff.approvals import approvals_by_request
from threegate.host.fetching.approved import (
    Claimed,
    claim_requests,
    finish_requests,
    make_ready,
    wishes_of,
)
from threegate.host.fetching.fetch import Run
from threegate.host.fetching.planning import Wish
from threegate.host.fetching.sides import Report
from threegate.host.workspace import Workspace

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
    return Work((*own, *_wishes(ws, found, note)), found)


def begun(ws: Workspace, own: Sequence[Wish], requests: Sequence[str], note: Note) -> Work:
    """Claim what was approved, and return everything there is to fetch."""
    claimed = claim_requests(ws, requests)
    return Work((*own, *_wishes(ws, claimed, note)), claimed)


def _wishes(ws: Workspace, claimed: Claimed, note: Note) -> Iterator[Wish]:
    for ready in claimed.ready:
        yield from wishes_of(ws, ready, note)


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
