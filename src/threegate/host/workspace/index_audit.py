"""Compare the kept index with the files it was computed from, as `audit verify` does.

SECURITY
    Reads a database that somebody may have edited: a copy of it, without its side files.
    Changes nothing in the workspace.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from threegate.artifacts.ids import PREFIXES, is_id
from threegate.base.errors import UsageError
from threegate.handoff import states
from threegate.handoff.store import Store
from threegate.handoff.verify import Finding
from threegate.host.workspace.derived import UNSEALED, is_ours, why_unusable
from threegate.host.workspace.fetched import FILE as FETCHED
from threegate.host.workspace.index import FILE, SCHEMA, Index
from threegate.host.workspace.index_rows import origin_row, rows_of, sources_of
from threegate.host.workspace.origin import announcements
from threegate.host.workspace.places import quarantined

PLACE: Final = "workspace"
OTHER: Final = "is not what files and log give; it can be deleted, it is built again"

_ROWS: Final = {
    "artifacts": "SELECT id, kind, state, title, made, bytes, integrity, confidentiality"
    " FROM artifacts WHERE id = ?",
    "texts": "SELECT texts.title, texts.body FROM texts JOIN artifacts ON number = texts.rowid"
    " WHERE id = ?",
    "sources": "SELECT * FROM sources WHERE child = ?",
    "contents": "SELECT * FROM contents WHERE id = ?",
    "names": "SELECT * FROM names WHERE id = ?",
    "origins": "SELECT * FROM origins WHERE id = ?",
}

Show = Callable[[int], None]


def verify_derived(store: Store, seals: Path | None, show: Show) -> list[Finding]:
    """Return a finding for each derived file that somebody edited.

    One whose update was interrupted (a kill) is nobody's edit: it gives a stray finding.
    """
    found = _looked_at(store, seals, show)
    if any(not one.stray for one in found):
        # Another command may have written between two looks: nobody does under the lock.
        with store.locked():
            found = _looked_at(store, seals, show)
    return found


def _looked_at(store: Store, seals: Path | None, show: Show) -> list[Finding]:
    problems = {FETCHED: why_unusable(store.root / FETCHED, seals)}
    with closing(Index(store)) as index:
        try:
            problems[FILE] = why_unusable(store.root / FILE, seals, index.database)
            same = problems[FILE] is not None or _is_right(store, index, show)
        except sqlite3.DatabaseError:
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
    return _is_same(store, index.database, show)


def _is_same(store: Store, db: sqlite3.Connection, show: Show) -> bool:
    totals: Counter[str] = Counter()
    for number, expected in enumerate(_expected(store), 1):
        show(number)
        for table, (artifact_id, rows) in expected.items():
            found = Counter(db.execute(_ROWS[table], (artifact_id,)).fetchall())
            if found != Counter(rows):
                return False
            totals[table] += len(rows)
    # A row of something that is not here belongs to nobody that was looked at.
    return all(
        db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == totals[table]  # noqa: S608
        for table in _ROWS
    )


def _expected(store: Store) -> Iterator[dict[str, tuple[str, list[tuple[Any, ...]]]]]:
    """Yield what each artifact has in each table."""
    logged = announcements(store)

    def origin(artifact_id: str) -> list[tuple[Any, ...]]:
        found = logged.get(artifact_id)
        return [] if found is None else [origin_row(artifact_id, found)]

    for artifact_id in (one for prefix in PREFIXES for one in sorted(store.ids(prefix))):
        try:
            place = store.locate(artifact_id)
            rows = rows_of(artifact_id, states.state_of(place or ""), store.read_bytes(artifact_id))
        except UsageError:
            continue  # withdrawn since the names were read
        tables = {
            "artifacts": [rows.artifact],
            "texts": [rows.text],
            "sources": rows.sources,
            "contents": rows.contents,
            "names": rows.names,
            "origins": origin(artifact_id),
        }
        yield {table: (artifact_id, list(set(found))) for table, found in tables.items()}
    for name in sorted(store.names(states.QUARANTINE)):
        artifact_id = name.removesuffix(".md")
        if name.endswith(".md") and is_id(artifact_id):
            artifact = quarantined(store, artifact_id)
            if artifact is not None:
                sources = list(set(sources_of(artifact_id, artifact)))
                yield {
                    "sources": (artifact_id, sources),
                    "origins": (artifact_id, origin(artifact_id)),
                }
