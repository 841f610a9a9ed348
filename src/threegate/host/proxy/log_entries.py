"""Entries of the audit log while a proxy lives whose decisions come from a thread of its own.

A lock of the workspace keeps other processes out, not other threads of this one.  Whoever
starts a proxy therefore writes through one of these for as long as it lives.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from threegate.handoff.store import Store
from threegate.host.proxy.decisions import KIND as DECIDED


class Noter:
    """Writes entries, one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, Lock()

    def announce(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write what is about to happen; it is durable when this returns."""
        self._append(kind, data, durable=True)

    def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write what has happened."""
        self._append(kind, data, durable=False)

    def decided(self, line: Mapping[str, Any]) -> None:
        """Write a decision of the proxy."""
        self.note(DECIDED, line)

    def _append(self, kind: str, data: Mapping[str, Any], *, durable: bool) -> None:
        with self._lock, self._store.locked() as journal:
            journal.log.append([(kind, data)], durable=durable)
