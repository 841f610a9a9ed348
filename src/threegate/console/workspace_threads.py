"""A thread with a workspace of its own: files, log and index belong to the thread that opened them.

Pages are read in one, signatures made in another that may wait for a human, so neither keeps
the other waiting.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from threegate.base.errors import StorageFailed
from threegate.host.workspace.changes import Mark, followed, mark_of
from threegate.host.workspace.index import FILE, Index
from threegate.host.workspace.workspace import Workspace, open_workspace

T = TypeVar("T")


@dataclass(slots=True)
class Desk:
    """An open workspace and its index."""

    ws: Workspace
    index: Index
    _mark: Mark | None = None

    def follow(self, *, always: bool) -> None:
        """Take in what others did meanwhile, their policy included.

        All of that makes the log grow.  Where something is signed, it is read `always`: whoever
        changed a file behind the log's back is found there at the latest.
        """
        mark = self._looked()
        if always or mark is None or mark != self._mark or not self.index.is_sound():
            self.ws = followed(self.ws)
            self.index.catch_up(None)
            self._mark = mark

    def _looked(self) -> Mark | None:
        try:
            return mark_of(self.ws.root)
        except OSError:  # a segment that was sealed between two looks
            return None

    def close(self) -> None:
        """Give everything back."""
        self.index.close()
        self.ws.close()


class WorkspaceThread:
    """One thread and its desk."""

    def __init__(
        self, root: Path, name: str, *, seals: Path | None = None, signs: bool = False
    ) -> None:
        self._root, self._signs, self._seals = root, signs, seals
        self._thread = ThreadPoolExecutor(1, f"console-{name}")
        self._desk: Desk | None = None

    async def do(self, act: Callable[[Desk], T]) -> T:
        """Return what `act` makes of the workspace as it is now."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, act)

    def _do(self, act: Callable[[Desk], T]) -> T:
        try:
            if self._desk is None:
                ws = open_workspace(self._root, seals=self._seals)
                self._desk = Desk(ws, Index(ws.store, ws.seals))
            self._desk.follow(always=self._signs)
            return act(self._desk)
        except sqlite3.DatabaseError as exc:
            self._drop()
            hint = f"delete {FILE} in the workspace; it is built again"
            raise StorageFailed(f"{FILE} cannot be used", hint=hint) from exc
        except BaseException:
            self._drop()  # whatever it was, the next one begins with what is on disk
            raise

    def _drop(self) -> None:
        if self._desk is not None:
            desk, self._desk = self._desk, None
            desk.close()

    async def close(self) -> None:
        """Wait for what is under way, and give the workspace back."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._drop)
        self._thread.shutdown()
