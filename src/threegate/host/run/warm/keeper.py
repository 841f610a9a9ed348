"""Executors under `serve`: a thread that follows the log and pushes what is in force.

Whoever applies a policy writes it to the workspace and is done: the log grows, and here is who
looks.  What each executor made of it is in the log again, for `policy status` and everybody.

SECURITY
    Reads the policy in force as every command does: what the log does not say, or nobody who
    may has signed, is not pushed, and what executors do then, the last one that counted says.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

from threegate.base.errors import (
    AuditTampered,
    HandoffTampered,
    PolicyDenied,
    StorageFailed,
    ThreeGateError,
    WorkspaceBusy,
)
from threegate.handoff import states as places
from threegate.handoff.store import Store
from threegate.host.run.warm.board import PUSH, Board
from threegate.host.run.warm.kinds import E, Kind, Signed
from threegate.host.run.warm.pool import AGAIN_SECONDS, IDLE_SECONDS, MAX_STEPS, Pool
from threegate.host.run.warm.states import Status
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace, mark_of, open_workspace
from threegate.policy.bundle import Bundle

LOOK_SECONDS: Final = 0.1

Tell = Callable[..., None]


class Keeper:
    """Keeps pools of executors under the policy in force until it is closed."""

    def __init__(self, root: Path, tell: Tell) -> None:
        self._root, self._event = root, tell
        self._board: Board | None = None
        self._pools: list[Pool[Any]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="executors")
        self._last = ""  # digest of what was pushed last
        self._seen = 0  # entries of the log
        self._bad = ""  # what was said last about a policy that does not count

    def pool(
        self,
        kind: Kind[E],
        size: int,
        *,
        again_seconds: float = AGAIN_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> Pool[E]:
        """Return a pool of executors that is kept from when this starts."""
        found = Pool(
            kind, size, self.acknowledge, again_seconds=again_seconds, idle_seconds=idle_seconds
        )
        self._pools.append(found)
        return found

    def start(self) -> None:
        """Begin; executors come as they are started."""
        self._thread.start()

    def close(self) -> None:
        """End every executor that waits; whoever took one must have given it back."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def acknowledge(self, status: Status) -> None:
        """Write to the log how an executor is, and tell it."""
        assert self._board is not None
        self._board.tell(status)
        self._event("executor", **status.plain())

    def _follow(self) -> None:
        try:
            with ExitStack() as stack:
                ws = open_workspace(self._root)
                stack.callback(ws.close)
                # Its lock keeps out who opened it otherwise, and not other threads of ours:
                # those of the executors write through one of their own.
                writing = Store.open(self._root, clock=ws.clock)
                stack.callback(writing.close)
                self._keep(ws, writing)
        except ThreeGateError as exc:  # without workspace or log nothing is kept, or lent
            self._event("not-run", kind="executors", code=exc.code, reason=exc.message)
        finally:
            for pool in self._pools:
                pool.close()

    def _keep(self, ws: Workspace, writing: Store) -> None:
        wanted = [pool for pool in self._pools if pool.kind.wanted(ws.bundle)]
        self._board = Board(writing, [slot.status for pool in wanted for slot in pool.slots])
        self._seen = ws.store.journal.log.size
        self._board.begin()
        try:
            self._look(ws)
            for pool in self._pools:
                pool.open()
            before = ("", -1)
            while not self._stopped.wait(LOOK_SECONDS):
                found = mark_of(self._root)
                if found != before and self._look(ws):
                    before = found
        finally:
            for pool in self._pools:
                pool.close()
            self._board.end()

    def _look(self, ws: Workspace) -> bool:
        """Push what is in force now; return whether that could be found out."""
        assert self._board is not None
        try:
            steps, asked = self._news(ws.store)
            for pool in self._pools:
                if steps:
                    pool.push(*steps)
                if asked:
                    pool.again()
            self._bad = ""
            self._board.tell_again()
        except (PolicyDenied, HandoffTampered, AuditTampered) as exc:
            for pool in self._pools:
                pool.refuse(exc)
            if self._bad != exc.message:
                self._bad = exc.message
                self._event("bad-policy", code=exc.code, reason=exc.message)
        except (WorkspaceBusy, StorageFailed):
            return False
        return True

    def _news(self, store: Store) -> tuple[list[Signed], bool]:
        with store.locked() as journal:
            bundle = applied.read_current(store)
            steps = _since(store, bundle, self._last)
            new = journal.log.entries(self._seen)
            asked = any(entry.kind == PUSH for entry in new if entry.seq >= self._seen)
            self._seen = journal.log.size
        self._last = bundle.digest
        return steps, asked


def _since(store: Store, bundle: Bundle, last: str) -> list[Signed]:
    """Return the policies since the last one that was pushed, the newest at the end."""
    found: list[Signed] = []
    for one in islice(applied.since(store, bundle, last), MAX_STEPS if last else 1):
        with suppress(FileNotFoundError):  # of an earlier one; then executors are started anew
            armored = store.read_file(places.BUNDLES, f"{one.digest}.sig")
            found.append(Signed(one, armored))
    return found[::-1]
