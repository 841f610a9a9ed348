"""What the log says of each file (its digest, its origin), in bounded memory.

Kept in a temporary SQLite database without a name: the file is unlinked when it is opened, in
the system's temporary directory, and only pages that do not fit the cache are written to it.
So memory does not grow with the workspace, and a read-only workspace can be verified.
"""

import sqlite3
from collections.abc import Iterator
from typing import Final

from threegate.base.errors import StorageFailed

CACHE_KIB: Final = 4096

_SCHEMA: Final = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -{CACHE_KIB};
CREATE TABLE files (directory TEXT, name TEXT, said TEXT, PRIMARY KEY (directory, name))
    WITHOUT ROWID;
BEGIN;
"""

Place = tuple[str, str]  # directory, name


class Expected:
    """A mapping from places to what the log says of them, usually a digest."""

    def __init__(self) -> None:
        with _ERRORS:
            self._db = sqlite3.connect("", isolation_level=None)  # no name: private, and temporary
            self._db.executescript(_SCHEMA)

    def put(self, place: Place, said: str) -> None:
        """Expect a file, with this digest; what was said of it before is replaced."""
        with _ERRORS:
            self._db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (*place, said))

    def pop(self, place: Place) -> str:
        """Expect a file no longer; return the digest it had, or nothing."""
        found = self.get(place) or ""
        with _ERRORS:
            self._db.execute("DELETE FROM files WHERE directory = ? AND name = ?", place)
        return found

    def get(self, place: Place) -> str | None:
        """Return the digest that a file must have, None if it must not be there."""
        query = "SELECT said FROM files WHERE directory = ? AND name = ?"
        with _ERRORS:
            row = self._db.execute(query, place).fetchone()
        return None if row is None else str(row[0])

    def names(self, directory: str) -> Iterator[str]:
        """Yield the names that must lie in a directory, in order."""
        query = "SELECT name FROM files WHERE directory = ? ORDER BY name"
        with _ERRORS:
            for (name,) in self._db.execute(query, (directory,)):
                yield str(name)

    def count(self, directory: str) -> int:
        """Return how many files must lie in a directory."""
        query = "SELECT count(*) FROM files WHERE directory = ?"
        with _ERRORS:
            return int(self._db.execute(query, (directory,)).fetchone()[0])

    def items(self) -> Iterator[tuple[Place, str]]:
        """Yield every place and what was put there, in order."""
        query = "SELECT directory, name, said FROM files ORDER BY directory, name"
        with _ERRORS:
            for directory, name, said in self._db.execute(query):
                yield (str(directory), str(name)), str(said)

    def __len__(self) -> int:
        with _ERRORS:
            return int(self._db.execute("SELECT count(*) FROM files").fetchone()[0])


class _Errors:
    """Say in our words why the list cannot be kept; a plain class, because it is entered often."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, exc: BaseException | None, __: object) -> None:
        if isinstance(exc, sqlite3.Error):
            hint = "is there room in the system's temporary directory?"
            raise StorageFailed("cannot keep the list of files", hint=hint) from exc


_ERRORS: Final = _Errors()
