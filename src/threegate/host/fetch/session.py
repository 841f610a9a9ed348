"""One fetch from claim to end: the operator's own targets and approved fetch requests.

`fetch` claims the approved requests, runs everything in one `FetchRun` and ends every claim.  An
approval is checked here before a use of it is spent; the sandbox that asks checks it again, and
that each URL belongs to the approved references.

SECURITY
    References may have been written by CORE under the influence of hostile text.  Without an
    approval that covers the request's bytes there is no authority, and the sandbox refuses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import short
from threegate.artifacts.references import DEFAULT_ENRICH, parse_reference
from threegate.base.errors import PolicyDenied, ThreeGateError, UsageError
from threegate.base.text import quote
from threegate.gates.fetch.retrieve.messages import Authority
from threegate.handoff import states
from threegate.handoff.approvals import approvals_by_request
from threegate.handoff.claims import MAX_CLAIMS, claim_group, finish_group
from threegate.host.fetch.budgets import budgets_of
from threegate.host.fetch.credentials import credential_for
from threegate.host.fetch.items import FetchMoment, FetchReport
from threegate.host.fetch.network import Network, Places
from threegate.host.fetch.normalize_pool import Makers
from threegate.host.fetch.open_access import lacks_document, may_follow
from threegate.host.fetch.ports import FetchEvent
from threegate.host.fetch.run import FetchRun
from threegate.host.fetch.targets import ApprovedFetch, FetchTarget, target_for
from threegate.host.policy.coverage import (
    NOT_APPROVED,
    ReadyRequest,
    ready_request,
    void_if_refused,
)
from threegate.host.settings import Settings
from threegate.host.workspace.workspace import Workspace
from threegate.sandbox.machine import find_machine

RESERVE_BYTES: Final = 8 * 1024 * 1024  # for log and packets of one request
APPROVED: Final = states.directory_of("fr", "approved")
_AGAIN: Final = "`threegate fetch` with its references makes a new request"

ReadyFetch = ReadyRequest[FetchRequest]


@dataclass(slots=True)
class ClaimedFetches:
    """Requests claimed by this process, and refused ones."""

    ready: list[ReadyFetch] = field(default_factory=list)
    refused: list[tuple[str, ThreeGateError]] = field(default_factory=list)


def all_approved(ws: Workspace) -> list[str]:
    """Return the ids of every approved fetch request."""
    names = (name for name in ws.store.names(APPROVED) if name.startswith("fr-"))
    return sorted(name.removesuffix(".md") for name in names)


def claim_requests(ws: Workspace, request_ids: Sequence[str]) -> ClaimedFetches:
    """Claim every request that may be fetched; each claim spends a use of its approval."""
    claimed = ClaimedFetches()
    approvals = approvals_by_request(ws.store)
    ready: list[ReadyFetch] = []
    for request_id in request_ids:
        try:
            ready.append(make_ready(ws, request_id, approvals))
        except ThreeGateError as exc:
            void_if_refused(ws, request_id, approvals.get(request_id, ()), exc)
            claimed.refused.append((request_id, exc))
    for group in (ready[at : at + MAX_CLAIMS] for at in range(0, len(ready), MAX_CLAIMS)):
        gone = claim_group(ws.store, [item.claim for item in group], reserve_bytes=RESERVE_BYTES)
        claimed.refused += [(item.request_id, item.error) for item in gone]
        lost = {item.request_id for item in gone}
        claimed.ready += [item for item in group if item.request_id not in lost]
    return claimed


def make_ready(
    ws: Workspace, request_id: str, approvals: Mapping[str, Sequence[str]]
) -> ReadyFetch:
    """Return a request that may be fetched, or raise the reason it may not; nothing is spent."""
    return ready_request(ws, request_id, approvals, FetchRequest, _not_approved)


def _not_approved(name: str, state: str) -> ThreeGateError:
    if state == "claimed":
        hint = "if no other command is fetching it, `threegate review` releases it"
        return UsageError(f"{name} is being fetched", hint=hint)
    words = {"done": "was fetched", "denied": "was denied", "expired": "expired"}
    return PolicyDenied(f"{name} {words[state]}", code=NOT_APPROVED, hint=_AGAIN)


def targets_of(
    ws: Workspace, ready: ReadyFetch, note: Callable[[str], None]
) -> Iterator[FetchTarget]:
    """Yield the targets of an approved request; unusable references are noted and skipped."""
    request, given = ready.request, ready.presented
    authority = Authority(given.request, given.approval, given.signature)
    approved = ApprovedFetch(ready.request_id, authority, request.integrity)
    for reference in request.references:
        text = reference.open_for_validation()
        try:
            parsed = parse_reference(text)
        except ValueError as exc:
            note(f"{short(ready.request_id)}: {quote(text)} is not asked for: {exc}")
            continue
        yield target_for(
            parsed,
            ws.bundle,
            want=request.want,
            enrich=DEFAULT_ENRICH,
            confidentiality=request.confidentiality,
            approved=approved,
        )


def finish_requests(ws: Workspace, ready: Sequence[ReadyFetch], *, unfinished: set[str]) -> None:
    """End every claim: done, or back to review if the run stopped early."""
    if ready:
        finish_group(ws.store, [one.end(held=one.request_id in unfinished) for one in ready])


Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FetchWork:
    """Targets of one fetch, and the requests that were claimed for it."""

    targets: tuple[FetchTarget, ...]
    claimed: ClaimedFetches

    @property
    def refused(self) -> Sequence[tuple[str, ThreeGateError]]:
        """Return the refused requests with the reasons."""
        return self.claimed.refused


def dry_run_work(
    ws: Workspace, own: Sequence[FetchTarget], requests: Sequence[str], note: Note
) -> FetchWork:
    """Return the work of a dry run: nothing is claimed or spent."""
    approvals, found = approvals_by_request(ws.store), ClaimedFetches()
    for request_id in requests:
        try:
            found.ready.append(make_ready(ws, request_id, approvals))
        except ThreeGateError as exc:
            found.refused.append((request_id, exc))
    return FetchWork(_targets(ws, own, found, note), found)


def claim_work(
    ws: Workspace, own: Sequence[FetchTarget], requests: Sequence[str], note: Note
) -> FetchWork:
    """Claim approved requests and return everything to fetch."""
    claimed = claim_requests(ws, requests)
    return FetchWork(_targets(ws, own, claimed, note), claimed)


def _targets(
    ws: Workspace, own: Sequence[FetchTarget], claimed: ClaimedFetches, note: Note
) -> tuple[FetchTarget, ...]:
    """Return every target; note documents that no source of the reference provides."""
    approved = (target for ready in claimed.ready for target in targets_of(ws, ready, note))
    targets = (*own, *approved)
    for follows, words in (
        (True, "an open copy is asked for if policy lists its host"),
        (False, "no source provides the document; the packet lists links to it"),
    ):
        without = [one for one in targets if lacks_document(one) and may_follow(one) == follows]
        if without:
            named = without[0].reference if len(without) == 1 else f"{len(without)} references"
            note(f"{named}: {words}")
    return targets


def carry_out(
    ws: Workspace, run: FetchRun, work: FetchWork, *, stop: Callable[[], bool]
) -> Iterator[FetchReport]:
    """Fetch everything, and end every claim in any case."""
    waiting = dict(enumerate(work.targets))
    try:
        with closing(run.fetch(work.targets, stop=stop)) as reports:
            for report in reports:
                del waiting[report.number]
                yield report
    finally:
        left = {target.request_id for target in waiting.values() if target.request_id is not None}
        finish_requests(ws, work.claimed.ready, unfinished=left)


def fetch(
    ws: Workspace,
    settings: Settings,
    own: Sequence[FetchTarget],
    requests: Sequence[str],
    *,
    max_age_seconds: int,
    stop: Callable[[], bool],
    show: Callable[[FetchMoment], None] = lambda _: None,
    note: Note = lambda _: None,
) -> tuple[FetchWork, Iterator[FetchReport]]:
    """Claim the requests; return the work, and the reports of the run, which starts with the first.

    The caller must iterate over the reports: that ends the claims.
    """
    # Before the claims: it raises if another policy was applied, and then no use is spent.
    run = _new_run(ws, settings, max_age_seconds=max_age_seconds, show=show)
    work = claim_work(ws, own, requests, note)
    return work, carry_out(ws, run, work, stop=stop)


def _new_run(
    ws: Workspace, settings: Settings, *, max_age_seconds: int, show: Callable[[FetchMoment], None]
) -> FetchRun:
    """Return a run that starts no sandbox before its first question."""
    machine = find_machine()
    events: SimpleQueue[FetchEvent] = SimpleQueue()
    places = Places(ws.root, settings.runtime_home)
    budgets = budgets_of(settings, ws)
    return FetchRun(
        ws,
        events,
        Network(machine, ws.bundle, places, budgets=budgets, tell=events.put),
        Makers(machine, ws.bundle, tell=events.put),
        credentials=lambda bundle, host: credential_for(settings, bundle, host),
        max_age_seconds=max_age_seconds,
        show=show,
    )
