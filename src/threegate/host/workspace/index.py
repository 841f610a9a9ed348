"""Search index over the artifacts of a workspace: derived, sealed, rebuilt when in doubt.

It follows the audit log from the last entry it has seen; if that entry is no longer there it starts
again.  `withdraw`, `forget` and the retraction labels depend on its tables of sources and
identifiers, so an edited file is found by its seal (`derived.py`) before it is used.

SECURITY
    Holds copies of foreign text in SQLite.  Queries bind values and never build SQL from them.
    Forgotten text is removed and the file rewritten.  If this module is wrong, a retraction is
    missed, or something made from a withdrawn artifact stays.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unicodedata import unidata_version

from threegate.artifacts.ids import prefix_of, short
from threegate.audit.entry import Entry
from threegate.base.errors import AuditTampered, HandoffTampered, StorageFailed, UsageError
from threegate.handoff import states
from threegate.handoff.records import INTENT
from threegate.handoff.store import Store
from threegate.handoff.verify import Fold
from threegate.host.words.folding import cut
from threegate.host.words.query import term_of, typed_terms
from threegate.host.words.stems import RELEASE
from threegate.host.workspace import index_rows as queries
from threegate.host.workspace.derived import (
    DAMAGED,
    Derived,
    is_broken,
    note_rebuilt,
    remove_derived,
)
from threegate.host.workspace.index_rows import SCHEMA, origin_row, rows_of, sources_of
from threegate.host.workspace.packets import UNKNOWN, Name, PacketOrigin, announced, with_bytes
from threegate.host.workspace.places import quarantined
from threegate.host.workspace.vectors import drop_vectors

FILE: Final = "index.sqlite"
# Another release of the stemmers or of Unicode's tables may make other words of the same text.
VERSION: Final = f"6, stems {RELEASE}, Unicode {unidata_version}"
COMMIT_EVERY: Final = 1000
_OF_ARTIFACT: Final = {"names": "id", "contents": "id", "languages": "id", "sources": "child"}
MAX_TRIES: Final = 20  # while other commands move the files that are being read


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One artifact in a listing; the title is foreign text."""

    id: str
    state: str
    title: str
    made: str
    bytes: int
    integrity: str
    confidentiality: str


class Index:
    """The index of one workspace; without a directory for seals it is a temporary one."""

    def __init__(self, store: Store, seals: Path | None = None) -> None:
        self._store, self._seals = store, seals
        self._file = Derived(store.root / FILE, SCHEMA, seals)
        self.rebuilt: str | None = None  # why a file that was here was not used

    @property
    def database(self) -> sqlite3.Connection:
        """The database itself, for comparing it."""
        return self._file.db

    @property
    def _db(self) -> sqlite3.Connection:
        return self._file.db

    def catch_up(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Take in new entries of the log; an edited file is rebuilt first."""
        self._file.is_sound()
        self._note_rebuilt()
        for _ in range(MAX_TRIES):
            try:
                self._follow_log(progress)
                return
            except sqlite3.DatabaseError as exc:
                if not is_broken(exc):
                    raise StorageFailed(f"cannot write {FILE}: {exc}") from exc
                self._file.discard(DAMAGED)
                self._note_rebuilt()
            except _MissingError as exc:
                self._refuse_missing(exc.artifact_id)
        raise StorageFailed(f"cannot write {FILE}: the workspace keeps changing")

    def _refuse_missing(self, artifact_id: str) -> None:
        """Raise `HandoffTampered` if a file is missing that the log has.

        An index without it would lack a retraction, or what was made from a withdrawn packet.
        """
        with self._store.locked() as journal:  # nothing moves under the lock
            fold = Fold()
            for entry in journal.log.entries(self._seen()[0] + 1):
                fold.feed(entry)
            touched = {artifact_id: fold.touched.get(f"{artifact_id}.md", "")}
            place = _place(self._store, artifact_id, touched)
            if place is not None and self._store.locate(artifact_id) is None:
                hint = "`threegate audit verify` names what is missing; restore it from a backup"
                raise HandoffTampered(f"{short(artifact_id)} is missing from {place}", hint=hint)

    def is_sound(self) -> bool:
        """Tell whether the file is as ThreeGate left it; otherwise `catch_up` fills a new one."""
        return self._file.is_sound()

    def reset(self) -> None:
        """Delete the file; the next `catch_up` fills a new one."""
        self._file.discard("")
        self._file.discarded = None

    def _note_rebuilt(self) -> None:
        why, self._file.discarded = self._file.discarded, None
        self.rebuilt = why or self.rebuilt
        note_rebuilt(self._store, FILE, why)

    def _follow_log(self, progress: Callable[[int, int], None] | None) -> None:
        log = self._store.journal.log
        seq, digest = self._seen()
        if seq >= 0 and not _still_there(self._store, seq, digest):
            self.reset()
            seq = -1
        fold, taken, forgets, origins = Fold(), 0, False, dict[str, PacketOrigin]()
        for done, entry in enumerate(log.entries(seq + 1), 1):
            if not forgets and _forgets(entry):
                forgets = True
                drop_vectors(self._store, self._seals)
            fold.feed(entry)
            if (one := announced(entry)) is not None:
                origins[one[0]] = one[1]
            if fold.problem is not None:  # otherwise later entries would be missing without notice
                raise AuditTampered(fold.problem)
            # Only between batches: a batch that is half read would be half indexed.
            if not fold.pending and done - taken >= COMMIT_EVERY:
                head = (entry.seq, entry.digest)
                self._take(fold, origins, head, forgets=forgets and seq >= 0, last=False)
                fold, taken, origins = Fold(), done, {}
            if progress is not None and done % COMMIT_EVERY == 0:
                progress(entry.seq, log.head.seq)
        if not fold.pending and log.head.seq > seq:
            head = (log.head.seq, log.head.digest)
            self._take(fold, origins, head, forgets=forgets and seq >= 0)

    def page(
        self, kinds: tuple[str, ...], *, state: str | None, limit: int, skip: int
    ) -> list[IndexRow]:
        """Return a page of a listing, newest first."""
        values = (json.dumps(kinds), state, limit, skip)
        return [IndexRow(*row) for row in self._rows(queries.PAGE, values)]

    def count(self, kinds: tuple[str, ...], *, state: str | None) -> int:
        """Return how many artifacts a listing has."""
        return int(self._rows(queries.COUNT, (json.dumps(kinds), state)).fetchone()[0])

    def queue(self, in_states: tuple[str, ...], *, limit: int, skip: int) -> list[IndexRow]:
        """Return a page of the requests in these states, oldest first."""
        values = (json.dumps(in_states), limit, skip)
        return [IndexRow(*row) for row in self._rows(queries.QUEUE, values)]

    def alike(self, words: Iterable[str], kind: str, *, limit: int) -> list[str]:
        """Return artifacts of a kind that hold any of these words, best match first."""
        held = self._languages()
        terms = (term_of(cut(word), held) for word in words)
        query = " OR ".join(term.fts() for term in terms if term is not None)
        rows = self._rows(queries.ALIKE, (query, kind, limit)) if query else []
        return [str(row[0]) for row in rows]

    def same_content(self, digest: str) -> list[str]:
        """Return the requests that ask for the same, by their `content_digest`."""
        rows = self._rows("SELECT id FROM contents WHERE digest = ? ORDER BY id", (digest,))
        return [str(row[0]) for row in rows]

    def search(
        self, words: str, kinds: tuple[str, ...], *, limit: int, skip: int
    ) -> list[IndexRow]:
        """Return artifacts that hold all words, best match first."""
        values = (self._query(words), json.dumps(kinds), limit, skip)
        return [IndexRow(*row) for row in self._rows(queries.SEARCH, values)]

    def count_found(self, words: str, kinds: tuple[str, ...]) -> int:
        """Return how many artifacts hold all words."""
        values = (self._query(words), json.dumps(kinds))
        return int(self._rows(queries.COUNT_FOUND, values).fetchone()[0])

    def _query(self, words: str) -> str:
        """Return an FTS5 query for all words and "phrases"."""
        return " AND ".join(term.fts() for term in typed_terms(words, self._languages()))

    def _languages(self) -> list[str]:
        """Return the languages of the texts, other than English."""
        return [str(row[0]) for row in self._rows(queries.LANGUAGES, ())]

    def derived_from(self, artifact_id: str) -> list[str]:
        """Return everything made from an artifact, itself included, nearest first."""
        query = (
            "WITH RECURSIVE made(id, depth) AS (VALUES (?, 0) UNION "
            "SELECT child, depth + 1 FROM sources JOIN made ON parent = made.id) "
            "SELECT id FROM made GROUP BY id ORDER BY min(depth), id"
        )
        return [str(row[0]) for row in self._rows(query, (artifact_id,))]

    def made_from(self, parent: str) -> list[str]:
        """Return the artifacts that name this one, or `blob-` and a digest, as their source."""
        query = "SELECT child FROM sources WHERE parent = ? ORDER BY child"
        return [str(row[0]) for row in self._rows(query, (parent,))]

    def holders_of(self, blob: str) -> list[str]:
        """Return the artifacts that name raw bytes by this digest."""
        return self.made_from(f"blob-{blob}")

    def same_work(self, names: Iterable[Name]) -> dict[str, bool]:
        """Return all packets of a work, by its identifiers, and whether each says `retracted`."""
        rows = self._rows(queries.SAME_WORK, (json.dumps(list(names)),))
        return {str(row[0]): bool(row[1]) for row in rows}

    def works_among(self, ids: Iterable[str]) -> dict[str, set[str]]:
        """Return for each of these packets those of them that are of its work, itself included."""
        found: dict[str, set[str]] = {}
        for root, packet_id in self._rows(queries.WORKS_AMONG, (json.dumps(list(ids)),)):
            found.setdefault(str(root), set()).add(str(packet_id))
        return found

    def retracted(self) -> list[str]:
        """Return the packets that say their work was retracted."""
        rows = self._rows("SELECT DISTINCT id FROM names WHERE retracted ORDER BY id", ())
        return [str(row[0]) for row in rows]

    def origin(self, packet_id: str) -> PacketOrigin:
        """Return the origin of a packet according to the log; `brought` if it is not in the log."""
        query = "SELECT name, by, consistent FROM origins WHERE id = ?"
        row = self._rows(query, (packet_id,)).fetchone()
        if row is None:
            return UNKNOWN
        origin = PacketOrigin(str(row[0]), str(row[1]), bool(row[2]))
        named = "SELECT parent FROM sources WHERE child = ? AND parent GLOB 'blob-*'"
        blobs = (str(one[0]) for one in self._rows(named, (packet_id,)))
        return with_bytes(self._store, origin, blobs)

    def _rows(self, query: str, values: Sequence[Any]) -> sqlite3.Cursor:
        # Minutes may have passed since `catch_up`: a model answered, a person signed.
        if not self._file.is_sound():
            self.catch_up()
        return self._db.execute(query, values)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _seen(self) -> tuple[int, str]:
        row = self._db.execute("SELECT version, seq, digest FROM seen").fetchone()
        if row is None:
            return -1, ""
        if row[0] != VERSION:
            self.reset()
            return -1, ""
        return int(row[1]), str(row[2])

    def _take(
        self,
        fold: Fold,
        origins: Mapping[str, PacketOrigin],
        head: tuple[int, str],
        *,
        forgets: bool,
        last: bool = True,
    ) -> None:
        seq, digest = head
        touched = {name[:-3]: to for name, to in fold.touched.items() if name.endswith(".md")}
        rows = [origin_row(packet_id, origin) for packet_id, origin in origins.items()]
        with self._file.writing(last=last, large=forgets) as db:
            if self._seen()[0] >= seq:
                return  # another command was faster
            db.executemany("INSERT OR REPLACE INTO origins VALUES (?, ?, ?, ?)", rows)
            # An announced file that never came has no row either.
            for artifact_id in dict.fromkeys([*touched, *origins]):
                self._update(artifact_id, _place(self._store, artifact_id, touched))
            if not forgets:
                self._write_seen(seq, digest)
                return
            # Deleted words stay in FTS segments until these are merged.
            db.execute("INSERT INTO texts (texts) VALUES ('optimize')")
        # Deleted rows leave their bytes in free pages; rewriting the file removes them.  The entry
        # is marked as seen only then: after a crash in between, all of this is done again.
        self._file.rewrite()
        with self._file.writing():
            self._write_seen(seq, digest)

    def _write_seen(self, seq: int, digest: str) -> None:
        self._db.execute("DELETE FROM seen")
        self._db.execute("INSERT INTO seen VALUES (?, ?, ?)", (VERSION, seq, digest))

    def _update(self, artifact_id: str, place: str | None) -> None:
        """Update the rows of an artifact to its place in the log."""
        row = self._db.execute(
            "SELECT number FROM artifacts WHERE id = ?", (artifact_id,)
        ).fetchone()
        if place is None:
            if row is not None:
                self._db.execute("DELETE FROM artifacts WHERE number = ?", row)
                self._db.execute("DELETE FROM texts WHERE rowid = ?", row)
            for table, column in _OF_ARTIFACT.items():
                query = f"DELETE FROM {table} WHERE {column} = ?"  # noqa: S608  # our own names
                self._db.execute(query, (artifact_id,))
            self._note_quarantined(artifact_id)
        elif row is not None:
            state = states.state_of(place)
            self._db.execute("UPDATE artifacts SET state = ? WHERE number = ?", (state, row[0]))
        else:
            try:
                self._insert(artifact_id, states.state_of(place))
            except UsageError as exc:  # hidden, or withdrawn since the log was read
                raise _MissingError(artifact_id) from exc

    def _insert(self, artifact_id: str, state: str) -> None:
        rows = rows_of(artifact_id, state, self._store.read_bytes(artifact_id))
        cursor = self._db.execute(
            "INSERT INTO artifacts VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", rows.artifact
        )
        self._db.execute(
            "INSERT INTO texts (rowid, title, body, compounds) VALUES (?, ?, ?, ?)",
            (cursor.lastrowid, *rows.text),
        )
        self._insert_all("languages", rows.languages)
        self._insert_all("sources", rows.sources)
        self._insert_all("contents", rows.contents)
        self._insert_all("names", rows.names)

    def _insert_all(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            places = ", ".join("?" * len(rows[0]))
            query = f"INSERT OR IGNORE INTO {table} VALUES ({places})"  # noqa: S608  # our own names
            self._db.executemany(query, rows)

    def _note_quarantined(self, artifact_id: str) -> None:
        """Keep sources and origin of a withdrawn artifact: others made from it may still wait."""
        artifact = quarantined(self._store, artifact_id)
        if artifact is not None:
            self._insert_all("sources", sources_of(artifact_id, artifact))
        else:
            self._db.execute("DELETE FROM origins WHERE id = ?", (artifact_id,))


class _MissingError(Exception):
    """A file was not there when its rows were made."""

    def __init__(self, artifact_id: str) -> None:
        super().__init__(artifact_id)
        self.artifact_id = artifact_id


def _place(store: Store, artifact_id: str, touched: Mapping[str, str]) -> str | None:
    """Return the directory in which the log has an artifact, or None."""
    if artifact_id not in touched:  # the log moved it at another time
        return store.locate(artifact_id)
    place = touched[artifact_id]
    return place if place in states.ARTIFACT_STATES[prefix_of(artifact_id)] else None


def remove_index(root: Path) -> None:
    """Delete the index; the next use builds it again."""
    remove_derived(root / FILE)


def _forgets(entry: Entry) -> bool:
    data = entry.data
    return entry.kind == INTENT and data["act"] == "remove" and data["name"].endswith(".md")


def _still_there(store: Store, seq: int, digest: str) -> bool:
    log = store.journal.log
    if seq > log.head.seq:
        return False
    entry = next(iter(log.entries(seq)), None)
    return entry is not None and entry.digest == digest
