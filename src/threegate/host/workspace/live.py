"""A workspace that stays open and follows the changes of other processes."""

from dataclasses import dataclass
from pathlib import Path

from threegate.host.workspace.index import Index
from threegate.host.workspace.workspace import Mark, Workspace, followed, mark_of, open_workspace


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
