"""Claiming approved requests: a lease, a use of the approval, room for what runs will leave.

A claim is a lease of a living process.  Requests are claimed in groups, one batch for all:
the leases, the moves and the uses that are spent stand in the log before anything happens,
so a crash at any moment spends a use at most once.  Room for results and log is reserved
first; if there is none, nothing is claimed and nothing is spent.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import HandoffTampered, PolicyDenied, ThreeGateError, UsageError
from threegate.handoff import states
from threegate.handoff.approvals import approvals_by_request, may_be_used, packed, spend
from threegate.handoff.journal import Act, Put, Remove
from threegate.handoff.lease import Lease, current_lease, is_alive, parse_lease
from threegate.handoff.misplaced import Aside, set_aside
from threegate.handoff.reserve import drop_dead, give_back, take_room
from threegate.handoff.store import Store

MAX_CLAIMS: Final = 64  # of at most 5 acts each, within a batch


@dataclass(frozen=True, slots=True)
class Claim:
    """A request, and the approval whose use it takes."""

    request_id: str
    approval_id: str
    max_uses: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that was not claimed: moved on, no use left, or tampered with."""

    request_id: str
    error: ThreeGateError


@dataclass(frozen=True, slots=True)
class End:
    """How a claim ends, and what it leaves.

    `approved` is for an approval that may be used again: with `approval_id`, the request is
    done instead if no use is left by then.
    """

    request_id: str
    to: str
    acts: Sequence[Act] = ()
    approval_id: str | None = None


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease, and the name of its file."""

    name: str
    lease: Lease


def claim_group(
    store: Store,
    claims: Sequence[Claim],
    *,
    reserve_bytes: int,
    check: Callable[[], None] | None = None,
) -> list[Refused]:
    """Claim approved requests for this process in one batch; return those that were refused.

    `reserve_bytes` is for each of them.  `check` runs under the lock before anything and
    may raise.  Raises `QuotaExceeded` or `StorageFailed`, and then nothing was spent.
    """
    assert len(claims) <= MAX_CLAIMS
    acts: dict[str, list[Act]] = {}
    refused: list[Refused] = []
    with store.locked() as journal:
        if check is not None:
            check()
        for claim in claims:
            try:
                if claim.request_id in acts:
                    raise UsageError(f"{claim.request_id} is claimed twice in one group")
                acts[claim.request_id] = _claim(store, claim)
            except (UsageError, PolicyDenied, HandoffTampered) as exc:
                refused.append(Refused(claim.request_id, exc))
        if acts:
            lease = current_lease(room=reserve_bytes, requests=list(acts))
            take_room(store, lease, reserve_bytes * len(acts))
            try:
                # The length of the log: no lease had it before.
                put = Put(states.LEASES, f"{journal.log.size}.json", lease.to_bytes())
                journal.run("claim", [put, *(act for found in acts.values() for act in found)])
            except BaseException:
                give_back(store, lease, reserve_bytes * len(acts))
                raise
    return refused


def finish_group(store: Store, ends: Sequence[End]) -> None:
    """End claims of this process, as many to a batch as fit; raise `UsageError` for others."""
    mine = current_lease()
    if len({end.request_id for end in ends}) != len(ends):
        raise UsageError("a claim ends once")
    with store.locked() as journal:
        held = leases(store, store.read_recorded)
        room = sum(_checked_room(store, end, held.get(end.request_id), mine) for end in ends)
        changes: list[Sequence[Act]] = [_finish(store, end) for end in ends]
        changes += _ended_leases(store, held, {end.request_id for end in ends})
        give_back(store, mine, room)  # it is for what the acts write
        for batch in packed(changes):
            journal.run("finish", _once(batch))


def release_dead(store: Store, aside: Aside = None) -> list[str]:
    """Give up the claims of processes that died; return their requests.

    They wait for a human again, or stay approved if their approval has a use left.  What
    only lies among them is named in `aside`, or raised.
    """
    with store.locked() as journal:
        drop_dead(store)
        held = leases(store, store.read_recorded)
        dead: list[str] = []
        for found in _claimed(store):
            with set_aside(aside, found):
                dead += [found] if _is_dead(store, found, held.get(found)) else []
        if not held:
            return []
        hint = approvals_by_request(store) if dead else {}
        changes: list[Sequence[Act]] = [_release(store, found, hint) for found in dead]
        for batch in packed([*changes, *_ended_leases(store, held, set(dead))]):
            journal.run("claim-lost", batch)
    return dead


def leases(store: Store, read: Callable[[str, str], bytes] | None = None) -> dict[str, HeldLease]:
    """Return the lease each request was last claimed under, those that ended among them.

    A hint, unless `read` compares with the log what it returns.
    """
    read = read or store.read_file
    found: dict[str, HeldLease] = {}
    for name in sorted(store.names(states.LEASES), key=lambda name: int(name.partition(".")[0])):
        with suppress(FileNotFoundError):  # ended meanwhile, where the lock is not held
            lease = parse_lease(read(states.LEASES, name))
            found |= dict.fromkeys(lease.requests, HeldLease(name, lease))
    return found


def _claim(store: Store, claim: Claim) -> list[Act]:
    request_id = claim.request_id
    store.refuse_unless(request_id, "approved")
    uses = spend(store, claim.approval_id, request_id=request_id, max_uses=claim.max_uses)
    return [*store.moves(request_id, source="approved", to="claimed"), *uses]


def _checked_room(store: Store, end: End, held: HeldLease | None, mine: Lease) -> int:
    if ("claimed", end.to) not in states.REQUEST_MOVES:
        raise UsageError(f"a claim cannot end as {end.to}")
    if held is None or held.lease != mine or store.standing(end.request_id) != "claimed":
        raise UsageError(f"{end.request_id} is not claimed by this process")
    return held.lease.room


def _finish(store: Store, end: End) -> list[Act]:
    to = end.to
    if to == "approved" and end.approval_id is not None:
        to = "approved" if may_be_used(store, [end.approval_id]) else "done"
    return [*end.acts, *store.moves(end.request_id, source="claimed", to=to)]


def _once(batch: Sequence[Act]) -> list[Act]:
    """Return the acts with one for each new file: two runs may leave the same raw bytes."""
    # By name: of bytes refused twice, the records beside them differ in the moment.
    puts = {(act.to, act.name): act for act in batch if isinstance(act, Put)}
    return [*puts.values(), *(act for act in batch if not isinstance(act, Put))]


def _claimed(store: Store) -> list[str]:
    directory = states.directory_of("tr", "claimed")  # of both kinds of request
    return sorted(name.removesuffix(".md") for name in store.names(directory))


def _is_dead(store: Store, request_id: str, held: HeldLease | None) -> bool:
    if store.standing(request_id) != "claimed":
        return False
    if held is None:
        raise HandoffTampered(f"the lease on {request_id} is missing")
    return not is_alive(held.lease)


def _release(store: Store, request_id: str, hint: Mapping[str, Sequence[str]]) -> list[Act]:
    again = may_be_used(store, hint.get(request_id, ()))
    return list(store.moves(request_id, source="claimed", to="approved" if again else "held"))


def _ended_leases(
    store: Store, held: Mapping[str, HeldLease], ending: Collection[str]
) -> list[list[Act]]:
    """Return what removes the leases under which nothing is claimed any more.

    It comes last: until then each claimed request has one.
    """
    claimed = states.directory_of("tr", "claimed")
    left = {
        found.name
        for request_id, found in held.items()
        if request_id not in ending and store.holds(claimed, f"{request_id}.md")
    }
    names = sorted(set(store.names(states.LEASES)) - left)
    return [[Remove(states.LEASES, name)] for name in names]
