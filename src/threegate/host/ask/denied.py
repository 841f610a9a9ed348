"""What a person denied of an answer's proposals: data for whoever goes on from that answer.

SECURITY
    The purpose of a request is a model's own words, or a stranger's; the reason is the
    operator's.  Both reach CORE inside quoted data, and the request counts among what could
    be read.
"""

from dataclasses import dataclass
from typing import Final

from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.tool_request import ToolRequest
from threegate.gates.core.messages import MAX_DENIED
from threegate.handoff.approvals import denial_of
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace

PURPOSE_CHARS: Final = 500
REASON_CHARS: Final = 1_000
_PROPOSED: Final = {"tr": "compute", "fr": "fetch"}


@dataclass(frozen=True, slots=True)
class Denied:
    """A proposal that was denied, and what CORE is told about it."""

    request: str
    text: str


def denied_of(ws: Workspace, index: Index, analysis_id: str | None) -> tuple[Denied, ...]:
    """Return the denied proposals of an analysis; raise `HandoffTampered`."""
    if analysis_id is None:
        return ()
    made = (one for one in index.made_from(analysis_id) if prefix_of(one) in _PROPOSED)
    found = (_denied(ws, request_id) for request_id in made)
    return tuple(one for one in found if one is not None)[:MAX_DENIED]


def _denied(ws: Workspace, request_id: str) -> Denied | None:
    denial = denial_of(ws.store, request_id)
    if denial is None or ws.store.locate(request_id) is None:
        return None
    request = ws.store.read(request_id)
    assert isinstance(request, ToolRequest | FetchRequest)
    purpose = request.purpose.open_for_validation()[:PURPOSE_CHARS]
    # The operator's reason first: what a source made a model propose could go on with another.
    proposed = f"{_PROPOSED[prefix_of(request_id)]}: {purpose}"
    words = f"Denied, because: {denial.reason[:REASON_CHARS]} What was proposed, {proposed}"
    return Denied(request_id, words)
