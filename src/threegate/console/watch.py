"""Whether the workspace changed, told to every page."""

from pathlib import Path

from threegate.console.events import Events
from threegate.host.workspace.changes import mark_of


class LogWatch:
    """Compares the end of the log with what it was."""

    def __init__(self, root: Path, events: Events) -> None:
        self._root, self._events = root, events
        self._before = mark_of(root)

    def look(self) -> None:
        """Tell that something changed, if it did since the last look."""
        found = mark_of(self._root)
        if found != self._before:
            self._before = found
            self._events.tell("changed")
