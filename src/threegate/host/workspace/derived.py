"""SQLite files that are computed from artifacts and the log: opened, sealed, rebuilt.

A derived file holds nothing that cannot be computed again.  Because decisions use it, an edit
must be found before the next use.  After every change `Derived` writes a seal: device, inode,
size and times of the file.  The seal lies in the user's state directory, not in the workspace,
and no ordinary account can set a file's change time.  A file that differs from its seal, has
another schema, or has SQLite side files is discarded and rebuilt.

SECURITY
    The files hold foreign text, or numbers computed from it.  Only plain files with one name
    are opened; a link is removed, never followed.  An account that can write both the
    workspace and the state directory can forge a seal; it can also replace the program.
"""

import fcntl
import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote

from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import StorageFailed
from threegate.handoff.store import Store

REBUILT: Final = "derived.rebuilt"  # kind of the log entry
BUSY_SECONDS: Final = 30.0
NEW: Final = ".new"
_MAX_SEAL_BYTES: Final = 200
# No journal file: SQLite would believe one that somebody else wrote.  A crash in mid-write
# leaves a file without a seal, which is rebuilt.  The data reach the disk before the seal does.
_PRAGMAS: Final = "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = NORMAL;"

CHANGED: Final = "changed outside ThreeGate"
UNSEALED: Final = "not sealed: an update was interrupted, or the workspace was copied here"
SCHEMA: Final = "other tables than this version uses"
DAMAGED: Final = "damaged"

Stat = list[int]


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
            self._seal = -1 if self._path is None else _open_seal(seals, self._path)
            self.db = self._first()

    def _first(self) -> sqlite3.Connection:
        if self._path is None:
            db = sqlite3.connect("", timeout=BUSY_SECONDS, isolation_level=None)
            db.executescript(self._schema)
            return db
        with locked(self._seal, fcntl.LOCK_EX):
            return self._open_or_replace()

    def is_sound(self) -> bool:
        """Tell whether the file is as it was; if not it may be empty now: catch up."""
        if self._path is None or self._is_unchanged():
            return True
        with storage_errors(self._path):
            with locked(self._seal, fcntl.LOCK_SH):
                if self._is_sealed() and self._is_open():
                    return True
            with locked(self._seal, fcntl.LOCK_EX):
                self.db.close()
                self.db = self._open_or_replace()
            return False

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Change the file in one transaction and seal it.

        Raises `sqlite3.DatabaseError` if the file is not as ThreeGate left it.
        """
        if self._path is None:
            with self._transaction():
                yield self.db
            return
        with locked(self._seal, fcntl.LOCK_EX):
            if not (self._is_sealed() and self._is_open()):
                raise _Unsealed(CHANGED)
            # No seal while pages are written: a kill may come within one tick of the clock.
            os.ftruncate(self._seal, 0)
            with self._transaction():
                yield self.db
            self._write_seal()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.rollback()
            raise
        self.db.commit()

    def rewrite(self) -> None:
        """Write the file again without what was deleted from it; the old file goes."""
        if self._path is None:
            self.db.execute("VACUUM")
            return
        with storage_errors(self._path), locked(self._seal, fcntl.LOCK_EX):
            if not (self._is_sealed() and self._is_open()):
                raise _Unsealed(CHANGED)
            write_again(self.db, self._path)
            self.db = self._connect()
            self._write_seal()

    def discard(self, why: str) -> None:
        """Replace the file by an empty one."""
        self.discarded = why
        self.db.close()
        with storage_errors(self._path):
            if self._path is None:
                self.db = self._first()
                return
            with locked(self._seal, fcntl.LOCK_EX):
                self.db = self._replace()

    def close(self) -> None:
        """Close the file."""
        self.db.close()
        if self._seal >= 0:
            os.close(self._seal)
            self._seal = -1

    def _open_or_replace(self) -> sqlite3.Connection:
        assert self._path is not None
        if any(os.path.lexists(one) for one in _files(self._path)):
            if self._is_sealed():
                db = self._connect()
                if is_ours(db, self._schema):
                    return db
                db.close()
                self.discarded = SCHEMA
            else:
                self.discarded = CHANGED if self._has_seal() else UNSEALED
        return self._replace()

    def _replace(self) -> sqlite3.Connection:
        assert self._path is not None
        remove_derived(self._path)
        remove_derived(Path(f"{self._path}{NEW}"))  # a killed `write_again` leaves it
        _make_empty(self._path)
        db = self._connect()
        db.executescript(self._schema)
        self._write_seal()
        return db

    def _connect(self) -> sqlite3.Connection:
        assert self._path is not None
        db = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
        db.executescript(_PRAGMAS)
        self._inode = self._path.lstat().st_ino
        return db

    def _is_unchanged(self) -> bool:
        """Tell whether file and seal are the ones of the last look; before each query, so fast."""
        now = (_stat(self._name), os.pread(self._seal, _MAX_SEAL_BYTES, 0))
        return now == self._known and not any(map(os.path.lexists, self._beside))

    def _is_open(self) -> bool:
        """Tell whether the connection is to the file that has the name now."""
        assert self._path is not None
        return self._path.lstat().st_ino == self._inode

    def _is_sealed(self) -> bool:
        data, found = os.pread(self._seal, _MAX_SEAL_BYTES, 0), _stat(self._name)
        if found is None or found != _seal_in(data) or any(map(os.path.lexists, self._beside)):
            return False
        self._known = (found, data) if found[1] == self._inode else None
        return True

    def _has_seal(self) -> bool:
        return bool(os.pread(self._seal, 1, 0))

    def _write_seal(self) -> None:
        data = json.dumps(_stat(self._name)).encode()
        os.ftruncate(self._seal, 0)
        os.pwrite(self._seal, data, 0)


class _Unsealed(sqlite3.DatabaseError):
    """The file was edited between two uses in one command."""


def why_unusable(
    path: Path, seals: Path | None, to: sqlite3.Connection | None = None
) -> str | None:
    """Return why the next command rebuilds a file; None if it fits its seal, or has none here.

    A file that is usable is copied into `to`, while no command of this account writes to it.
    """
    with _shared(path, seals) as seal:
        if seal >= 0 and os.path.lexists(path):
            data = os.pread(seal, _MAX_SEAL_BYTES, 0)
            if not data:
                return UNSEALED
            if _stat(path) != _seal_in(data) or any(map(os.path.lexists, _files(path)[1:])):
                return CHANGED
        if to is not None and path.is_file() and not path.is_symlink():
            # Immutable: SQLite takes no lock and looks at no journal.
            uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
            with closing(sqlite3.connect(uri, uri=True)) as kept:
                kept.backup(to)
    return None


@contextmanager
def _shared(path: Path, seals: Path | None) -> Iterator[int]:
    """Hold the seal of a file for reading; -1 if this account has none."""
    fd = -1
    if seals is not None:
        with suppress(OSError):  # the file was made by another account, or on another machine
            fd = os.open(_seal_of(seals, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if fd < 0:
        yield fd
        return
    try:
        with locked(fd, fcntl.LOCK_SH):
            yield fd
    finally:
        os.close(fd)


def open_plain(path: Path | None, schema: str) -> sqlite3.Connection:
    """Return a connection to a file whose rows prove themselves, made again if it is not ours.

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
    """Write a file again, so that no page holds what was deleted; closes the connection."""
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
            journal.log.append([(REBUILT, {"file": name, "why": why})])


def remove_derived(path: Path) -> None:
    """Delete the file and what SQLite keeps beside it."""
    for one in _files(path):
        one.unlink(missing_ok=True)


def is_broken(exc: sqlite3.DatabaseError) -> bool:
    """Tell whether the file is damaged, edited or something else than a database."""
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


def _stat(path: Path | str) -> Stat | None:
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1 or info.st_uid != os.geteuid():
        return None
    return [info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]


def make_private(seals: Path) -> None:
    """Make the directory of seals, of this user alone."""
    seals.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = seals.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise StorageFailed(f"{seals} is not a directory of this user alone")


def _open_seal(seals: Path | None, path: Path) -> int:
    assert seals is not None
    make_private(seals)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(_seal_of(seals, path), flags, 0o600)


def _seal_of(seals: Path, path: Path) -> Path:
    # The directory is resolved, the file's own name is not: it may be a link by now.
    return seals / sha256_hex(os.fsencode(path.parent.resolve() / path.name))


def _seal_in(data: bytes) -> Stat | None:
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, list) else None


@contextmanager
def locked(fd: int, how: int) -> Iterator[None]:
    """Hold a lock on a descriptor."""
    fcntl.flock(fd, how)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


@contextmanager
def storage_errors(path: Path | None) -> Iterator[None]:
    """Say in our words why a derived file cannot be used."""
    try:
        yield
    except sqlite3.OperationalError as exc:
        hint = "free the disk, or wait for the other command; the file can be deleted"
        name = path.name if path else "a temporary database"
        raise StorageFailed(f"cannot use {name}: {exc.sqlite_errorname}", hint=hint) from exc
    except OSError as exc:
        why = os.strerror(exc.errno or 0)
        raise StorageFailed(f"cannot use {path.name if path else 'a file'}: {why}") from exc
