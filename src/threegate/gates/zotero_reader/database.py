"""A database that somebody else wrote, opened so that it can only be read from.

SECURITY
    A database file is a program: views, triggers, generated columns and virtual tables run when
    a table is read.  This module reads plain columns of plain tables from memory.  SQLite asks the
    authorizer before each access: it allows reading named tables directly, and no function.  Steps
    are counted, values are bounded, and the sandbox bounds the rest.  If this module is wrong, a
    hostile file runs functions of SQLite in a sandbox without network and files.
"""

import re
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from threegate.base.limits import MIB
from threegate.gates.zotero_reader.messages import (
    DAMAGED,
    MAX_DATABASE_BYTES,
    NOT_ZOTERO,
    TOO_LARGE,
    TOO_LONG,
)

MAX_STEPS: Final = 2_000_000_000  # of SQLite's machine; a library of 100,000 items takes a tenth
STEPS_EACH: Final = 100_000
MAX_CELL_BYTES: Final = 64 * MIB
MAX_COLUMNS: Final = 200
_HEADER: Final = b"SQLite format 3\0"
_PLAIN: Final = re.compile(r"CREATE TABLE\b", re.IGNORECASE)
_WAL_MAGIC: Final = 0x377F0682  # plus 1: checksums are big-endian
_WAL_VERSION: Final = 3_007_000
_WAL_HEAD: Final = 32
_FRAME_HEAD: Final = 24

Columns = Mapping[str, tuple[str, ...]]  # by table


class DatabaseRefused(Exception):
    """The database cannot be read; `reason` is one of the words of `LibraryNotRead`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Database:
    """Plain tables of a database in memory."""

    def __init__(self, data: bytes, known: Columns, required: frozenset[str]) -> None:
        self._steps = 0
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        try:
            self._disarm(data)
            self.tables = frozenset(self._plain_tables(known))
        except (sqlite3.Error, OverflowError) as exc:
            raise self._refusal(exc) from exc
        if required - self.tables:
            raise DatabaseRefused(NOT_ZOTERO)
        allowed = {name.lower() for name in self.tables}
        self._db.set_authorizer(_allows_reading(allowed))

    def close(self) -> None:
        """Free the memory."""
        self._db.close()

    def rows(self, table: str, query: str, most: int) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, if there is such a table; refuse more than `most`."""
        if table not in self.tables:
            return
        try:
            for number, row in enumerate(self._db.execute(query)):
                if number >= most:
                    raise DatabaseRefused(TOO_LARGE)
                yield row
        except (sqlite3.Error, OverflowError) as exc:
            raise self._refusal(exc) from exc

    def _disarm(self, data: bytes) -> None:
        db = self._db
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
        db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        db.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)
        db.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, MAX_COLUMNS)
        db.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 50)
        for name, value in (("DEFENSIVE", 1), ("ENABLE_TRIGGER", 0), ("ENABLE_VIEW", 0)):
            option = getattr(sqlite3, f"SQLITE_DBCONFIG_{name}", None)
            if option is not None:  # since Python 3.12; the authorizer refuses the same
                getattr(db, "setconfig")(option, bool(value))  # noqa: B009
        db.set_progress_handler(self._count, STEPS_EACH)
        db.deserialize(data)
        for setting in ("trusted_schema=OFF", "cell_size_check=ON", "query_only=ON"):
            db.execute(f"PRAGMA {setting}")
        db.execute("PRAGMA temp_store=MEMORY")

    def _count(self) -> int:
        self._steps += STEPS_EACH
        return int(self._steps > MAX_STEPS)

    def _plain_tables(self, known: Columns) -> Iterator[str]:
        """Yield the known names that are tables with stored columns, and nothing else."""
        self._db.set_authorizer(_allows_looking)
        found = self._db.execute("SELECT name, type, sql FROM sqlite_master").fetchmany(10_000)
        kinds = {
            str(name).lower(): (kind, str(sql)) for name, kind, sql in found if kind != "index"
        }
        for name, columns in known.items():
            if name.lower() not in kinds:
                continue
            kind, sql = kinds[name.lower()]
            if kind != "table" or _PLAIN.match(sql) is None:
                raise DatabaseRefused(NOT_ZOTERO)  # a view, or a table with code of its own
            stored = {
                str(row[1]) for row in self._db.execute(f"PRAGMA table_xinfo({name})") if not row[6]
            }
            if set(columns) <= stored:
                yield name

    def _refusal(self, error: Exception) -> DatabaseRefused:
        if self._steps > MAX_STEPS:
            return DatabaseRefused(TOO_LONG)
        if isinstance(error, sqlite3.DataError):  # a value of more than MAX_CELL_BYTES
            return DatabaseRefused(TOO_LARGE)
        denied = any(word in str(error) for word in ("not authorized", "prohibited"))
        return DatabaseRefused(NOT_ZOTERO if denied else DAMAGED)


def _allows_looking(
    action: int, first: str | None, _second: str | None, _database: str | None, source: str | None
) -> int:
    """Allow the list of tables and of their columns."""
    listed = action == sqlite3.SQLITE_READ and first == "sqlite_master"
    columns = action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo"
    fine = listed or columns or action == sqlite3.SQLITE_SELECT
    return sqlite3.SQLITE_OK if fine and source is None else sqlite3.SQLITE_DENY


def _allows_reading(
    tables: set[str],
) -> Callable[[int, str | None, str | None, str | None, str | None], int]:
    """Allow reading these tables; `source` names the view or trigger that reads."""

    def allows(
        action: int,
        first: str | None,
        _second: str | None,
        database: str | None,
        source: str | None,
    ) -> int:
        if source is not None:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_READ:
            # SQLite names no database where it reads the number of a row alone.
            fine = database in ("main", None) and str(first).lower() in tables
        else:
            fine = action == sqlite3.SQLITE_SELECT
        return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY

    return allows


def with_wal(database: bytes, wal: bytes) -> bytes:
    """Return the database with the committed pages of its write-ahead log.

    The result says that it has no log: a database in memory cannot have one.
    """
    if not database.startswith(_HEADER) or len(database) < 512:
        raise DatabaseRefused(NOT_ZOTERO)
    pages, size, count = _committed(wal)
    if count * size > MAX_DATABASE_BYTES:
        raise DatabaseRefused(TOO_LARGE)
    made = bytearray(database)
    if pages:
        del made[count * size :]
        made.extend(bytes(count * size - len(made)))
    for number, place in pages.items():
        if number <= count:
            made[(number - 1) * size : number * size] = wal[place : place + size]
    made[18:20] = b"\1\1"
    return bytes(made)


def _committed(wal: bytes) -> tuple[dict[int, int], int, int]:
    """Return where the newest pages are in a log, their size, and the size of the database."""
    nothing: tuple[dict[int, int], int, int] = ({}, 0, 0)
    if len(wal) < _WAL_HEAD:
        return nothing
    magic, version, size, _, *salts = struct.unpack(">6I", wal[:24])
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _WAL_MAGIC or version != _WAL_VERSION or size not in _PAGE_SIZES:
        return nothing
    sums = _checksum(order, wal[:24], (0, 0))
    if sums != struct.unpack(">2I", wal[24:_WAL_HEAD]):
        return nothing
    found, pending, count = dict[int, int](), dict[int, int](), 0
    for at in range(_WAL_HEAD, len(wal) - _FRAME_HEAD - size + 1, _FRAME_HEAD + size):
        number, committed, *rest = struct.unpack(">6I", wal[at : at + _FRAME_HEAD])
        page = at + _FRAME_HEAD
        sums = _checksum(order, wal[at : at + 8], sums)
        sums = _checksum(order, wal[page : page + size], sums)
        if rest != [*salts, *sums] or number == 0:  # the rest is older, or not written completely
            break
        pending[number] = page
        if committed:
            found |= pending
            pending, count = {}, committed
    return found, size, count


_PAGE_SIZES: Final = frozenset(2**power for power in range(9, 17))


def _checksum(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    one, two = sums
    for first, second in struct.iter_unpack(f"{order}2I", data):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two
