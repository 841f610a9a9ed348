"""Executors under `serve`: a thread that follows the log and pushes what is in force.

Whoever applies a policy writes it to the workspace and is done: the log grows, and here is who
looks.  What each executor made of it is in the log again, for `policy status` and everybody.

SECURITY
    Reads the policy in force as every command does: what the log does not say, or nobody who
    may has signed, is not pushed, and what executors do then, the last one that counted says.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from threegate.errors import ThreeGateError
from threegate.handoff import states as places
from threegate.handoff.store import Store
from threegate.host import applied
from threegate.host.executors.board import PUSH, Board
from threegate.host.executors.kinds import Kind, Signed
from threegate.host.executors.pool import MAX_STEPS, Pool
from threegate.host.executors.states import Status
from threegate.host.review.following import mark_of
from threegate.host.workspace import Workspace, open_workspace
from threegate.policy.bundle import Bundle

LOOK_SECONDS: Final = 0.1

Tell = Callable[..., None]


class Keeper:
    """Keeps pools of executors under the policy in force until it is closed."""

    def __init__(self, root: Path, kinds: Sequence[tuple[Kind[Any], int]], tell: Tell) -> None:
        self._root, self._event = root, tell
        self._board: Board | None = None
        self.pools = {kind.name: Pool(kind, size, self._acknowledge) for kind, size in kinds}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="executors")
        self._last = ""  # digest of what was pushed last
        self._seen = 0  # entries of the log
        self._bad = ""  # what was said last about a policy that does not count

    def start(self) -> None:
        """Begin; executors come as they are started."""
        self._thread.start()

    def close(self) -> None:
        """End every executor that waits; whoever took one must have given it back."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _acknowledge(self, status: Status) -> None:
        assert self._board is not None
        self._board.tell(status)
        self._event("executor", **status.plain())

    def _follow(self) -> None:
        ws = open_workspace(self._root)
        try:
            slots = [slot for pool in self.pools.values() for slot in pool.slots]
            self._board = Board(ws.store, [slot.status for slot in slots])
            self._board.begin()
            self._seen = ws.store.journal.log.size
            self._look(ws)
            for pool in self.pools.values():
                pool.open()
            before = mark_of(self._root)
            while not self._stopped.wait(LOOK_SECONDS):
                found = _mark(self._root)
                if found != before:
                    before = found
                    self._look(ws)
                    self._board.tell_again()
        finally:
            for pool in self.pools.values():
                pool.close()
            if self._board is not None:
                self._board.end()
            ws.close()

    def _look(self, ws: Workspace) -> None:
        """Push what is in force now, and have all read back if somebody asked for that."""
        try:
            steps, asked = self._news(ws.store)
            for pool in self.pools.values():
                if steps:
                    pool.push(*steps)
                if asked:
                    pool.again()
            self._bad = ""
        except ThreeGateError as exc:
            for pool in self.pools.values():
                pool.refuse(exc)
            if self._bad != exc.message:
                self._bad = exc.message
                self._event("bad-policy", code=exc.code, reason=exc.message)

    def _news(self, store: Store) -> tuple[list[Signed], bool]:
        with store.locked() as journal:
            bundle = applied.read_current(store)
            steps = _since(store, bundle, self._last)
            new = journal.log.entries(self._seen)
            asked = any(entry.kind == PUSH for entry in new if entry.seq >= self._seen)
            self._seen = journal.log.size
        self._last = bundle.digest
        return steps, asked


def _mark(root: Path) -> tuple[str, int]:
    try:
        return mark_of(root)
    except OSError:  # a segment that was sealed between two looks
        return ("", -1)


def _since(store: Store, bundle: Bundle, last: str) -> list[Signed]:
    """Return the policies since the last one that was pushed, the newest at the end."""
    found: list[Signed] = []
    while bundle.digest != last and len(found) < MAX_STEPS:
        armored = store.read_file(places.BUNDLES, f"{bundle.digest}.sig")
        found.append(Signed(bundle, armored))
        if bundle.previous is None or not last:
            break
        bundle = applied.read_bundle(store, bundle.previous)
    return found[::-1]
