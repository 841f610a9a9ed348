"""Executors that wait: their kinds as a pool sees them, their states, and their table in the log.

`applied`           it enforces the policy named here: read back, and probed again, before this
`restart-required`  it cannot take the rules over as it is, and gets no work until it is restarted
`unavailable`       it could not be started, refused the rules, or enforces other ones

Each kind says what an executor answers when it is read back, so a pool compares without knowing
imports or snapshots.  An entry of the log holds all executors of one process, which it names by
boot, number and start.  The executors of a process that ended do not count.

SECURITY
    Reads entries that somebody may have written by hand: a malformed status is left out, and
    nothing is decided by a table.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Protocol, TypeVar

from threegate.audit.log import AuditLog
from threegate.base.errors import ThreeGateError
from threegate.handoff.claims import Lease, current_lease, is_alive
from threegate.handoff.store import Store
from threegate.host.gate_profiles import named_failure
from threegate.policy.bundle import Bundle

APPLIED: Final = "applied"
RESTART: Final = "restart-required"
UNAVAILABLE: Final = "unavailable"
STATES: Final = (APPLIED, RESTART, UNAVAILABLE)
NONE: Final = "none"  # policy has no such executor, and no table lists it
OTHER_RULES: Final = "TG-PSH-003"
QUARANTINED: Final = "TG-PSH-005"
STARTING: Final = "starting"
MAX_REASON_CHARS: Final = 200
STATE: Final = "executors.state"
PUSH: Final = "executors.push"  # somebody asks every executor to be read back
# Readers look back this far, so the table is repeated before it is older.
LOOK_BACK_ENTRIES: Final = 1536
AGAIN_ENTRIES: Final = 384


@dataclass(frozen=True, slots=True)
class Status:
    """One executor, as it is acknowledged."""

    executor: str
    kind: str
    state: str
    generation: int = 0  # of the policy it enforces; 0: none
    policy: str = ""  # its digest
    reason: str = ""
    code: str = ""

    def plain(self) -> dict[str, Any]:
        """Return it as the log and `--json` hold it."""
        return {
            "code": self.code,
            "executor": self.executor,
            "generation": self.generation,
            "kind": self.kind,
            "policy": self.policy,
            "reason": self.reason,
            "state": self.state,
        }


def status_of(value: Any) -> Status | None:
    """Return the status in plain data of the log, or None if it is none."""
    try:
        found = Status(**value)
    except TypeError:
        return None
    words = (found.executor, found.kind, found.policy, found.reason, found.code)
    right = all(isinstance(word, str) for word in words) and type(found.generation) is int
    return found if right and found.state in STATES else None


def with_state(status: Status, state: str, reason: str) -> Status:
    """Return the same executor, with the rules it has, in another state."""
    return replace(status, state=state, reason=reason[:MAX_REASON_CHARS], code="")


def failed(status: Status, error: Exception) -> Status:
    """Return the same executor as one that enforces nothing, and why."""
    known = named_failure(error)
    if isinstance(known, ThreeGateError):
        reason, code = known.message[:MAX_REASON_CHARS], known.code
    else:
        reason, code = f"unexpected {type(error).__name__}", ""
    return Status(status.executor, status.kind, UNAVAILABLE, reason=reason, code=code)


@dataclass(frozen=True, slots=True)
class Signed:
    """A policy with the signature that put it in force."""

    bundle: Bundle
    armored: bytes


class Executor(Protocol):
    """One started executor."""

    @property
    def alive(self) -> bool:
        """Tell whether it can be given work."""

    def adopt(self, signed: Signed) -> None:
        """Hand it the next rules; raises `PolicyDenied` if it refuses them."""

    def enforced(self) -> object:
        """Have it try every forbidden act again; return what it says it enforces."""

    def stop(self) -> None:
        """End it, from any thread and in any state."""

    def close(self) -> None:
        """End it."""


E = TypeVar("E", bound=Executor)
E_co = TypeVar("E_co", bound=Executor, covariant=True)


class Kind(Protocol[E_co]):
    """How executors of a kind are started, and what they can take over while they wait."""

    name: str

    def wanted(self, bundle: Bundle) -> bool:
        """Tell whether there is to be any under these rules."""

    def start(self, bundle: Bundle) -> E_co:
        """Start one under these rules, or raise `GateUnavailable`."""

    def needs_restart(self, old: Bundle, new: Bundle) -> str:
        """Return why one that waits cannot take `new` over, or nothing."""

    def expected(self, bundle: Bundle) -> object:
        """Return what one that enforces these rules answers."""


@dataclass(eq=False, slots=True)
class Slot(Generic[E]):
    """The place of one executor; read it only with the pool's lock."""

    status: Status
    executor: E | None = None
    bundle: Bundle | None = None  # what the executor enforces, as it was read back
    working: bool = False  # its thread is at it
    taken: bool = False  # it runs, or is about to
    stuck: bool = False  # nothing more is tried before the next push
    asked: int = 0  # how often it was asked to be read back
    answering: int = 0  # up to which of these its thread is at it
    answered: int = 0
    again_at: float = 0.0
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """An executor of a living process, and the entry that last reported it."""

    status: Status
    pid: int
    time: str
    entry: int  # of the log

    def plain(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {**self.status.plain(), "entry": self.entry, "pid": self.pid, "time": self.time}

    def has_answered(self, asked: int, bundle: Bundle) -> bool:
        """Tell whether it has answered to a policy since an entry of the log."""
        if self.entry < asked or self.status.state == RESTART:
            return False
        return self.status.state != APPLIED or self.enforces(bundle)

    def enforces(self, bundle: Bundle) -> bool:
        """Tell whether it was read back with a policy, or with a later one."""
        found = self.status
        later = found.generation > bundle.generation  # a number alone does not identify a policy
        return found.state == APPLIED and (found.policy == bundle.digest or later)


class Board:
    """The table of this process."""

    def __init__(self, store: Store, statuses: Iterable[Status]) -> None:
        self._store, self._lock = store, threading.Lock()
        self._rows = {status.executor: (status, "", 0) for status in statuses}
        self._said = 0

    def tell(self, status: Status) -> None:
        """Write the table with one executor changed; it is durable when this returns."""
        with self._lock:
            self._write(status)

    def tell_again(self) -> None:
        """Write the table if its last entry is about to be too old to be found."""
        with self._lock:
            if self._store.journal.log.size - self._said > AGAIN_ENTRIES:
                self._write()

    def begin(self) -> None:
        """Write the table for the first time."""
        for status, _, _ in list(self._rows.values()):
            self.tell(status)

    def end(self) -> None:
        """Write that there are no executors any more."""
        with self._lock:
            self._rows = {}
            self._write()

    def _write(self, *changed: Status) -> None:
        holder = current_lease()
        owner = {"boot": holder.boot, "pid": holder.pid, "started": holder.started}
        with self._store.locked() as journal:
            said = {one.executor: (one, journal.log.now(), journal.log.size) for one in changed}
            rows = {**self._rows, **said}
            table = [
                {**status.plain(), "entry": entry, "time": time}
                for _, (status, time, entry) in sorted(rows.items())
                if status.state != NONE
            ]
            journal.log.append([(STATE, {"executors": table, "owner": owner})])
            self._rows, self._said = rows, journal.log.size


def ask_again(store: Store, generation: int) -> int:
    """Ask every executor of the workspace to be read back; return the entry that asks."""
    with store.locked() as journal:
        (entry,) = journal.log.append([(PUSH, {"generation": generation})])
        return entry.seq


def live_executors(log: AuditLog) -> list[Row]:
    """Return the executors of every process that lives, as they were last acknowledged."""
    newest: dict[Lease, Any] = {}
    for entry in log.entries(max(0, log.size - LOOK_BACK_ENTRIES)):
        if entry.kind == STATE and (owner := _owner(entry.data.get("owner"))) is not None:
            newest[owner] = entry.data.get("executors")
    rows = [
        row
        for owner, table in newest.items()
        if isinstance(table, list) and is_alive(owner)
        for row in (_row(value, owner.pid) for value in table)
        if row is not None
    ]
    return sorted(rows, key=lambda row: (row.pid, row.status.executor))


def _row(value: Any, pid: int) -> Row | None:
    if not isinstance(value, dict):
        return None
    rest = dict(value)
    time, entry = rest.pop("time", None), rest.pop("entry", None)
    status = status_of(rest)
    if status is None or not isinstance(time, str) or type(entry) is not int:
        return None
    return Row(status, pid, time, entry)


def _owner(value: Any) -> Lease | None:
    if not isinstance(value, dict) or set(value) != {"boot", "pid", "started"}:
        return None
    boot, pid, started = value["boot"], value["pid"], value["started"]
    right = isinstance(boot, str) and type(pid) is int and type(started) is int and pid > 0
    return Lease(boot, pid, started) if right else None
