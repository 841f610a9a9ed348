"""A workspace that stays open and follows the changes of other processes."""

from dataclasses import dataclass, replace
from pathlib import Path

from threegate.handoff.store import AUDIT
from threegate.host.workspace import applied
from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Workspace, open_workspace

Mark = tuple[str, int]


def mark_of(root: Path) -> Mark:
    """Return name and size of the log's last segment: everything that happens makes it grow."""
    found = max((root / AUDIT).glob("segment-*.jsonl"), default=None)
    try:
        return ("", 0) if found is None else (found.name, found.stat().st_size)
    except OSError:  # sealed between two looks
        return ("", -1)


def followed(ws: Workspace) -> Workspace:
    """Return the workspace with the policy in force, which another process may have changed."""
    with ws.store.locked():
        bundle = applied.read_current(ws.store)
    if bundle.digest == ws.bundle.digest:
        return ws
    ws.store.journal.quotas = applied.quotas_of(bundle)
    return replace(ws, bundle=bundle)


@dataclass(slots=True)
class LiveWorkspace:
    """An open workspace and its index, in one thread; `follow` takes in what others changed."""

    ws: Workspace
    index: Index
    _mark: Mark | None = None

    @classmethod
    def open(cls, root: Path, seals: Path | None) -> "LiveWorkspace":
        """Open the workspace and its index."""
        ws = open_workspace(root, seals=seals)
        return cls(ws, Index(ws.store, ws.seals))

    def changed(self) -> bool:
        """Tell whether the log grew since the last `follow`: every change makes it grow."""
        return mark_of(self.ws.root) != self._mark

    def follow(self, *, always: bool) -> None:
        """Take in the policy and artifacts that other processes changed.

        Reads again only if the log grew.  Before a signature it reads `always`, which finds
        files that were changed without an entry in the log.
        """
        mark = mark_of(self.ws.root)  # before reading: a change during it is found next time
        if always or mark != self._mark or not self.index.is_sound():
            self.ws = followed(self.ws)
            self.index.catch_up(None)
            self._mark = mark

    def close(self) -> None:
        """Close index and workspace."""
        self.index.close()
        self.ws.close()
