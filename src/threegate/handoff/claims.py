"""Claiming approved requests: a lease, a use of the approval, room for what runs will leave.

A claim is a lease of a living process.  Requests are claimed in groups, one batch for all:
the leases, the moves and the uses that are spent are in the log before anything happens,
so a crash at any moment spends a use at most once.  Room for results and log is reserved
first; if there is none, nothing is claimed and nothing is spent.
"""

import errno
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from threegate.artifacts.ids import is_id, prefix_of
from threegate.base import canonical
from threegate.base.errors import (
    HandoffTampered,
    PolicyDenied,
    QuotaExceeded,
    StorageFailed,
    ThreeGateError,
    UsageError,
)
from threegate.handoff import states
from threegate.handoff.approvals import approvals_by_request, may_be_used, packed, spend
from threegate.handoff.disk import storage_errors
from threegate.handoff.journal import Act, Put, Remove
from threegate.handoff.store import Aside, Store, set_aside
from threegate.policy.leaves import sized

# Who holds claims: boot, process and its start time, so that a reused pid is not mistaken for it.
#
# One lease covers everything that was claimed together and ends with the last of its requests. A
# request that was claimed again since then belongs to the newer lease, and the newer lease counts.

_PROC = Path("/proc")
_KEYS = {"boot", "format", "pid", "requests", "room", "started"}


@dataclass(frozen=True, slots=True)
class Lease:
    """A process that claimed requests, and the room it reserved for each."""

    boot: str
    pid: int
    started: int  # clock ticks since boot
    room: int = field(default=0, compare=False)  # bytes for each
    requests: tuple[str, ...] = field(default=(), compare=False)

    def to_bytes(self) -> bytes:
        """Return the lease file's content."""
        holder = {"boot": self.boot, "pid": self.pid, "started": self.started}
        claims = {"requests": list(self.requests), "room": self.room}
        return canonical.encode({"format": "lease/1", **claims, **holder})


def current_lease(*, room: int = 0, requests: Sequence[str] = ()) -> Lease:
    """Return the lease of this process."""
    pid = os.getpid()
    started = _start_time(pid)
    assert started is not None, "this process exists"
    return Lease(_boot_id(), pid, started, room, tuple(requests))


def parse_lease(data: bytes) -> Lease:
    """Return the lease in `data`; raise `HandoffTampered` if the host did not write it."""
    try:
        value: Mapping[str, Any] = canonical.decode(data)
        if set(value) != _KEYS or value["format"] != "lease/1":
            raise ValueError("not a lease")
        pid, started, room = (int(value[key]) for key in ("pid", "started", "room"))
        return Lease(str(value["boot"]), pid, started, room, _requests(value["requests"]))
    except (ValueError, TypeError) as exc:
        raise HandoffTampered("a lease is not readable") from exc


def _requests(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("not a list of requests")
    if not all(is_id(one) and prefix_of(one) in ("fr", "tr") for one in value):
        raise ValueError("not requests")
    return tuple(value)


def is_alive(lease: Lease) -> bool:
    """Tell whether the claiming process still runs, on this boot."""
    return lease.boot == _boot_id() and _start_time(lease.pid) == lease.started


def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _start_time(pid: int) -> int | None:
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The second field is the command in brackets and may hold spaces and brackets itself.
    fields = text.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


# Disk space reserved for the output of claimed runs: one file for each process that claims.
#
# Not in the log: the file has no meaning of its own, and leftovers of a crash are removed with
# the dead claims.

_NAME: Final = re.compile(r"\A([0-9]{1,10})-([0-9]{1,20})-([0-9a-f-]{36})\Z")
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def take_room(store: Store, lease: Lease, size: int) -> None:
    """Reserve `size` bytes more for a process; raise `QuotaExceeded` without room."""
    if size == 0:
        return
    fd = _open(store, lease)
    before = os.fstat(fd).st_size
    try:
        with storage_errors("reserve space"):
            os.posix_fallocate(fd, 0, before + size)
    except StorageFailed as exc:
        _resize(store, lease, fd, before)
        cause = exc.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            detail = f"no room for the {sized(size)} that runs may leave"
            hint = "make room on the disk; nothing was spent"
            raise QuotaExceeded(detail, hint=hint) from exc
        raise
    finally:
        os.close(fd)


def give_back(store: Store, lease: Lease, size: int) -> None:
    """Free `size` bytes of what a process reserved."""
    if size == 0:
        return
    fd = _open(store, lease)
    try:
        _resize(store, lease, fd, max(0, os.fstat(fd).st_size - size))
    finally:
        os.close(fd)


def drop_dead(store: Store) -> None:
    """Free what processes reserved that no longer run."""
    directory = store.directories.fd(states.RESERVE)
    for name in os.listdir(directory):
        match = _NAME.match(name)
        if match and not is_alive(Lease(match[3], int(match[1]), int(match[2]))):
            with storage_errors("free reserved space"):
                os.unlink(name, dir_fd=directory)


def _open(store: Store, lease: Lease) -> int:
    with storage_errors("reserve space"):
        return os.open(_name(lease), _FLAGS, 0o600, dir_fd=store.directories.fd(states.RESERVE))


def _resize(store: Store, lease: Lease, fd: int, size: int) -> None:
    with storage_errors("free reserved space"):
        if size:
            os.ftruncate(fd, size)
        else:
            os.unlink(_name(lease), dir_fd=store.directories.fd(states.RESERVE))


def _name(lease: Lease) -> str:
    return f"{lease.pid}-{lease.started}-{lease.boot}"


MAX_CLAIMS: Final = 64  # of at most 5 acts each, within a batch


@dataclass(frozen=True, slots=True)
class RunClaim:
    """A request, and the approval whose use it takes."""

    request_id: str
    approval_id: str
    max_uses: int


@dataclass(frozen=True, slots=True)
class ClaimRefused:
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
    claims: Sequence[RunClaim],
    *,
    reserve_bytes: int,
    check: Callable[[], None] | None = None,
) -> list[ClaimRefused]:
    """Claim approved requests for this process in one batch; return those that were refused.

    `reserve_bytes` is for each of them.  `check` runs under the lock before anything and
    may raise.  Raises `QuotaExceeded` or `StorageFailed`, and then nothing was spent.
    """
    assert len(claims) <= MAX_CLAIMS
    acts: dict[str, list[Act]] = {}
    refused: list[ClaimRefused] = []
    with store.locked() as journal:
        if check is not None:
            check()
        for claim in claims:
            try:
                if claim.request_id in acts:
                    raise UsageError(f"{claim.request_id} is claimed twice in one group")
                acts[claim.request_id] = _claim(store, claim)
            except (UsageError, PolicyDenied, HandoffTampered) as exc:
                refused.append(ClaimRefused(claim.request_id, exc))
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
        give_back(store, mine, room)  # before the acts: they write into this room
        for batch in packed(changes):
            journal.run("finish", _once(batch))


def release_dead(store: Store, aside: Aside = None) -> list[str]:
    """Give up the claims of processes that died; return their requests.

    They wait for a human again, or stay approved if their approval has a use left.  Files that the
    log does not know there are named in `aside`, or raised.
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


def _claim(store: Store, claim: RunClaim) -> list[Act]:
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
    # By name: if bytes are refused twice, only the times in their records differ.
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
