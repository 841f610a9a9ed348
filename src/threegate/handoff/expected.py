"""Which file lies where, with which digest, according to the log: however many there are.

Kept in a temporary database of SQLite's own, which has no name: the file is unlinked when it
is opened, in the system's temporary place, and only what does not fit the cache is written to
it.  So memory does not grow with the workspace, and a workspace that cannot be written can be
verified.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from threegate.base.errors import StorageFailed

CACHE_KIB: Final = 4096

_SCHEMA: Final = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -{CACHE_KIB};
CREATE TABLE files (directory TEXT, name TEXT, digest TEXT, PRIMARY KEY (directory, name))
    WITHOUT ROWID;
BEGIN;
"""

Place = tuple[str, str]  # directory, name


class Expected:
    """A mapping from places to digests."""

    def __init__(self) -> None:
        with _errors():
            self._db = sqlite3.connect("", isolation_level=None)  # no name: private, and temporary
            self._db.executescript(_SCHEMA)

    def put(self, place: Place, digest: str) -> None:
        """Expect a file, with this digest."""
        with _errors():
            self._db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (*place, digest))

    def pop(self, place: Place) -> str:
        """Expect a file no longer; return the digest it had, or nothing."""
        found = self.get(place) or ""
        with _errors():
            self._db.execute("DELETE FROM files WHERE directory = ? AND name = ?", place)
        return found

    def get(self, place: Place) -> str | None:
        """Return the digest that a file must have, None if it must not be there."""
        query = "SELECT digest FROM files WHERE directory = ? AND name = ?"
        with _errors():
            row = self._db.execute(query, place).fetchone()
        return None if row is None else str(row[0])

    def names(self, directory: str) -> Iterator[str]:
        """Yield the names that must lie in a directory, in order."""
        query = "SELECT name FROM files WHERE directory = ? ORDER BY name"
        with _errors():
            for (name,) in self._db.execute(query, (directory,)):
                yield str(name)

    def count(self, directory: str) -> int:
        """Return how many files must lie in a directory."""
        query = "SELECT count(*) FROM files WHERE directory = ?"
        with _errors():
            return int(self._db.execute(query, (directory,)).fetchone()[0])

    def items(self) -> Iterator[tuple[Place, str]]:
        """Yield every place and its digest, in order."""
        query = "SELECT directory, name, digest FROM files ORDER BY directory, name"
        with _errors():
            for directory, name, digest in self._db.execute(query):
                yield (str(directory), str(name)), str(digest)

    def __len__(self) -> int:
        with _errors():
            return int(self._db.execute("SELECT count(*) FROM files").fetchone()[0])


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        hint = "is there room in the system's temporary directory?"
        raise StorageFailed("cannot keep the list of files", hint=hint) from exc
