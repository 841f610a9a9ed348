"""Transitions of an approval and of the request that it approves, in one batch each.

An approval is `ap-X.md` and `ap-X.sig`; one that may be used more than once has
`ap-X.uses.json` beside it, which counts.  The log decides which count is right.

SECURITY
    An approval holds for the number of uses it names.  If this module is wrong, a use is spent
    twice, or an approval that was revoked still counts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts import registry
from threegate.artifacts.approval import Approval
from threegate.artifacts.ids import make_id, prefix_of
from threegate.base import canonical
from threegate.base.errors import ArtifactRejected, HandoffTampered, PolicyDenied, UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.disk import read_start
from threegate.handoff.journal import MAX_BATCH, Act, Move, Put, Remove
from threegate.handoff.store import MISPLACED, OTHER_CONTENT, Store

# The same as in `policy.approvals`, which imports signature code that is not needed here.
OTHER_REQUEST: Final = "TG-APR-002"
OUTSIDE_WINDOW: Final = "TG-APR-007"
USES_SPENT: Final = "TG-APR-010"
REVOKED: Final = "TG-APR-011"

ACCEPTED: Final = states.directory_of("ap", "accepted")
SPENT: Final = states.directory_of("ap", "spent")
WAITING: Final = ("draft", "held", "approved")  # the states a human or the clock may end
_USES: Final = ".uses.json"
_WHY: Final = ".why.json"
_START: Final = re.compile(rb'\A---\nformat: "ap/1"\nrequest: "((?:fr|tr)-[0-9a-f]{64})"\n')
_START_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class Denial:
    """Why and when a human said no; the words are for people and for CORE, as data."""

    reason: str
    time: str


def approve(
    store: Store,
    *,
    request_id: str,
    approval: bytes,
    signature: bytes,
    detail: Mapping[str, Any] | None = None,
) -> str:
    """Keep an approval that the caller has checked, and approve its request; return its id.

    Raises `UsageError` if the request does not wait (any more), `PolicyDenied` for an
    approval that was kept before: what was spent or revoked does not come back.
    """
    approval_id, parsed = make_id("ap", approval), _parse(approval)
    if parsed.request != request_id:
        raise PolicyDenied("the approval is for another request", code=OTHER_REQUEST)
    with store.locked() as journal:
        _refuse_known(store, approval_id, parsed)
        if store.standing(request_id) == "draft":
            journal.run("hold", list(store.moves(request_id, source="draft", to="held")))
        store.refuse_unless(request_id, "held")
        puts = [
            Put(ACCEPTED, f"{approval_id}.md", approval),
            Put(ACCEPTED, f"{approval_id}.sig", signature),
        ]
        if parsed.max_uses > 1:
            puts.append(Put(ACCEPTED, approval_id + _USES, _uses(0)))
        moves = store.moves(request_id, source="held", to="approved")
        journal.run("approve", [*puts, *moves], detail)
    return approval_id


def approvals_by_request(store: Store) -> dict[str, list[str]]:
    """Return which accepted approvals say they are for which request: a hint, unchecked."""
    found: dict[str, list[str]] = {}
    directory = store.directories.fd(ACCEPTED)
    for name in store.names(ACCEPTED):
        if not _is_main(name):
            continue
        try:
            match = _START.match(read_start(directory, name, _START_BYTES))
        except OSError:  # moved meanwhile, or not a plain file: the code that uses it refuses it
            continue
        if match:
            found.setdefault(match[1].decode(), []).append(name.removesuffix(".md"))
    return found


def revoke(store: Store, approval_id: str, *, detail: Mapping[str, Any] | None = None) -> None:
    """End an approval that has uses left; its request waits for a human again."""
    with store.locked() as journal:
        store.refuse_unless(approval_id, "accepted")
        request_id = _read(store, approval_id).request
        journal.run("revoke", [*_end(store, approval_id), *_hold(store, request_id)], detail)


def void(store: Store, request_id: str, approval_id: str, reason: str) -> None:
    """End an approval that no longer covers its request; raise `UsageError` if neither waits."""
    if not void_all(store, {approval_id: request_id}, reason):
        raise UsageError(f"{request_id} is not approved (any more)")


def void_all(store: Store, requests: Mapping[str, str], reason: str) -> list[str]:
    """End approvals, given with the request of each, for one reason; return which ended.

    One hold of the lock for all: a new policy may void thousands.
    """
    ended: list[str] = []
    changes: dict[str, list[Act]] = {}
    with store.locked() as journal:
        for approval_id, request_id in requests.items():
            acts: list[Act] = []
            if store.standing(approval_id) == "accepted":
                acts += _end(store, approval_id)
            if request_id not in changes:
                acts += _hold(store, request_id)
            if acts:
                ended.append(approval_id)
                changes.setdefault(request_id, []).extend(acts)
        for batch in packed(changes.values()):
            journal.run("void", batch, {"reason": reason})
    return ended


def deny(store: Store, request_id: str, *, reason: str, now: str) -> None:
    """Deny a request that waits and keep why; approvals of it end."""
    why = canonical.encode({"format": "denial/1", "reason": reason, "time": now})
    put = Put(states.directory_of(prefix_of(request_id), "denied"), request_id + _WHY, why)
    with store.locked() as journal:
        acts = _leave(store, request_id, "denied", approvals_by_request(store))
        if not acts:
            raise UsageError(f"{request_id} is not waiting (any more)")
        journal.run("deny", [*acts, put])


def expire(store: Store, request_ids: Iterable[str]) -> list[str]:
    """Let requests expire that still wait; approvals of them end.  Return which did."""
    expired: list[str] = []
    with store.locked() as journal:
        hint = approvals_by_request(store)
        changes: list[Sequence[Act]] = []
        for request_id in dict.fromkeys(request_ids):
            acts = _leave(store, request_id, "expired", hint)
            if acts:
                expired.append(request_id)
                changes.append(acts)
        for batch in packed(changes):
            journal.run("expire", batch)
    return expired


def revoke_all(store: Store) -> None:
    """End every approval; what was approved waits for a human again.

    For a workspace that came back from a backup: uses may have been spent since.
    """
    with store.locked() as journal:
        ids = sorted(name.removesuffix(".md") for name in store.names(ACCEPTED) if _is_main(name))
        changes: list[Sequence[Act]] = [list(_end(store, approval_id)) for approval_id in ids]
        approved = states.directory_of("tr", "approved")  # of both kinds of request
        changes += [_hold(store, name.removesuffix(".md")) for name in store.names(approved)]
        for batch in packed(changes):
            journal.run("revoke-all", batch)


def denial_of(store: Store, request_id: str) -> Denial | None:
    """Return why a request was denied, None if it was not; raise `HandoffTampered`."""
    directory = states.directory_of(prefix_of(request_id), "denied")
    try:
        value = canonical.decode(store.read_file(directory, request_id + _WHY))
        if set(value) != {"format", "reason", "time"} or value["format"] != "denial/1":
            raise ValueError("not a denial")
        return Denial(str(value["reason"]), str(value["time"]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as exc:
        detail = f"why {request_id} was denied is not readable"
        raise HandoffTampered(detail, code=OTHER_CONTENT) from exc


def uses_left(store: Store, approval: Approval, approval_id: str) -> int:
    """Return the remaining uses of an approval; takes the lock."""
    with store.locked():
        return uses_left_now(store, approval, approval_id)


def uses_left_now(store: Store, approval: Approval, approval_id: str) -> int:
    """Return the remaining uses of an approval; the lock is held."""
    if store.standing(approval_id) != "accepted":
        return 0
    if approval.max_uses == 1:
        return 1
    return max(0, approval.max_uses - _used(store, approval_id))


def was_used(store: Store, approval_id: str) -> bool:
    """Tell whether a use of an approval was ever spent; takes the lock."""
    with store.locked():
        state = store.standing(approval_id)
        if state is None or state == "spent":
            return state == "spent"
        directory = states.directory_of("ap", state)
        counts = store.holds(directory, approval_id + _USES)
        return counts and _used(store, approval_id, directory) > 0


def may_be_used(store: Store, approval_ids: Iterable[str]) -> bool:
    """Tell whether one of these approvals has a use left; the lock is held."""
    for approval_id in approval_ids:
        if store.standing(approval_id) == "accepted":
            approval = _read(store, approval_id)
            if uses_left_now(store, approval, approval_id):
                return True
    return False


def spend(store: Store, approval_id: str, *, request_id: str, max_uses: int) -> list[Act]:
    """Return what spends one use of an approval for a request; the lock is held.

    Raises `PolicyDenied` if there is none, `HandoffTampered` if its files are not what the
    log recorded.
    """
    _refuse_ended(store, approval_id)
    approval = _read(store, approval_id)
    store.read_recorded(ACCEPTED, f"{approval_id}.sig")
    if approval.request != request_id:
        raise PolicyDenied("the approval is for another request", code=OTHER_REQUEST)
    if approval.max_uses != max_uses:
        raise UsageError(f"{approval_id} may be used {approval.max_uses} times, not {max_uses}")
    if max_uses == 1:
        return list(store.moves(approval_id, source="accepted", to="spent"))
    used = _used(store, approval_id) + 1
    if used < max_uses:
        return [Put(ACCEPTED, approval_id + _USES, _uses(used))]
    if used > max_uses:
        raise _spent(approval_id)
    return [
        Move(ACCEPTED, SPENT, f"{approval_id}.md"),
        Move(ACCEPTED, SPENT, f"{approval_id}.sig"),
        Remove(ACCEPTED, approval_id + _USES),
        Put(SPENT, approval_id + _USES, _uses(used)),
    ]


def packed(changes: Iterable[Sequence[Act]]) -> Iterator[list[Act]]:
    """Yield batches up to the limit; acts that belong together stay together."""
    batch: list[Act] = []
    for acts in changes:
        assert len(acts) <= MAX_BATCH
        if batch and len(batch) + len(acts) > MAX_BATCH:
            yield batch
            batch = []
        batch += acts
    if batch:
        yield batch


def _refuse_known(store: Store, approval_id: str, approval: Approval) -> None:
    """Raise `PolicyDenied` for an approval that was here, even if its files are gone."""
    log, name = store.journal.log, f"{approval_id}.md"
    # An approval is kept only after its validity began, so no earlier entry can name it.
    if approval.not_before > log.now():
        raise PolicyDenied("the approval is not valid yet", code=OUTSIDE_WINDOW)
    if store.journal.ledger.mentions(name, since=approval.not_before):
        hint = "review the request again: every approval is given once"
        raise PolicyDenied("the approval was given before", code=USES_SPENT, hint=hint)


def _refuse_ended(store: Store, approval_id: str) -> None:
    state = store.standing(approval_id)
    if state == "spent":
        raise _spent(approval_id)
    if state == "revoked":
        raise PolicyDenied(f"{approval_id} was revoked", code=REVOKED)
    if state is None:
        raise UsageError(f"no approval {approval_id} in this workspace")


def _spent(approval_id: str) -> PolicyDenied:
    hint = "review the request again with `threegate review`"
    return PolicyDenied(f"the uses of {approval_id} are spent", code=USES_SPENT, hint=hint)


def _is_main(name: str) -> bool:
    return name.endswith(".md")


def _end(store: Store, approval_id: str) -> Iterator[Act]:
    return store.moves(approval_id, source="accepted", to="revoked")


def _hold(store: Store, request_id: str) -> list[Act]:
    """Return what makes an approved request wait again; nothing if it is not approved."""
    try:
        approved = store.standing(request_id) == "approved"
    except HandoffTampered as exc:
        if exc.code != MISPLACED:
            raise
        approved = False  # a request moved by hand must not keep its approval alive
    return list(store.moves(request_id, source="approved", to="held")) if approved else []


def _leave(store: Store, request_id: str, to: str, hint: Mapping[str, Sequence[str]]) -> list[Act]:
    state = store.standing(request_id)
    if state not in WAITING:
        return []
    acts: list[Act] = list(store.moves(request_id, source=state, to=to))
    for approval_id in hint.get(request_id, ()):
        if store.standing(approval_id) == "accepted":
            acts += _end(store, approval_id)
    return acts


def _parse(data: bytes) -> Approval:
    try:
        found = registry.parse(Untrusted(data))
    except ArtifactRejected as exc:
        raise UsageError(f"the approval does not parse: {exc.message}") from exc
    if not isinstance(found, Approval):
        raise UsageError("that is not an approval")
    return found


def _read(store: Store, approval_id: str) -> Approval:
    """Return an accepted approval."""
    try:
        return _parse(store.read_file(ACCEPTED, f"{approval_id}.md"))
    except UsageError as exc:
        raise HandoffTampered(f"{approval_id} is not what was kept: {exc.message}") from exc


def _uses(used: int) -> bytes:
    return canonical.encode({"format": "uses/1", "used": used})


def _used(store: Store, approval_id: str, directory: str = ACCEPTED) -> int:
    """Return how often an approval that is not spent was used; the lock is held."""
    data = store.read_recorded(directory, approval_id + _USES)
    try:
        value = canonical.decode(data)
        if set(value) == {"format", "used"} and value["format"] == "uses/1":
            used = value["used"]
            if type(used) is int and used >= 0:
                return used
        raise ValueError("not a count of uses")
    except (ValueError, TypeError) as exc:
        raise HandoffTampered(f"the uses of {approval_id} are not readable") from exc
