"""SQLite files that are computed from artifacts and the log: opening, sealing and rebuilding them.

A derived file holds nothing that cannot be computed again.  Because decisions use it, an edit must
be found before the next use.  After every change `Derived` seals the file (`seal.py`).  A file that
differs from its seal, has another schema, or has SQLite side files is discarded and rebuilt.

SECURITY
    The files hold foreign text, or numbers computed from it.  Only plain files with one name are
    opened; a link is removed, never followed.
"""

import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote

from threegate.base.errors import StorageFailed
from threegate.handoff.store import Store
from threegate.host.workspace.seal import Seal, Stat, make_private, stat_of

REBUILT: Final = "derived.rebuilt"  # kind of the log entry
BUSY_SECONDS: Final = 30.0
NEW: Final = ".new"
# No journal file: SQLite would apply one that somebody else wrote.  A crash in mid-write
# leaves a file without a seal, which is rebuilt.  The data reach the disk before the seal does.
_PRAGMAS: Final = "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = NORMAL;"

CHANGED: Final = "changed outside ThreeGate"
UNSEALED: Final = "not sealed: an update was interrupted, or the workspace was copied here"
SCHEMA: Final = "other tables than this version uses"
DAMAGED: Final = "damaged"


class Derived:
    """One sealed file; `path` None makes a private temporary database without a name."""

    def __init__(self, path: Path | None, schema: str, seals: Path | None) -> None:
        self._path = None if seals is None else path
        self._name, *self._beside = map(str, _files(path or Path()))
        self._schema = schema
        self._inode = 0
        self._known: tuple[Stat, bytes] | None = None  # the file and its seal at the last look
        self.discarded: str | None = None  # why the file that was here was not used
        with storage_errors(path):
            self._seal = None if self._path is None else _open_seal(seals, self._path)
            self.db = self._first()

    def _first(self) -> sqlite3.Connection:
        if self._seal is None:
            db = sqlite3.connect("", timeout=BUSY_SECONDS, isolation_level=None)
            db.executescript(self._schema)
            return db
        with self._seal.locked():
            return self._open_or_replace()

    def is_sound(self) -> bool:
        """Tell whether the file is unchanged; if not, it may be empty now and has to catch up."""
        if self._seal is None or self._is_unchanged(self._seal):
            return True
        with storage_errors(self._path):
            with self._seal.locked(fcntl.LOCK_SH):
                if self._is_sealed(self._seal) and self._is_open():
                    return True
            with self._seal.locked():
                self.db.close()
                self.db = self._open_or_replace()
            return False

    @contextmanager
    def writing(self, *, last: bool = True, large: bool = False) -> Iterator[sqlite3.Connection]:
        """Change the file in one transaction and seal it.

        Of several changes in a row only the last needs a seal that outlives the boot.  Pages of a
        change that is `large`, or not the last, may be written before the commit, so that memory
        stays bounded.  Raises `sqlite3.DatabaseError` if the file is not as ThreeGate left it.
        """
        spills = large or not last
        self.db.execute(f"PRAGMA cache_spill = {'ON' if spills else 'OFF'}")
        if self._seal is None:
            with self._transaction():
                yield self.db
            return
        with self._seal.locked(), self._transaction():
            # Only now: a program that holds SQLite's lock delays the transaction,
            # and could write as long as it holds it.
            self._refuse_edited(self._seal)
            sealed, before = self._seal.data(), stat_of(self._name)
            # No seal while pages are written: a kill may come within one tick of the clock.
            self._seal.empty()
            try:
                yield self.db
            except BaseException:
                self.db.rollback()
                if stat_of(self._name) == before:
                    self._seal.restore(sealed)  # nothing was written
                raise
            if not spills and stat_of(self._name) != before:
                raise _Unsealed(CHANGED)
            self.db.commit()
            self._seal.write(digest=last)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.db.execute("BEGIN EXCLUSIVE")
        try:
            yield
        except BaseException:
            self.db.rollback()
            raise
        self.db.commit()

    def _refuse_edited(self, seal: Seal) -> None:
        if not (self._is_sealed(seal) and self._is_open()):
            raise _Unsealed(CHANGED)

    def rewrite(self) -> None:
        """Rewrite the file without its deleted content and replace the old file."""
        if self._seal is None or self._path is None:
            self.db.execute("VACUUM")
            return
        with storage_errors(self._path), self._seal.locked():
            self._refuse_edited(self._seal)
            write_again(self.db, self._path)
            self.db = self._connect()
            self._seal.write()

    def discard(self, why: str) -> None:
        """Replace the file by an empty one."""
        self.discarded = why
        self.db.close()
        with storage_errors(self._path):
            if self._seal is None:
                self.db = self._first()
                return
            with self._seal.locked():
                self.db = self._replace()

    def close(self) -> None:
        """Close the file."""
        self.db.close()
        if self._seal is not None:
            self._seal.close()

    def _open_or_replace(self) -> sqlite3.Connection:
        assert self._path is not None
        assert self._seal is not None
        if any(os.path.lexists(one) for one in _files(self._path)):
            if self._is_sealed(self._seal):
                if not self._seal.is_of_this_boot():
                    self._seal.write()
                db = self._connect()
                if is_ours(db, self._schema):
                    return db
                db.close()
                self.discarded = SCHEMA
            else:
                self.discarded = CHANGED if self._seal.data() else UNSEALED
        return self._replace()

    def _replace(self) -> sqlite3.Connection:
        assert self._path is not None
        assert self._seal is not None
        remove_derived(self._path)
        remove_derived(Path(f"{self._path}{NEW}"))  # a killed `write_again` leaves it
        _make_empty(self._path)
        db = self._connect()
        db.executescript(self._schema)
        self._seal.write()
        return db

    def _connect(self) -> sqlite3.Connection:
        assert self._path is not None
        db = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
        db.executescript(_PRAGMAS)
        self._inode = self._path.lstat().st_ino
        return db

    def _is_unchanged(self, seal: Seal) -> bool:
        """Tell whether file and seal are unchanged since the last look; runs before each query."""
        now = (stat_of(self._name), seal.data())
        return now == self._known and not any(map(os.path.lexists, self._beside))

    def _is_open(self) -> bool:
        """Tell whether the connection is to the file that has the name now."""
        assert self._path is not None
        return self._path.lstat().st_ino == self._inode

    def _is_sealed(self, seal: Seal) -> bool:
        data, found = seal.data(), stat_of(self._name)
        if found is None or not seal.fits() or any(map(os.path.lexists, self._beside)):
            return False
        self._known = (found, data) if found[1] == self._inode else None
        return True


class _Unsealed(sqlite3.DatabaseError):
    """The file was edited between two uses in one command."""


def why_unusable(
    path: Path, seals: Path | None, to: sqlite3.Connection | None = None
) -> str | None:
    """Return why the next command rebuilds a file; None if it fits its seal, or has none here.

    A file that is usable is copied into `to`, while no command of this account writes to it.
    """
    with _shared(path, seals) as seal:
        if seal is not None and os.path.lexists(path):
            if not seal.data():
                return UNSEALED
            if not seal.fits() or any(map(os.path.lexists, _files(path)[1:])):
                return CHANGED
        if to is not None and path.is_file() and not path.is_symlink():
            # Immutable: SQLite takes no lock and looks at no journal.
            uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
            with closing(sqlite3.connect(uri, uri=True)) as kept:
                kept.backup(to)
    return None


@contextmanager
def _shared(path: Path, seals: Path | None) -> Iterator[Seal | None]:
    """Hold the seal of a file for reading; None if this account has none."""
    seal = None
    if seals is not None:
        with suppress(OSError):  # the file was made by another account, or on another machine
            seal = Seal(seals, path, writable=False)
    if seal is None:
        yield None
        return
    with closing(seal), seal.locked(fcntl.LOCK_SH):
        yield seal


def open_plain(path: Path | None, schema: str) -> sqlite3.Connection:
    """Return a connection to a file with authenticated rows; a file that is not ours is replaced.

    Raises `StorageFailed`.  A file that another process holds is not broken.
    """
    with storage_errors(path):
        if path is None:
            return _connect_plain("", schema)
        if any(map(_is_trap, _files(path))):
            remove_derived(path)
        if not os.path.lexists(path):
            _make_empty(path)
        try:
            return _connect_plain(path, schema)
        except sqlite3.DatabaseError as exc:
            if not is_broken(exc):
                raise
            remove_derived(path)
            _make_empty(path)
            return _connect_plain(path, schema)


def write_again(db: sqlite3.Connection, path: Path) -> None:
    """Rewrite a file, so that no page holds deleted content; closes the connection."""
    fresh = Path(f"{path}{NEW}")
    remove_derived(fresh)
    _make_empty(fresh)
    db.execute("VACUUM INTO ?", (str(fresh),))
    db.close()
    for one in _files(path)[1:]:  # they hold old pages
        one.unlink(missing_ok=True)
    fresh.replace(path)


def note_rebuilt(store: Store, name: str, why: str | None) -> None:
    """Record in the log that a derived file was not used, if it was not."""
    if why:
        with store.locked() as journal:
            # The rebuild has happened already, so a clock that is ahead does not prevent the entry.
            journal.log.append([(REBUILT, {"file": name, "why": why})], ends=True)


def remove_derived(path: Path) -> None:
    """Delete the file and what SQLite keeps beside it."""
    for one in _files(path):
        one.unlink(missing_ok=True)


def is_broken(exc: sqlite3.DatabaseError) -> bool:
    """Tell whether the file is damaged, edited or not a database."""
    code = getattr(exc, "sqlite_errorcode", None)  # absent where SQLite itself was not asked
    broken = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return isinstance(exc, _Unsealed) or (code is not None and code & 0xFF in broken)


def is_ours(db: sqlite3.Connection, schema: str) -> bool:
    """Tell whether a database has the tables of a schema and no trigger, view or table more."""
    return _master(db) == _expected(schema)


@cache
def _expected(schema: str) -> frozenset[tuple[str, ...]]:
    db = sqlite3.connect(":memory:")
    db.executescript(schema)
    with closing(db):
        return _master(db)


def _master(db: sqlite3.Connection) -> frozenset[tuple[str, ...]]:
    return frozenset(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def _connect_plain(path: Path | str, schema: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_SECONDS)
    try:
        db.executescript(schema)
        if not is_ours(db, schema):
            raise _Unsealed(SCHEMA)
    except BaseException:
        db.close()
        raise
    return db


def _make_empty(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def _files(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in ("", "-journal", "-wal", "-shm")]


def _is_trap(path: Path) -> bool:
    try:
        info = path.lstat()
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(info.st_mode) or info.st_nlink != 1


def _open_seal(seals: Path | None, path: Path) -> Seal:
    assert seals is not None
    make_private(seals)
    return Seal(seals, path)


@contextmanager
def storage_errors(path: Path | None) -> Iterator[None]:
    """Translate errors about a derived file into `StorageFailed`."""
    try:
        yield
    except sqlite3.OperationalError as exc:
        hint = "free the disk, or wait for the other command; the file can be deleted"
        name = path.name if path else "a temporary database"
        raise StorageFailed(f"cannot use {name}: {exc.sqlite_errorname}", hint=hint) from exc
    except OSError as exc:
        why = os.strerror(exc.errno or 0)
        raise StorageFailed(f"cannot use {path.name if path else 'a file'}: {why}") from exc
