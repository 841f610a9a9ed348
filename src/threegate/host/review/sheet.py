"""A review sheet: everything a human must see of a request, as data, as JSON and as a list entry.

The sheet holds the bytes it was made from.  An approval signs their digest, so a human cannot
sign anything but what was shown.

SECURITY
    Reads a stored request again, checked by digest and by the log.  If this module is wrong,
    a human approves something they were not shown.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from threegate.artifacts import registry
from threegate.artifacts.approval import Approval
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.labels import Labels
from threegate.artifacts.registry import Request
from threegate.artifacts.tool_request import ToolRequest
from threegate.audit.entry import unix_of
from threegate.base.errors import HandoffTampered
from threegate.base.forms import KINDS
from threegate.handoff.approvals import Denial, approvals_by_request, denial_of
from threegate.host.review import parts
from threegate.host.review.characters import FoundCharacter, tally
from threegate.host.review.contents import (
    fetch_of,
    flags_of_code,
    foreign_texts,
    rule_of_two,
    tool_of,
    verdicts_on,
)
from threegate.host.review.flags import (
    common_flags,
    dictated_flags,
    fetch_flags,
    tampered_flags,
    tool_flags,
)
from threegate.host.review.origins import reader, sheet_lookup, sources_of
from threegate.host.review.requests import WAITING, expiry_of, read_request
from threegate.host.review.similar import find_earlier
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle

if TYPE_CHECKING:
    from threegate.host.workspace.index import Index
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from threegate.base.errors import UsageError
from threegate.handoff.store import Aside, set_aside


@dataclass(frozen=True, slots=True)
class ReviewSheet:
    """Everything shown of a request; `tool` or `fetch` is there, never both."""

    id: str
    kind: str
    data: bytes
    request: Request
    state: str
    now: int
    expires: int | None  # when it stops waiting
    lane: str
    policy: str  # digest of the bundle it was judged by
    labels: Labels
    purpose: str  # foreign
    tool: parts.Tool | None
    fetch: parts.Fetch | None
    sources: parts.SheetSources
    characters: tuple[FoundCharacter, ...]
    rule_of_two: parts.RuleOfTwo
    verdicts: tuple[parts.SheetVerdict, ...]
    flags: tuple[parts.Flag, ...]
    earlier: parts.Earlier | None
    standing: tuple[parts.Standing, ...]
    denial: Denial | None

    @property
    def age_seconds(self) -> int:
        """How long ago the host stored it."""
        return max(0, self.now - unix_of(self.request.created))

    @property
    def waits(self) -> bool:
        """Tell whether a human may still decide."""
        return self.state in WAITING


def read_sheet(
    ws: Workspace, request_id: str, index: "Index | None" = None, *, similar: bool = True
) -> ReviewSheet:
    """Return the sheet of a stored request; without an index nothing similar is looked for.

    Without an index the origin of packets is read from the log, and a retraction that only
    another packet of a work knows of is not found.
    Raises `UsageError` if there is no such request, `HandoffTampered` if its file is not what the
    log recorded.
    """
    data, request, state = read_request(ws, request_id)
    store, bundle = ws.store, ws.bundle
    look = sheet_lookup(store, index)
    tool = tool_of(request, bundle, store, look) if isinstance(request, ToolRequest) else None
    fetch = fetch_of(request, bundle) if isinstance(request, FetchRequest) else None
    sources, two = sources_of(request, look), rule_of_two(request, bundle)
    found = tally(foreign_texts(request))
    flags = [*common_flags(request, sources, found, two), *_flags(request, tool, fetch, bundle)]
    flags += dictated_flags(request, look.read)
    aside: dict[str, HandoffTampered] = {}
    earlier = find_earlier(store, index, request_id, request, aside) if index and similar else None
    flags += tampered_flags(aside)
    return ReviewSheet(
        id=request_id,
        kind=KINDS[prefix_of(request_id)],
        data=data,
        request=request,
        state=state,
        now=ws.clock(),
        expires=expiry_of(request, bundle) if state in WAITING else None,
        lane=request.backend if isinstance(request, ToolRequest) else "fetch",
        policy=bundle.digest,
        labels=registry.labels_of(request),
        purpose=request.purpose.open_for_display(),
        tool=tool,
        fetch=fetch,
        sources=sources,
        characters=found,
        rule_of_two=two,
        verdicts=tuple(verdicts_on(request, bundle)),
        flags=tuple(flags),
        earlier=earlier,
        standing=tuple(_standing(ws, request_id)) if state == "approved" else (),
        denial=denial_of(store, request_id) if state == "denied" else None,
    )


def _flags(
    request: Request, tool: parts.Tool | None, fetch: parts.Fetch | None, bundle: Bundle
) -> Iterator[parts.Flag]:
    if isinstance(request, ToolRequest) and tool is not None:
        yield from tool_flags(request, tool.limits, tool.inputs, bundle)
        yield from flags_of_code(request, bundle)
    if isinstance(request, FetchRequest) and fetch is not None:
        yield from fetch_flags(request, fetch.references)


def _standing(ws: Workspace, request_id: str) -> Iterator[parts.Standing]:
    for approval_id in approvals_by_request(ws.store).get(request_id, []):
        approval = reader(ws.store)(approval_id)
        if isinstance(approval, Approval) and approval.request == request_id:
            yield parts.Standing(
                approval_id, approval.approver, approval.not_after, approval.max_uses
            )


# -- JSON ------------------------------------------------------------------------------------


def document(sheet: ReviewSheet) -> dict[str, Any]:
    """Return the sheet as JSON values; the keys do not change without a line in the changelog."""
    left = None if sheet.expires is None else sheet.expires - sheet.now
    return {
        "id": sheet.id,
        "kind": sheet.kind,
        "state": sheet.state,
        "created": sheet.request.created,
        "age_seconds": sheet.age_seconds,
        "expires_in_seconds": left,
        "origin": sheet.request.origin,
        "lane": sheet.lane,
        "integrity": sheet.labels.integrity,
        "confidentiality": sheet.labels.confidentiality,
        "bytes": len(sheet.data),
        "policy": sheet.policy,
        "purpose": sheet.purpose,
        "tool": None if sheet.tool is None else _tool(sheet.tool),
        "fetch": None if sheet.fetch is None else asdict(sheet.fetch),
        "sources": {**asdict(sheet.sources), "hosts": list(sheet.sources.hosts)},
        "characters": [asdict(one) for one in sheet.characters],
        "rule_of_two": {**asdict(sheet.rule_of_two), "joined": sheet.rule_of_two.joined},
        "decisions": [asdict(one) for one in sheet.verdicts],
        "flags": [asdict(one) for one in sheet.flags],
        "earlier": None if sheet.earlier is None else asdict(sheet.earlier),
        "approvals": [asdict(one) for one in sheet.standing],
        "denial": None if sheet.denial is None else asdict(sheet.denial),
    }


def _tool(tool: parts.Tool) -> dict[str, Any]:
    found = {key: value for key, value in asdict(tool).items() if key != "code"}
    code = tool.code
    if code is None:
        return {**found, "code": None}
    shown = {"text": code.text, "sha256": code.sha256, "bytes": code.bytes}
    return {**found, "code": {**shown, "lines": len(code.lines)}}


# -- lists -----------------------------------------------------------------------------------


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


def item_of(sheet: ReviewSheet) -> QueueItem:
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
