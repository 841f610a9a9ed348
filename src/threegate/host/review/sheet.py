"""A review sheet: everything a human must see of a request, as data.

The sheet holds the very bytes it was made from.  Whoever approves signs their digest, so
what was shown and what is signed cannot be two things.

SECURITY
    Reads a stored request again, checked by digest and by the log.  If this module is wrong,
    a human says yes to something they were not shown.
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
from threegate.handoff.approvals import Denial, approvals_by_request, denial_of
from threegate.host.review import parts
from threegate.host.review.asked import (
    fetch_of,
    flags_of_code,
    foreign_texts,
    rule_of_two,
    tool_of,
    verdicts_on,
)
from threegate.host.review.characters import FoundCharacter, tally
from threegate.host.review.dictated import dictated_flags
from threegate.host.review.flags import common_flags, fetch_flags, meddled_flags, tool_flags
from threegate.host.review.origins import reader, sheet_lookup, sources_of
from threegate.host.review.requests import WAITING, expiry_of, read_request
from threegate.host.review.similar import find_earlier
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.kinds import KINDS

if TYPE_CHECKING:
    from threegate.host.workspace.index import Index


@dataclass(frozen=True, slots=True)
class Sheet:
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
) -> Sheet:
    """Return the sheet of a stored request; without an index nothing similar is looked for.

    Without an index the origin of packets is read from the log, and a retraction that only
    another packet of a work knows of is not found.
    Raises `UsageError` for what is no request here, `HandoffTampered` if its file is not
    what the log recorded.
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
    flags += meddled_flags(aside)
    return Sheet(
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
