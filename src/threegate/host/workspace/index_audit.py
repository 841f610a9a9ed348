"""Comparison of the stored index with the files it was computed from, for `audit verify`.

SECURITY
    Reads a copy, without side files, of a database that somebody may have edited.  Changes nothing
    in the workspace.  Memory does not grow with the number of artifacts.
"""

import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Final

from threegate.artifacts.ids import is_id
from threegate.base.errors import HandoffTampered
from threegate.handoff import states
from threegate.handoff.store import Store
from threegate.handoff.verify import Expected, Finding
from threegate.host.workspace.derived import UNSEALED, is_ours, why_unusable
from threegate.host.workspace.fetched import FILE as FETCHED
from threegate.host.workspace.index import FILE, Index
from threegate.host.workspace.index_rows import SCHEMA, origin_row, rows_of, sources_of
from threegate.host.workspace.packets import announcements
from threegate.host.workspace.places import quarantined

PLACE: Final = "workspace"
OTHER: Final = "is not what files and log give; it can be deleted, it is built again"

# Each table is read once, in the order of its pages.
_ROWS: Final = {
    "artifacts": "SELECT id, kind, state, title, made, bytes, integrity, confidentiality"
    " FROM artifacts",
    # The left join also finds texts without an artifact; their id is NULL.
    "texts": "SELECT id, texts.title, texts.body, texts.compounds"
    " FROM texts LEFT JOIN artifacts ON number = texts.rowid",
    "languages": "SELECT language, id FROM languages",
    "sources": "SELECT child, parent FROM sources",
    "contents": "SELECT id, digest FROM contents",
    "names": "SELECT scheme, value, id, joins, retracted FROM names",
    "origins": "SELECT id, name, by, consistent FROM origins",
}
_PLACES: Final = tuple(dict.fromkeys(chain.from_iterable(states.ARTIFACT_STATES.values())))
_DIGEST_BYTES: Final = 32

TableRow = tuple[str, tuple[Any, ...]]  # the table, and a row of it

Show = Callable[[int], None]


def verify_derived(store: Store, seals: Path | None, show: Show) -> list[Finding]:
    """Return a finding for each derived file that somebody edited.

    An update that was interrupted by a kill is not an edit: it gives a stray finding.
    """
    found = _looked_at(store, seals, show)
    if any(not one.stray for one in found):
        # Another command may have written in between; under the lock none can.
        with store.locked():
            found = _looked_at(store, seals, show)
    return found


def _looked_at(store: Store, seals: Path | None, show: Show) -> list[Finding]:
    problems = {FETCHED: why_unusable(store.root / FETCHED, seals)}
    with closing(Index(store)) as index:
        try:
            problems[FILE] = why_unusable(store.root / FILE, seals, index.database)
            same = problems[FILE] is not None or _is_right(store, index, show)
        except (sqlite3.DatabaseError, HandoffTampered):
            same = False
    found = [
        Finding(PLACE, name, f"{why}; the next command rebuilds it", stray=why == UNSEALED)
        for name, why in problems.items()
        if why is not None
    ]
    return found if same else [*found, Finding(PLACE, FILE, OTHER)]


def _is_right(store: Store, index: Index, show: Show) -> bool:
    """Compare a copy of the kept index with what files and log give."""
    if not (store.root / FILE).is_file():
        return True
    if not is_ours(index.database, SCHEMA):
        return False
    index.catch_up()
    index.database.execute("INSERT INTO texts (texts) VALUES ('integrity-check')")
    # Queries read the table's own indexes, which a comparison of rows does not look at.
    if index.database.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        return False
    return _is_same(store, index.database, show)


def _is_same(store: Store, db: sqlite3.Connection, show: Show) -> bool:
    key = secrets.token_bytes(_DIGEST_BYTES)
    right, kept = _RowSums(key), _RowSums(key)
    for table, row in _expected(store, show):
        right.add(table, row)
    for table, query in _ROWS.items():
        for row in db.execute(query):
            kept.add(table, row)
    return right.sums == kept.sums


class _RowSums:
    """Sums of keyed digests, one for each table: equal if the rows are, in any order.

    Memory does not grow with the rows.  The key is random for each comparison, so rows with
    the same sum cannot be prepared.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.sums = dict.fromkeys(_ROWS, 0)

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """Count a row; one that comes twice counts twice."""
        # Texts, numbers and None: different rows have different representations.
        digest = blake2b(repr(row).encode(), key=self._key, digest_size=_DIGEST_BYTES).digest()
        self.sums[table] += int.from_bytes(digest)


def _expected(store: Store, show: Show) -> Iterator[TableRow]:
    """Yield the rows that files and log give, in no order."""
    origins, seen = _origins(store), 0
    for directory in (*_PLACES, states.QUARANTINE):
        for name in store.names(directory):
            artifact_id = name.removesuffix(".md")
            if name == artifact_id or not is_id(artifact_id):
                continue  # a file beside an artifact, or bytes that never became one
            with suppress(FileNotFoundError):  # moved since the names were read
                yield from _rows_in(store, directory, artifact_id)
                origin = origins.get((PLACE, artifact_id))
                if origin is not None:
                    yield "origins", tuple(json.loads(origin))
            seen += 1
            show(seen)


def _origins(store: Store) -> Expected:
    """Return the row of each packet's origin; on disk, because the log may name any number."""
    found = Expected()
    for packet_id, origin in announcements(store):
        found.put((PLACE, packet_id), json.dumps(origin_row(packet_id, origin)))
    return found


def _rows_in(store: Store, directory: str, artifact_id: str) -> Iterator[TableRow]:
    """Yield the rows of one artifact but its origin; of a withdrawn one only the sources."""
    if directory == states.QUARANTINE:
        artifact = quarantined(store, artifact_id)
        if artifact is not None:
            yield from _each("sources", sources_of(artifact_id, artifact))
        return
    data = store.read_file(directory, f"{artifact_id}.md")
    rows = rows_of(artifact_id, states.state_of(directory), data)
    yield "artifacts", rows.artifact
    yield "texts", (artifact_id, *rows.text)
    yield from _each("languages", rows.languages)
    yield from _each("sources", rows.sources)
    yield from _each("contents", rows.contents)
    yield from _each("names", rows.names)


def _each(table: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[TableRow]:
    # The index ignores duplicate rows.
    return ((table, row) for row in set(rows))
