"""Denials, revocations, expiry, and approvals that a new policy voids.

`settle` runs before anything is reviewed or executed, and after a policy was applied.  It reports
each decision of time and policy, and what a dead run left, in one line.

SECURITY
    Reads only the first lines of waiting requests, to be quick with ten thousand.  A request is
    read in full and checked before it is moved.  If this module is wrong, an approval outlives
    its rules; the executor would still refuse it.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.approval import BOUND_SECTIONS
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.registry import Request
from threegate.audit.entry import time_of
from threegate.base.errors import ClockRefused, HandoffTampered, PolicyDenied, UsageError
from threegate.base.limits import MAX_APPROVAL_BYTES
from threegate.base.text import first_forbidden
from threegate.handoff import approvals
from threegate.handoff.claims import release_dead
from threegate.handoff.disk import read_start
from threegate.handoff.states import directory_of
from threegate.handoff.store import Aside, set_aside
from threegate.host.output import counted
from threegate.host.review.requests import WAITING, expiry_of, read_request
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace
from threegate.policy.approvals import Presented, check_approval
from threegate.policy.bundle import Bundle, functions_sha256

MAX_REASON_CHARS: Final = 1000
NO_APPROVAL: Final = "TG-APR-015"
TOGETHER: Final = 256  # requests that are moved under one hold of the lock
_CREATED: Final = re.compile(rb'\A---\nformat: "(?:fr|tr)/1"\ncreated: "([0-9TZ:-]{20})"\n')
_NOT_AFTER: Final = re.compile(rb'\nnot_after: "([0-9TZ:-]{20})"\n')
_START_BYTES: Final = 96
_APPROVED: Final = directory_of("tr", "approved")  # of fetch requests too


@dataclass(frozen=True, slots=True)
class Voided:
    """An approval that does not cover its request any more, and why."""

    request: str
    approval: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Swept:
    """Requests that expired, and approvals that were voided."""

    expired: tuple[str, ...]
    voided: tuple[Voided, ...]


def deny(ws: Workspace, request_id: str, reason: str) -> None:
    """Deny a request; the reason is kept beside it as data, and shown with it.

    Raises `HandoffTampered` for a request that was tampered with: it stays where it is.
    """
    words = check_reason(reason)
    try:
        read_request(ws, request_id)
        approvals.deny(ws.store, request_id, reason=words, now=ws.now())
    except UsageError as exc:
        hint = f"`threegate review show {short(request_id)}` shows its state"
        raise UsageError(f"{short(request_id)} does not wait (any more)", hint=hint) from exc


def check_reason(reason: str) -> str:
    """Return the words of a denial as they are kept, or raise `UsageError`."""
    words = reason.strip()
    try:
        data = words.encode("utf-8")
    except UnicodeEncodeError as exc:  # bytes on the command line that are not text
        raise UsageError("the reason is not valid text") from exc
    if not words or len(words) > MAX_REASON_CHARS:
        hint = f"1 to {MAX_REASON_CHARS} characters; the author of the request will read them"
        raise UsageError(f"a reason of {len(words)} characters", hint=hint)
    if first_forbidden(data) is not None:
        raise UsageError("the reason holds a control or invisible character")
    return words


def revoke(ws: Workspace, artifact_id: str) -> list[str]:
    """End an approval, or all unspent ones of a request; return their ids."""
    found = [artifact_id]
    if prefix_of(artifact_id) != "ap":
        found = approvals.approvals_by_request(ws.store).get(artifact_id, [])
    if not found:
        hint = "a run that has begun is not stopped by this"
        raise UsageError(f"{short(artifact_id)} has no unspent approval", hint=hint)
    for approval_id in found:
        try:
            approvals.revoke(ws.store, approval_id, detail={"by": "operator"})
        except UsageError as exc:
            detail = f"{short(approval_id)} is spent or revoked already, or not here"
            hint = f"`threegate review show {short(approval_id)}` says which"
            raise UsageError(detail, hint=hint) from exc
    return found


def sweep(ws: Workspace, aside: Aside = None) -> Swept:
    """Expire requests that waited too long, and void approvals that are no longer valid.

    Requests that were tampered with stay as they are: named in `aside`, or raised.
    """
    expired: list[str] = []
    late = list(_late(ws, aside))
    for start in range(0, len(late), TOGETHER):
        some = late[start : start + TOGETHER]
        try:
            expired += approvals.expire(ws.store, some)
        except HandoffTampered:
            for request_id in some:  # one of them must not keep the others waiting
                with set_aside(aside, request_id):
                    expired += approvals.expire(ws.store, [request_id])
    return Swept(tuple(expired), tuple(_void(ws, aside)))


def _late(ws: Workspace, aside: Aside) -> Iterator[str]:
    """Yield the requests whose time to wait is over."""
    wait = ws.bundle.integer("handoff", "held_expiry_seconds")
    newest = time_of(max(0, ws.clock() - wait)).encode("ascii")
    for state in WAITING:
        directory = directory_of("tr", state)
        fd = ws.store.directories.fd(directory)
        for name in ws.store.names(directory):
            found = None
            with suppress(
                OSError
            ):  # decided meanwhile, or not a plain file: the full read refuses it
                found = _CREATED.match(read_start(fd, name, _START_BYTES))
            if found is not None and found[1] > newest:
                continue
            request_id = name.removesuffix(".md")
            late = False
            with set_aside(aside, request_id):
                late = _is_late(ws, request_id)
            if late:
                yield request_id


def _is_late(ws: Workspace, request_id: str) -> bool:
    try:
        request = ws.store.read(request_id)
    except UsageError:  # gone meanwhile
        return False
    return isinstance(request, Request) and ws.clock() >= expiry_of(request, ws.bundle)


def _void(ws: Workspace, aside: Aside) -> Iterator[Voided]:
    """Return approved requests to the human if their approvals are no longer valid."""
    # Requests first: one that is approved later has no entry here and is skipped.
    approved = [name.removesuffix(".md") for name in ws.store.names(_APPROVED)]
    hints = approvals.approvals_by_request(ws.store)
    held = _lines_that_hold(ws.bundle)
    refused: dict[tuple[str, str], dict[str, str]] = {}
    for request_id in sorted(approved):
        found = hints.get(request_id, [])
        if not found and _is_held_again(ws, request_id, aside):
            yield Voided(request_id, "", NO_APPROVAL, "it has no approval")
        for approval_id in found:
            refusal = None
            with set_aside(aside, request_id), suppress(OSError):  # spent meanwhile
                if not _looks_valid(ws, approval_id, held):
                    refusal = _refusal(ws, request_id, approval_id)
            if refusal is not None:
                why = (refusal.code, refusal.message)
                refused.setdefault(why, {})[approval_id] = request_id
    # Race: if the policy was replaced meanwhile, refusals by the old rules must not void approvals.
    if refused and not applied.is_current(ws.store, ws.bundle):
        return
    for (code, message), requests in refused.items():
        for approval_id in _ended(ws, requests, f"{code}: {message}", aside):
            yield Voided(requests[approval_id], approval_id, code, message)


def _ended(ws: Workspace, requests: dict[str, str], reason: str, aside: Aside) -> Iterator[str]:
    pairs = list(requests.items())
    for start in range(0, len(pairs), TOGETHER):
        some = pairs[start : start + TOGETHER]
        try:
            yield from approvals.void_all(ws.store, dict(some), reason)
        except HandoffTampered:
            for approval_id, request_id in some:
                ended: list[str] = []
                with set_aside(aside, request_id):
                    ended = approvals.void_all(ws.store, {approval_id: request_id}, reason)
                yield from ended


def _lines_that_hold(bundle: Bundle) -> list[tuple[bytes, ...]]:
    """Return the lines that approvals of each lane have if they bind the policy in force.

    The lines start in column 0, where the text of an approval never is.
    """
    found = []
    for lane, names in BOUND_SECTIONS.items():
        sections = [{"name": name, "sha256": bundle.section_digest(name)} for name in names]
        functions = functions_sha256(bundle) if lane == "monty" else None
        values = {"backend": lane, "functions_sha256": functions, "policy": sections}
        lines = [f"\n{key}: {json.dumps(value)}\n" for key, value in values.items()]
        found.append(tuple(line.encode("ascii") for line in lines))
    return found


def _looks_valid(ws: Workspace, approval_id: str, held: Sequence[tuple[bytes, ...]]) -> bool:
    """Check rules and time quickly, without parsing; the run makes the full check."""
    fd = ws.store.directories.fd(approvals.ACCEPTED)
    data = read_start(fd, f"{approval_id}.md", MAX_APPROVAL_BYTES)
    until = _NOT_AFTER.search(data)
    in_time = until is not None and until[1] >= ws.now().encode("ascii")
    return in_time and any(all(line in data for line in lines) for lines in held)


def _refusal(ws: Workspace, request_id: str, approval_id: str) -> PolicyDenied | None:
    """Return why an executor would refuse an approval now, None if it would not."""
    try:
        presented = Presented(
            ws.store.read_bytes(request_id),
            ws.store.read_bytes(approval_id),
            ws.store.read_file(approvals.ACCEPTED, f"{approval_id}.sig"),
        )
    except UsageError:  # decided meanwhile
        return None
    functions, now = functions_sha256(ws.bundle), ws.clock()
    try:
        check_approval(presented, ws.bundle, at=now, functions_sha256=functions)
    except PolicyDenied as exc:
        return exc
    return None


def _is_held_again(ws: Workspace, request_id: str, aside: Aside) -> bool:
    with suppress(UsageError), set_aside(aside, request_id):  # or decided meanwhile
        ws.store.move(request_id, source="approved", to="held", op="void")
        return True
    return False


# -- notices ---------------------------------------------------------------------------------

MOST_LINES: Final = 10


def settle(ws: Workspace, note: Callable[[str], None], aside: Aside = None) -> Swept:
    """Apply expiry and policy first; report these decisions and the claims of dead runs.

    Requests that were tampered with are put into `aside`, for the caller to report; without it
    the first one is raised.
    """
    if ws.read_only:
        return Swept((), ())
    for line in _released(ws, aside):
        note(line)
    try:
        ws.store.journal.log.refuse_clock_ahead()
    except ClockRefused as exc:  # with a wrong clock nothing expires
        note(exc.message)
        return Swept((), ())
    swept = sweep(ws, aside)
    for line in sweep_lines(swept):
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


def sweep_lines(swept: Swept) -> Iterator[str]:
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
