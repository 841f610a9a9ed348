"""Claiming approved requests: a lease, room for what the run will leave, one claimer.

A claim is a lease of a living process.  Before it, space for the result and the log is
reserved; if there is none, nothing is claimed and nothing is spent.
"""

import errno
import os
from collections.abc import Iterator

from threegate.artifacts.ids import prefix_of
from threegate.errors import QuotaExceeded, UsageError
from threegate.handoff import states
from threegate.handoff.disk import storage_errors
from threegate.handoff.journal import Act, Move, Put, Remove
from threegate.handoff.lease import Lease, current_lease, is_alive, parse_lease
from threegate.handoff.recorded import refuse_misplaced
from threegate.handoff.store import Store


def claim(store: Store, request_id: str, *, reserve_bytes: int) -> Lease:
    """Claim an approved request for this process; raise `QuotaExceeded` without room."""
    lease = current_lease()
    prefix = prefix_of(request_id)
    approved = states.directory_of(prefix, "approved")
    with store.locked() as journal:
        if store.locate(request_id) != approved:
            raise UsageError(f"{request_id} is not approved (any more)")
        refuse_misplaced(journal.log, approved, f"{request_id}.md")
        _reserve(store, request_id, reserve_bytes)
        acts: list[Act] = [
            Put(states.LEASES, f"{request_id}.json", lease.to_bytes()),
            Move(approved, states.directory_of(prefix, "claimed"), f"{request_id}.md"),
        ]
        try:
            journal.run("claim", acts)
        except BaseException:
            _release(store, request_id)
            raise
    return lease


def finish(store: Store, request_id: str, *, to: str, extra: list[Act] | None = None) -> None:
    """End a claim of this process: `done`, or `held` to ask the human again."""
    prefix = prefix_of(request_id)
    claimed = states.directory_of(prefix, "claimed")
    if ("claimed", to) not in states.REQUEST_MOVES:
        raise UsageError(f"a claim cannot end as {to}")
    with store.locked() as journal:
        if store.locate(request_id) != claimed or lease_of(store, request_id) != current_lease():
            raise UsageError(f"{request_id} is not claimed by this process")
        _release(store, request_id)  # the room is for what `extra` writes
        journal.run(to, [*(extra or []), *_end(prefix, request_id, to)])


def release_dead(store: Store) -> list[str]:
    """Give requests whose claimer died back to the human; return their ids."""
    released = []
    for prefix in ("fr", "tr"):
        claimed = states.directory_of(prefix, "claimed")
        for request_id in sorted(_claimed(store, claimed, prefix)):
            with store.locked() as journal:
                if store.locate(request_id) != claimed or is_alive(lease_of(store, request_id)):
                    continue
                _release(store, request_id)
                journal.run("claim-lost", _end(prefix, request_id, "held"))
            released.append(request_id)
    return released


def lease_of(store: Store, request_id: str) -> Lease:
    """Return the lease on a claimed request."""
    return parse_lease(store.read_file(states.LEASES, f"{request_id}.json"))


def _claimed(store: Store, directory: str, prefix: str) -> Iterator[str]:
    for name in store.names(directory):
        if name.startswith(prefix + "-"):
            yield name.removesuffix(".md")


def _end(prefix: str, request_id: str, to: str) -> list[Act]:
    claimed, after = states.directory_of(prefix, "claimed"), states.directory_of(prefix, to)
    return [
        Move(claimed, after, f"{request_id}.md"),
        Remove(states.LEASES, f"{request_id}.json"),
    ]


def _reserve(store: Store, request_id: str, size: int) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with storage_errors("reserve space"):
        fd = os.open(request_id, flags, 0o600, dir_fd=store.directories.fd(states.RESERVE))
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as exc:
        _release(store, request_id)
        if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            detail = f"no room for the {size} bytes a run may leave"
            raise QuotaExceeded(detail, hint="make room on the disk; nothing was spent") from exc
        raise
    finally:
        os.close(fd)


def _release(store: Store, request_id: str) -> None:
    try:
        os.unlink(request_id, dir_fd=store.directories.fd(states.RESERVE))
    except FileNotFoundError:
        return
