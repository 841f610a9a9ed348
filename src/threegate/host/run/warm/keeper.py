"""The executors of one `serve`: a thread follows the log and pushes the policy in force to them.

A command that applies a policy writes it to the workspace and ends; the thread here sees the log
grow.  It writes the answer of each executor to the log, for `policy status`.

SECURITY
    Reads the policy in force as every command does.  A policy that the log does not name, or that
    no current signer signed, is not pushed; the last one that counted says what executors do then.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
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
from threegate.host.images.choice import current
from threegate.host.run.heavy.gateway import outward_of
from threegate.host.run.heavy.lane import HeavyLane, Lane
from threegate.host.run.warm.executors import PUSH, Board, E, Kind, Signed, Status
from threegate.host.run.warm.kinds import (
    HeavyExecutor,
    HeavyKind,
    LiteExecutor,
    LiteKind,
    WarmBoxes,
    WarmLane,
)
from threegate.host.run.warm.pool import AGAIN_SECONDS, IDLE_SECONDS, MAX_STEPS, ExecutorPool
from threegate.host.settings import Settings
from threegate.host.workspace import applied
from threegate.host.workspace.workspace import Workspace, mark_of, open_workspace
from threegate.policy.bundle import Bundle

LOOK_SECONDS: Final = 0.1
Tell = Callable[..., None]
# A snapshot is booted for minutes where it is emulated, and does not age: an image that
# changes is another snapshot.
HEAVY_AGAIN_SECONDS: Final = 600.0
HEAVY_IDLE_SECONDS: Final = 86_400.0


class Keeper:
    """Keeps pools of executors under the policy in force until it is closed."""

    def __init__(self, root: Path, tell: Tell) -> None:
        self._root, self._event = root, tell
        self._board: Board | None = None
        self._pools: list[ExecutorPool[Any]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="executors")
        self._last = ""  # digest of what was pushed last
        self._seen = 0  # entries of the log
        self._bad = ""  # last message about a policy that does not count

    def pool(
        self,
        kind: Kind[E],
        size: int,
        *,
        again_seconds: float = AGAIN_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> ExecutorPool[E]:
        """Return a pool of executors that is kept from when this starts."""
        found = ExecutorPool(
            kind, size, self.acknowledge, again_seconds=again_seconds, idle_seconds=idle_seconds
        )
        self._pools.append(found)
        return found

    def start(self) -> None:
        """Begin; executors come as they are started."""
        self._thread.start()

    def close(self) -> None:
        """End every executor that waits; borrowed ones must have been returned."""
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
                # A store's lock excludes other stores, not other threads that share it:
                # the threads of executors write through their own store.
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
        with suppress(FileNotFoundError):  # of an earlier one; then executors are restarted
            armored = store.read_file(places.BUNDLES, f"{one.digest}.sig")
            found.append(Signed(one, armored))
    return found[::-1]


class WarmExecutors:
    """What waits for approved requests, if anything is to wait."""

    def __init__(
        self,
        root: Path,
        settings: Settings,
        size: int,
        tell: Tell,
        *,
        lite: LiteKind | None = None,
    ) -> None:
        self._cache = settings.cache_home
        self._image = partial(current, config_home=settings.config_home)
        self._keeper = Keeper(root, tell)
        self._size = size
        self.lite_pool: ExecutorPool[LiteExecutor] = self._keeper.pool(lite or LiteKind(), size)
        self._outward = outward_of(root, settings)
        heavy = HeavyKind(self._cache, self._image, self._outward)
        times = {"again_seconds": HEAVY_AGAIN_SECONDS, "idle_seconds": HEAVY_IDLE_SECONDS}
        self._heavy_pool: ExecutorPool[HeavyExecutor] = self._keeper.pool(
            heavy, min(1, size), **times
        )

    @property
    def lite(self) -> Callable[[Bundle], WarmBoxes] | None:
        """Where boxes of the lite lane come from; None: they are started for each request."""
        return partial(WarmBoxes, self.lite_pool) if self._size else None

    def heavy(self, bundle: Bundle) -> Callable[[], Lane]:
        """Return what opens the heavy lane when the first request for it comes."""
        if self._size:
            return partial(WarmLane, self._heavy_pool, bundle)
        return partial(HeavyLane, bundle, self._cache, self._image, outward=self._outward)

    def start(self) -> None:
        """Begin."""
        if self._size:
            self._keeper.start()

    def close(self) -> None:
        """End everything that waits."""
        self._keeper.close()
