"""The table of executors: written to the log by whoever keeps them, read by everybody else.

An entry holds all executors of one process.  A process that ended has none, whatever its last
entry says: each names the process by boot, number and start.

SECURITY
    Reads entries that somebody may have written by hand: what is not a status is left out, and
    nothing is decided by what a table says.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from threegate.audit.log import AuditLog
from threegate.handoff.claims import Lease, current_lease, is_alive
from threegate.handoff.store import Store
from threegate.host.run.warm.states import APPLIED, NONE, RESTART, Status, status_of
from threegate.policy.bundle import Bundle

STATE: Final = "executors.state"
PUSH: Final = "executors.push"  # somebody asks every executor to be read back
# A table that lies further back is not looked for, so it is said again before.
LOOK_BACK_ENTRIES: Final = 1536
AGAIN_ENTRIES: Final = 384


@dataclass(frozen=True, slots=True)
class Row:
    """An executor of a process that lives, and when it was said to be as it is."""

    status: Status
    pid: int
    time: str
    entry: int  # of the log

    def plain(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {**self.status.plain(), "entry": self.entry, "pid": self.pid, "time": self.time}

    def has_answered(self, asked: int, bundle: Bundle) -> bool:
        """Tell whether it has said, since an entry of the log, what it made of a policy."""
        if self.entry < asked or self.status.state == RESTART:
            return False
        return self.status.state != APPLIED or self.enforces(bundle)

    def enforces(self, bundle: Bundle) -> bool:
        """Tell whether it was read back with a policy, or with a later one."""
        found = self.status
        later = found.generation > bundle.generation  # a number alone is no policy
        return found.state == APPLIED and (found.policy == bundle.digest or later)


class Board:
    """The table of this process."""

    def __init__(self, store: Store, executors: Iterable[Status]) -> None:
        self._store, self._lock = store, threading.Lock()
        self._rows = {status.executor: (status, "", 0) for status in executors}
        self._said = 0

    def tell(self, status: Status) -> None:
        """Write the table with one executor changed; it is durable when this returns."""
        with self._lock:
            self._write(status)

    def tell_again(self) -> None:
        """Write the table if it would soon not be found any more."""
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


def executors(log: AuditLog) -> list[Row]:
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
