"""SQLite files that are computed from artifacts: opened, or made anew where they are not ours.

SECURITY
    They hold foreign text, or numbers made of it.  What is opened is a plain file with one
    name, of the user alone; a link in its place is removed, never followed.
"""

import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

from threegate.errors import StorageFailed


def open_derived(path: Path, schema: str, discard: Callable[[], None]) -> sqlite3.Connection:
    """Return a connection; what is broken or no file of ours is discarded first.

    Raises `StorageFailed`.  A file that somebody else holds is not broken.
    """
    try:
        try:
            return _connect(path, schema, discard)
        except sqlite3.DatabaseError as exc:
            if not is_broken(exc):
                raise
            discard()
            return _connect(path, schema, discard)
    except (OSError, sqlite3.Error) as exc:
        hint = "delete it; it is made anew"
        raise StorageFailed(f"cannot open {path.name}", hint=hint) from exc


def remove_derived(path: Path) -> None:
    """Delete the file and what SQLite keeps beside it."""
    for one in _files(path):
        one.unlink(missing_ok=True)


def is_broken(exc: sqlite3.DatabaseError) -> bool:
    """Tell whether the file is damaged or something else than a database."""
    code = getattr(exc, "sqlite_errorcode", None)  # absent where SQLite itself was not asked
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _files(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]


def _is_trap(path: Path) -> bool:
    try:
        info = path.lstat()
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(info.st_mode) or info.st_nlink != 1


def _connect(path: Path, schema: str, discard: Callable[[], None]) -> sqlite3.Connection:
    if any(map(_is_trap, _files(path))):  # text must lie nowhere else
        discard()
    path.touch(mode=0o600)
    db = sqlite3.connect(path, timeout=30.0)
    try:
        db.executescript(schema)
    except BaseException:
        db.close()
        raise
    return db
