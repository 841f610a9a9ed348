"""The approvals behind an answer: who approved what, with which key, under which rules.

Each signature is checked again, by the signers of the policy it was given under and at the time of
its log entry.

SECURITY
    Reads approvals and signatures from the workspace and believes neither.  If this module is
    wrong, a report shows an approval that nobody gave.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from threegate.artifacts.approval import Approval
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.artifacts.tool_result import ToolResult
from threegate.audit.entry import Entry, unix_of
from threegate.audit.log import AuditLog
from threegate.base.errors import HandoffTampered, PolicyInvalid, SignatureRefused
from threegate.base.untrusted import Untrusted
from threegate.handoff.approvals import was_used
from threegate.handoff.records import INTENT
from threegate.handoff.states import QUARANTINE
from threegate.handoff.store import Store
from threegate.host.keys.signatures import UNKNOWN
from threegate.host.output import counted
from threegate.host.provenance.headlines import Headline, headline_of, own_words
from threegate.host.report.facts import Card, Fact
from threegate.host.workspace import applied
from threegate.host.workspace.index import Index
from threegate.host.workspace.packets import logged_origins
from threegate.host.workspace.places import place_of, read_anywhere
from threegate.host.workspace.text_form import how_in, spelled_given
from threegate.host.workspace.workspace import Workspace
from threegate.keys import sshsig
from threegate.policy.approvals import NAMESPACE
from threegate.policy.bundle import Bundle

# What the audit log says about the arrival of artifacts: one pass for all of them.
#
# SECURITY: reads entries only; `audit verify`, which the report names first, finds a rewritten
# log.


@dataclass(frozen=True, slots=True)
class LoggedArrival:
    """The log entry of the change that stored an artifact."""

    op: str
    seq: int
    time: str
    detail: dict[str, Any]


def stored(log: AuditLog, artifact_ids: Collection[str]) -> dict[str, LoggedArrival]:
    """Return how each of these artifacts came here, as far as the log says."""
    wanted = {f"{artifact_id}.md": artifact_id for artifact_id in artifact_ids}
    found: dict[str, LoggedArrival] = {}
    for entry in log.entries():
        name = entry.data.get("name")
        if entry.kind == INTENT and entry.data.get("act") == "put" and name in wanted:
            found.setdefault(wanted[name], _stored(entry))
    return found


def _stored(entry: Entry) -> LoggedArrival:
    detail = entry.data.get("detail")
    op = str(entry.data.get("op"))
    return LoggedArrival(op, entry.seq, entry.time, detail if isinstance(detail, dict) else {})


NO_SIGNATURE: Final = "NO SIGNATURE of this approval is here"
NOT_HERE: Final = "NOT HERE: the approval was forgotten, or never was in this workspace"
NOT_USED: Final = "NO USE of this approval was spent in this workspace"


def approvals_behind(store: Store, index: Index, derived_from: Sequence[str]) -> dict[str, str]:
    """Return the approvals of results and of fetch requests behind an answer, with what for."""
    found: dict[str, str] = {}
    for artifact_id in derived_from:
        artifact = read_anywhere(store, artifact_id)
        if isinstance(artifact, ToolResult):
            found.setdefault(artifact.approval, artifact_id)
        elif isinstance(artifact, ResearchPacket) and artifact.request is not None:
            for made in index.made_from(artifact.request):
                if prefix_of(made) == "ap":
                    found.setdefault(made, artifact_id)
    return found


def approval_card(
    ws: Workspace, approval_id: str, used_for: str, entries: Mapping[str, LoggedArrival]
) -> Card:
    """Return the card of an approval and its request."""
    approval = read_anywhere(ws.store, approval_id)
    own = (Fact("id", approval_id), Fact("for", used_for))
    if not isinstance(approval, Approval):
        return Card(Headline(approval_id), (NOT_HERE,), own)
    key, loud = _signed(ws, approval_id, approval, entries.get(approval_id))
    if place_of(ws.store, approval_id) == QUARANTINE:
        loud = (*loud, "WITHDRAWN: it lies in quarantine here")
    elif not was_used(ws.store, approval_id):
        loud = (*loud, NOT_USED)
    facts = [
        *own,
        Fact("request", approval.request),
        *_request(ws.store, approval.request),
        Fact("approver", approval.approver, foreign=True),
        *key,
        *(Fact(f"rules of {one.name}", f"sha256 {one.sha256}") for one in approval.policy),
        Fact(
            "valid",
            f"{approval.not_before} to {approval.not_after}, {counted(approval.max_uses, 'use')}",
        ),
    ]
    return Card(_headline(ws.store, approval_id, approval), loud, tuple(facts))


def _headline(store: Store, approval_id: str, approval: Approval) -> Headline:
    """Return what was approved; the purpose of a fetch may be more confidential than the packet."""
    if prefix_of(approval.request) == "fr":
        return Headline(approval_id)
    return headline_of(approval_id, own_words(partial(read_anywhere, store), logged_origins(store)))


def _request(store: Store, request_id: str) -> Iterator[Fact]:
    request = read_anywhere(store, request_id)
    if request is None:
        yield Fact("its text", "not here any more")
    elif isinstance(request, ToolRequest):
        yield Fact("code", f"sha256 {request.code_sha256}, lane {request.backend}")


def _signed(
    ws: Workspace, approval_id: str, approval: Approval, entry: LoggedArrival | None
) -> tuple[list[Fact], tuple[str, ...]]:
    """Return key, policy and time of a signature, and what is wrong with it."""
    place = place_of(ws.store, approval_id)
    name = f"{approval_id}.sig"
    if place is None or not ws.store.holds(place, name):
        return [], (NO_SIGNATURE,)
    armored = Untrusted(ws.store.read_file(place, name))
    try:
        fingerprint = sshsig.parse_signature(armored).key.fingerprint
    except SignatureRefused as exc:
        return [], (f"SIGNATURE REFUSED: {exc.message}",)
    facts = [Fact("key", fingerprint)]
    bundle = _bundle_of(ws, approval)
    if bundle is None or entry is None:
        what = "rules it was given under" if bundle is None else "time it was given"
        return facts, (f"SIGNATURE NOT CHECKED: the {what} is not known here",)
    facts += [Fact("approved", f"{entry.time}, log entry {entry.seq}")]
    how = how_in(entry.detail)
    if how.get("given", UNKNOWN) != UNKNOWN:
        facts += [Fact("given", spelled_given(how))]
    facts += [Fact("policy", f"sha256 {bundle.digest}")]
    data = _bytes_of(ws.store, place, approval_id)
    at = unix_of(entry.time)
    try:
        signed = sshsig.verify(data, armored, namespace=NAMESPACE, signers=bundle.signers, at=at)
    except SignatureRefused as exc:
        return facts, (f"SIGNATURE REFUSED: {exc.message}",)
    if signed.principal != approval.approver:
        return facts, ("SIGNATURE REFUSED: the key belongs to somebody else",)
    return [*facts, Fact("signature", "checked again for this report: good")], ()


def _bytes_of(store: Store, place: str, approval_id: str) -> bytes:
    try:
        return store.read_file(place, f"{approval_id}.md")
    except FileNotFoundError as exc:
        raise HandoffTampered(f"{approval_id} went away while it was read") from exc


def _bundle_of(ws: Workspace, approval: Approval) -> Bundle | None:
    """Return the newest policy with exactly the rules the approval binds, if it is kept."""
    bundle = ws.bundle
    while True:
        if all(bundle.section_digest(item.name) == item.sha256 for item in approval.policy):
            return bundle
        if bundle.previous is None:
            return None
        try:
            bundle = applied.read_bundle(ws.store, bundle.previous)
        except PolicyInvalid:
            return None
