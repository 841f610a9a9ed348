"""A search index over the artifacts of a workspace: derived, rebuildable, never authoritative.

It follows the audit log from the last entry it has seen; if that entry is no longer there
it starts again.  Nothing is decided by what it says: every artifact shown is read again
from its file.

SECURITY
    Holds copies of foreign text in SQLite.  Queries bind values, never build SQL from
    them, and a search query is broken into quoted words, so FTS syntax in it is inert.
    The file belongs to the user alone; `forget` deletes it as a whole.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.analysis import Analysis
from threegate.artifacts.approval import Approval
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import prefix_of, short
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.audit.entry import Entry
from threegate.errors import AuditTampered, StorageFailed, UsageError
from threegate.handoff import states
from threegate.handoff.records import INTENT
from threegate.handoff.store import Store
from threegate.handoff.verify import Fold
from threegate.host.derived import is_broken, open_derived, remove_derived
from threegate.host.places import blobs_of, quarantined
from threegate.untrusted import Untrusted

FILE: Final = "index.sqlite"
VECTORS: Final = "vectors.sqlite"  # of the same texts, so it goes wherever this goes
VERSION: Final = 2
COMMIT_EVERY: Final = 1000
MAX_QUERY_CHARS: Final = 1000
TITLE_CHARS: Final = 300
_WORD: Final = re.compile(r'"([^"]+)"|(\S+)')

_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
PRAGMA secure_delete = ON;
CREATE TABLE IF NOT EXISTS seen (version INTEGER, seq INTEGER, digest TEXT);
CREATE TABLE IF NOT EXISTS artifacts (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, kind TEXT, state TEXT, title TEXT,
    made TEXT, bytes INTEGER, integrity TEXT, confidentiality TEXT);
CREATE INDEX IF NOT EXISTS by_kind ON artifacts (kind, number, state);
CREATE TABLE IF NOT EXISTS sources (child TEXT, parent TEXT, PRIMARY KEY (child, parent))
    WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_parent ON sources (parent);
CREATE TABLE IF NOT EXISTS contents (id TEXT PRIMARY KEY, digest TEXT) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_digest ON contents (digest);
CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5 (
    title, body, tokenize = "unicode61 remove_diacritics 2");
"""

_PAGE: Final = """
SELECT id, state, title, made, bytes, integrity, confidentiality
FROM (SELECT value AS wanted FROM json_each(?1)) JOIN artifacts ON number IN (
    -- The newest of each kind: the first page costs the same however many there are.
    SELECT number FROM artifacts WHERE kind = wanted AND (?2 IS NULL OR state = ?2)
    ORDER BY number DESC LIMIT ?3 + ?4)
ORDER BY number DESC LIMIT ?3 OFFSET ?4
"""
_QUEUE: Final = """
SELECT id, state, title, made, bytes, integrity, confidentiality FROM artifacts
WHERE kind IN ('fr', 'tr') AND state IN (SELECT value FROM json_each(?1))
ORDER BY number LIMIT ?2 OFFSET ?3
"""
_ALIKE: Final = """
SELECT id FROM texts JOIN artifacts ON number = texts.rowid
WHERE texts MATCH ?1 AND kind = ?2 ORDER BY bm25(texts), number LIMIT ?3
"""
_COUNT: Final = """
SELECT count(*) FROM artifacts
WHERE kind IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR state = ?2)
"""
_SEARCH: Final = """
SELECT id, state, artifacts.title, made, bytes, integrity, confidentiality
FROM texts JOIN artifacts ON number = texts.rowid
WHERE texts MATCH ?1 AND kind IN (SELECT value FROM json_each(?2))
ORDER BY bm25(texts, 4.0, 1.0), number LIMIT ?3 OFFSET ?4
"""
_COUNT_FOUND: Final = """
SELECT count(*) FROM texts JOIN artifacts ON number = texts.rowid
WHERE texts MATCH ?1 AND kind IN (SELECT value FROM json_each(?2))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One artifact in a listing; the title is foreign text."""

    id: str
    state: str
    title: str
    made: str
    bytes: int
    integrity: str
    confidentiality: str


class Index:
    """The index of one workspace."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._path = store.root / FILE
        self._db = self._opened()

    def _opened(self) -> sqlite3.Connection:
        return open_derived(self._path, _SCHEMA, lambda: remove_index(self._path.parent))

    def catch_up(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Take in what the log recorded since the last time."""
        try:
            self._follow_log(progress)
        except sqlite3.DatabaseError as exc:
            if not is_broken(exc):
                raise StorageFailed(f"cannot write {FILE}: {exc.sqlite_errorname}") from exc
            self.reset()
            self._follow_log(progress)

    def reset(self) -> None:
        """Delete the file with everything in it; the next `catch_up` fills a new one."""
        # Closed first: SQLite removes the side files of whatever has this name then.
        self._db.close()
        remove_index(self._path.parent)
        self._db = self._opened()

    def _follow_log(self, progress: Callable[[int, int], None] | None) -> None:
        log = self._store.journal.log
        seq, digest = self._seen()
        if seq >= 0 and not _still_there(self._store, seq, digest):
            self.reset()
            seq = -1
        fold, taken = Fold(), 0
        for done, entry in enumerate(log.entries(seq + 1), 1):
            if seq >= 0 and _forgets(entry):
                # Deleted rows leave their words in FTS and WAL pages; a deleted file does not.
                self.reset()
                return self._follow_log(progress)
            fold.feed(entry)
            if fold.problem is not None:  # else a list would lack what came after, and not say so
                raise AuditTampered(fold.problem)
            # Only between batches: a batch that is half read would be half indexed.
            if not fold.pending and done - taken >= COMMIT_EVERY:
                self._take(fold, entry.seq, entry.digest)
                fold, taken = Fold(), done
            if progress is not None and done % COMMIT_EVERY == 0:
                progress(entry.seq, log.head.seq)
        if not fold.pending:
            self._take(fold, log.head.seq, log.head.digest)
        return None

    def page(
        self, kinds: tuple[str, ...], *, state: str | None, limit: int, skip: int
    ) -> list[Row]:
        """Return a page of a listing, newest first."""
        values = (json.dumps(kinds), state, limit, skip)
        return [Row(*row) for row in self._db.execute(_PAGE, values)]

    def count(self, kinds: tuple[str, ...], *, state: str | None) -> int:
        """Return how many artifacts a listing has."""
        return int(self._db.execute(_COUNT, (json.dumps(kinds), state)).fetchone()[0])

    def queue(self, in_states: tuple[str, ...], *, limit: int, skip: int) -> list[Row]:
        """Return a page of the requests in these states, oldest first."""
        values = (json.dumps(in_states), limit, skip)
        return [Row(*row) for row in self._db.execute(_QUEUE, values)]

    def alike(self, words: Iterable[str], kind: str, *, limit: int) -> list[str]:
        """Return artifacts of a kind that hold any of these words, best match first."""
        query = " OR ".join(fts_query(word) for word in words)
        rows = self._db.execute(_ALIKE, (query, kind, limit)) if query else []
        return [str(row[0]) for row in rows]

    def same_content(self, digest: str) -> list[str]:
        """Return the requests that ask for the same, by their `content_digest`."""
        rows = self._db.execute("SELECT id FROM contents WHERE digest = ? ORDER BY id", (digest,))
        return [str(row[0]) for row in rows]

    def search(self, words: str, kinds: tuple[str, ...], *, limit: int, skip: int) -> list[Row]:
        """Return artifacts that hold all words, best match first."""
        values = (fts_query(words), json.dumps(kinds), limit, skip)
        return [Row(*row) for row in self._db.execute(_SEARCH, values)]

    def count_found(self, words: str, kinds: tuple[str, ...]) -> int:
        """Return how many artifacts hold all words."""
        values = (fts_query(words), json.dumps(kinds))
        return int(self._db.execute(_COUNT_FOUND, values).fetchone()[0])

    def derived_from(self, artifact_id: str) -> list[str]:
        """Return everything made from an artifact, itself included, nearest first."""
        query = (
            "WITH RECURSIVE made(id, depth) AS (VALUES (?, 0) UNION "
            "SELECT child, depth + 1 FROM sources JOIN made ON parent = made.id) "
            "SELECT id FROM made GROUP BY id ORDER BY min(depth), id"
        )
        return [str(row[0]) for row in self._db.execute(query, (artifact_id,))]

    def made_from(self, parent: str) -> list[str]:
        """Return the artifacts that name this one, or `blob-` and a digest, as their source."""
        query = "SELECT child FROM sources WHERE parent = ? ORDER BY child"
        return [str(row[0]) for row in self._db.execute(query, (parent,))]

    def holders_of(self, blob: str) -> list[str]:
        """Return the artifacts that name raw bytes by this digest."""
        return self.made_from(f"blob-{blob}")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _seen(self) -> tuple[int, str]:
        row = self._db.execute("SELECT version, seq, digest FROM seen").fetchone()
        if row is None:
            return -1, ""
        if row[0] != VERSION:
            self.reset()
            return -1, ""
        return int(row[1]), str(row[2])

    def _take(self, fold: Fold, seq: int, digest: str) -> None:
        with self._db:
            # At once, not at the first write: else two commands insert the same row.
            self._db.execute("BEGIN IMMEDIATE")
            if self._seen()[0] >= seq:
                return  # another command was faster
            for name in fold.touched:
                if name.endswith(".md"):
                    self._update(name.removesuffix(".md"))
            self._db.execute("DELETE FROM seen")
            self._db.execute("INSERT INTO seen VALUES (?, ?, ?)", (VERSION, seq, digest))

    def _update(self, artifact_id: str) -> None:
        row = self._db.execute(
            "SELECT number FROM artifacts WHERE id = ?", (artifact_id,)
        ).fetchone()
        place = self._store.locate(artifact_id)
        if place is None:
            if row is not None:
                self._db.execute("DELETE FROM artifacts WHERE number = ?", row)
                self._db.execute("DELETE FROM texts WHERE rowid = ?", row)
            self._note_quarantined(artifact_id)
        elif row is not None:
            state = states.state_of(place)
            self._db.execute("UPDATE artifacts SET state = ? WHERE number = ?", (state, row[0]))
        else:
            # Withdrawn or forgotten since we looked: the log says so further on.
            with suppress(UsageError):
                self._insert(artifact_id, states.state_of(place))

    def _insert(self, artifact_id: str, state: str) -> None:
        data = self._store.read_bytes(artifact_id)
        artifact = registry.parse(Untrusted(data))
        labels = registry.labels_of(artifact)
        title, body, made = described(artifact)
        values = (artifact_id, prefix_of(artifact_id), state, title, made, len(data))
        cursor = self._db.execute(
            "INSERT INTO artifacts VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, labels.integrity, labels.confidentiality),
        )
        self._db.execute(
            "INSERT INTO texts (rowid, title, body) VALUES (?, ?, ?)",
            (cursor.lastrowid, title, body),
        )
        self._note_sources(artifact_id, artifact)
        if isinstance(artifact, FetchRequest | ToolRequest):
            digest = registry.content_digest(artifact)
            self._db.execute("INSERT OR REPLACE INTO contents VALUES (?, ?)", (artifact_id, digest))

    def _note_quarantined(self, artifact_id: str) -> None:
        """Keep what a withdrawn artifact was made from: what was made from it may still wait."""
        artifact = quarantined(self._store, artifact_id)
        if artifact is not None:
            self._note_sources(artifact_id, artifact)

    def _note_sources(self, artifact_id: str, artifact: Artifact) -> None:
        parents = [*artifact.parents(), *(f"blob-{digest}" for digest in blobs_of(artifact))]
        pairs = [(artifact_id, parent) for parent in parents]
        self._db.executemany("INSERT OR IGNORE INTO sources VALUES (?, ?)", pairs)


def remove_index(root: Path) -> None:
    """Delete the index; the next use makes it anew."""
    for name in (FILE, VECTORS):
        remove_derived(root / name)


def fts_query(words: str) -> str:
    """Return an FTS5 query for all words and "phrases" in `words`, as quoted strings only."""
    if len(words) > MAX_QUERY_CHARS:
        raise UsageError(f"query of {len(words)} characters, limit {MAX_QUERY_CHARS}")
    try:
        words.encode("utf-8")
    except UnicodeEncodeError as exc:  # bytes on the command line that are no text
        raise UsageError("the query is not valid text") from exc
    found = [phrase or word for phrase, word in _WORD.findall(words.replace("\0", " "))]
    terms = ['"' + term.replace('"', '""') + '"' for term in found]
    if not terms:
        raise UsageError("the query has no words")
    return " ".join(terms)


def described(artifact: Artifact) -> tuple[str, str, str]:
    """Return title, searchable text and time of an artifact; all foreign text."""
    if isinstance(artifact, ResearchPacket):
        words = [*artifact.authors, *(i.value for i in artifact.identifiers), *artifact.texts]
        title = artifact.title.open_for_display() or artifact.reference.open_for_display()
        return title[:TITLE_CHARS], _joined(words), artifact.retrieved
    if isinstance(artifact, FetchRequest):
        title = artifact.references[0].open_for_display()
        return (
            title[:TITLE_CHARS],
            _joined([*artifact.references, artifact.purpose]),
            artifact.created,
        )
    if isinstance(artifact, ToolRequest):
        body = _joined([artifact.purpose, artifact.code, artifact.risks, *artifact.argv])
        return _first_line(artifact.purpose.open_for_display()), body, artifact.created
    if isinstance(artifact, Analysis):
        body = _joined([artifact.question, artifact.answer, *artifact.claim_texts])
        return _first_line(artifact.question.open_for_display()), body, artifact.created
    if isinstance(artifact, Approval):
        return f"approves {artifact.request}", _joined([artifact.statement]), artifact.not_before
    texts = [artifact.value_text, artifact.stdout_text, artifact.stderr_text]
    return f"{artifact.exit}, of {short(artifact.request)}", _joined(texts), artifact.started


def _joined(parts: Iterable[Untrusted[str]]) -> str:
    return "\n".join(part.open_for_display() for part in parts)


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:TITLE_CHARS]


def _forgets(entry: Entry) -> bool:
    data = entry.data
    return entry.kind == INTENT and data["act"] == "remove" and data["name"].endswith(".md")


def _still_there(store: Store, seq: int, digest: str) -> bool:
    log = store.journal.log
    if seq > log.head.seq:
        return False
    entry = next(iter(log.entries(seq)), None)
    return entry is not None and entry.digest == digest
