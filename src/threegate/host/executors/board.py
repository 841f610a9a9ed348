"""The table of executors: written to the log by whoever keeps them, read by everybody else.

An entry holds all executors of one process.  A process that ended has none, whatever its last
entry says: each names the process by boot, number and start.

SECURITY
    Reads entries that somebody may have written by hand: what is not a status is left out, and
    nothing is decided by what a table says.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from threegate.audit.entry import Entry
from threegate.audit.log import AuditLog
from threegate.handoff.lease import Lease, current_lease, is_alive
from threegate.handoff.store import Store
from threegate.host.executors.states import APPLIED, UNAVAILABLE, Status, status_of

STATE: Final = "executors.state"
PUSH: Final = "executors.push"  # somebody asks every executor to be read back
# A table that lies further back is not looked for, so it is said again before.
LOOK_BACK_ENTRIES: Final = 4096
AGAIN_ENTRIES: Final = 2048


@dataclass(frozen=True, slots=True)
class Row:
    """An executor of a process that lives, and since when it is as it is said to be."""

    status: Status
    pid: int
    time: str

    def plain(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {**self.status.plain(), "pid": self.pid, "time": self.time}

    def follows(self, generation: int) -> bool:
        """Tell whether it has come to its end with a policy."""
        status = self.status
        return (
            status.generation >= generation
            if status.state == APPLIED
            else (status.state == UNAVAILABLE and bool(status.code))
        )


class Board:
    """The table of this process."""

    def __init__(self, store: Store, executors: Iterable[Status]) -> None:
        self._store, self._lock = store, threading.Lock()
        self._rows = {status.executor: status for status in executors}
        self._said = 0

    def tell(self, status: Status) -> None:
        """Write the table with one executor changed; it is durable when this returns."""
        with self._lock:
            rows = {**self._rows, status.executor: status}
            self._write(rows)
            self._rows = rows

    def tell_again(self) -> None:
        """Write the table if it would soon not be found any more."""
        with self._lock:
            if self._store.journal.log.size - self._said > AGAIN_ENTRIES:
                self._write(self._rows)

    def begin(self) -> None:
        """Write the table for the first time."""
        with self._lock:
            self._write(self._rows)

    def end(self) -> None:
        """Write that there are no executors any more."""
        with self._lock:
            self._write({})

    def _write(self, rows: Mapping[str, Status]) -> None:
        holder = current_lease()
        owner = {"boot": holder.boot, "pid": holder.pid, "started": holder.started}
        table = [rows[name].plain() for name in sorted(rows)]
        with self._store.locked() as journal:
            journal.log.append([(STATE, {"executors": table, "owner": owner})])
            self._said = journal.log.size


def ask_again(store: Store, generation: int) -> None:
    """Ask every executor of the workspace to be read back."""
    with store.locked() as journal:
        journal.log.append([(PUSH, {"generation": generation})])


def executors(log: AuditLog) -> list[Row]:
    """Return the executors of every process that lives, as they were last acknowledged."""
    newest: dict[tuple[str, int, int], Entry] = {}
    for entry in log.entries(max(0, log.size - LOOK_BACK_ENTRIES)):
        if entry.kind == STATE and (owner := _owner(entry.data.get("owner"))) is not None:
            newest[owner] = entry
    rows = [
        Row(status, pid, entry.time)
        for (boot, pid, started), entry in newest.items()
        if is_alive(Lease(boot, pid, started))
        for status in map(status_of, _list(entry.data.get("executors")))
        if status is not None
    ]
    return sorted(rows, key=lambda row: (row.pid, row.status.executor))


def _owner(value: Any) -> tuple[str, int, int] | None:
    if not isinstance(value, dict) or set(value) != {"boot", "pid", "started"}:
        return None
    boot, pid, started = value["boot"], value["pid"], value["started"]
    right = isinstance(boot, str) and type(pid) is int and type(started) is int and pid > 0
    return (boot, pid, started) if right else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
