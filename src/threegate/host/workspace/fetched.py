"""Cache of earlier fetches and imports: validators of responses, packets of plans and of files.

Derived, sealed (`derived.py`) and deletable: without it every question is asked again in full.  The
response to an unchanged URL is read from the retrieval record stored under its digest; a packet
counts only if it is still in its state.

SECURITY
    Holds header values that servers chose, in the forms the protocol allows.  Queries bind values.
    An edited file is discarded before use: a forged row could pass an old packet for a fresh one,
    which hides a retraction.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.references import Question
from threegate.audit.entry import Entry, time_of
from threegate.base.errors import HandoffTampered, ProtocolBroken, StorageFailed, disk_errors
from threegate.base.forms import REDACTED
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer, RetrievalRecord, parse_record
from threegate.gates.fetch.retrieve.messages import Got
from threegate.handoff import states
from threegate.handoff.admission import FETCH, IMPORT
from threegate.handoff.records import INTENT
from threegate.handoff.store import Store
from threegate.host.workspace.derived import Derived, note_rebuilt, remove_derived
from threegate.policy.hosts import parse_url

FILE: Final = "fetched.sqlite"
OP: Final = FETCH  # of the batch that stores a packet
VERSION: Final = 2
_KEY_LEFT_OUT: Final = re.compile(rf"[?&][^?&=]+={REDACTED}\Z")
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS seen (version INTEGER, seq INTEGER, digest TEXT);
CREATE TABLE IF NOT EXISTS kept (
    url TEXT, accept TEXT, level TEXT, etag TEXT, last_modified TEXT, record TEXT, number INTEGER,
    PRIMARY KEY (url, accept, level)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS packets (
    plan TEXT, packet TEXT, checked TEXT, PRIMARY KEY (plan, checked, packet)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    root TEXT, level TEXT, location TEXT, packet TEXT, sha256 TEXT,
    PRIMARY KEY (root, level, location)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS files_by_bytes ON files (sha256, level);
"""


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """A stored answer, with the validators of a conditional request."""

    etag: str | None
    last_modified: str | None
    answer: KeptAnswer


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """The newest packet of an imported file, and the digest of its bytes."""

    packet: str
    sha256: str


class FetchCache:
    """The file; used by one thread."""

    def __init__(self, store: Store, seals: Path | None = None) -> None:
        self._store = store
        self._file = Derived(store.root / FILE, SCHEMA, seals)
        with _errors():
            self._catch_up()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def known(self, question: Question, level: str) -> KnownAnswer | None:
        """Return an earlier answer to this question, if its bytes are stored here."""
        with _errors():
            row = (
                self._sound()
                .execute(
                    "SELECT etag, last_modified, record, number FROM kept"
                    " WHERE url = ? AND accept = ? AND level = ?",
                    (question.shown, question.accept, level),
                )
                .fetchone()
            )
        answer = None if row is None else self._recorded(question, level, row[2], row[3])
        return None if answer is None else KnownAnswer(row[0], row[1], answer)

    def _recorded(
        self, question: Question, level: str, digest: Any, number: Any
    ) -> KeptAnswer | None:
        """Return the answer from its record, if it answered this very question."""
        try:
            record = self._record(str(digest))
            answer = record.answers[int(number)]
        except (FileNotFoundError, HandoffTampered, ProtocolBroken, IndexError, ValueError):
            return None  # forgotten or edited: ask again in full
        same = is_spelling(answer.url, question.shown) and not answer.hops
        usable = same and record.confidentiality == level and self._store.has_blob(answer.sha256)
        return answer if usable else None

    def _record(self, digest: str) -> RetrievalRecord:
        if states.NAMES[states.BLOBS].match(digest) is None:  # a name of a file from here on
            raise ValueError("no digest")
        return parse_record(Untrusted(self._store.read_file(states.BLOBS, digest)))

    def keep(
        self, question: Question, got: Got, record: RetrievalRecord, answer: KeptAnswer
    ) -> None:
        """Store the validators of an answer, if it has any."""
        key = (question.shown, question.accept, record.confidentiality)
        with _errors(), self._writing() as db:
            which = "url = ? AND accept = ? AND level = ?"
            db.execute(f"DELETE FROM kept WHERE {which}", key)  # noqa: S608
            if got.etag is not None or got.last_modified is not None:
                where = (sha256_hex(record.to_bytes()), record.answers.index(answer))
                row = (*key, got.etag, got.last_modified, *where)
                db.execute("INSERT INTO kept VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def newest(self, plan: str, *, since: str) -> str | None:
        """Return the newest packet that the same questions led to, not older than `since`."""
        with _errors():
            rows = (
                self._sound()
                .execute(
                    "SELECT packet FROM packets WHERE plan = ? AND checked >= ?"
                    " ORDER BY checked DESC LIMIT 16",
                    (plan, since),
                )
                .fetchall()
            )
        found = (packet for (packet,) in rows if self._store.locate(packet) is not None)
        return next(found, None)

    def made(self, plan: str, packet: str, checked: str) -> None:
        """Store that these questions led to a packet at this time."""
        with _errors(), self._writing() as db:
            row = (plan, packet, checked)
            db.execute("INSERT OR IGNORE INTO packets VALUES (?, ?, ?)", row)

    def files_below(self, root: str, level: str) -> dict[str, ImportedFile]:
        """Return the newest packet of every file that was imported from a root, by location."""
        with _errors():
            rows = self._sound().execute(
                "SELECT location, packet, sha256 FROM files WHERE root = ? AND level = ?",
                (root, level),
            )
            return {where: ImportedFile(packet, digest) for where, packet, digest in rows}

    def packet_of_bytes(self, digest: str, level: str) -> str | None:
        """Return a packet that was imported from these bytes, if one is still here."""
        with _errors():
            rows = (
                self._sound()
                .execute(
                    "SELECT packet FROM files WHERE sha256 = ? AND level = ? LIMIT 16",
                    (digest, level),
                )
                .fetchall()
            )
        return next((one for (one,) in rows if self._store.locate(one) is not None), None)

    def file_of(self, packet: str) -> tuple[str, str, str] | None:
        """Return root, level and location of the file whose newest packet this is."""
        query = "SELECT root, level, location FROM files WHERE packet = ?"
        with _errors():
            row = self._sound().execute(query, (packet,)).fetchone()
        return None if row is None else (row[0], row[1], row[2])

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._sound()
        with self._file.writing() as db:
            yield db

    def _sound(self) -> sqlite3.Connection:
        """Return the file; one that was edited since the last use is rebuilt first."""
        if not self._file.is_sound():
            self._catch_up()
        return self._file.db

    def _catch_up(self) -> None:
        """Take in from the log what any command stored since the last look."""
        self._note_rebuilt()
        log = self._store.journal.log
        with self._file.writing() as db:
            seen = db.execute("SELECT version, seq, digest FROM seen").fetchone()
            start = 0
            if seen is not None and seen[0] == VERSION and seen[1] < log.size:
                start = seen[1]
            entries = log.entries(start)
            first = next(entries, None)
            if first is not None and start and first.digest != seen[2]:  # another history
                db.execute("DELETE FROM packets")
                db.execute("DELETE FROM files")
                entries = log.entries(0)
            for entry in entries:
                self._take(db, entry)
            head = log.head
            db.execute("DELETE FROM seen")
            db.execute("INSERT INTO seen VALUES (?, ?, ?)", (VERSION, head.seq, head.digest))

    def _note_rebuilt(self) -> None:
        why, self._file.discarded = self._file.discarded, None
        note_rebuilt(self._store, FILE, why)

    def _take(self, db: sqlite3.Connection, entry: Entry) -> None:
        data: Any = entry.data
        if entry.kind != INTENT or data.get("op") not in (OP, IMPORT):
            return
        detail, name = data.get("detail"), str(data.get("name"))
        if not isinstance(detail, dict) or not name.startswith("rp-"):
            return
        if data["op"] == IMPORT:
            both = str(detail.get("root")), str(detail.get("level"))
            rows = [(*both, *map(str, one)) for one in detail.get("files", ())]
            db.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", rows)
        else:
            row = (str(detail.get("plan")), name.removesuffix(".md"), str(detail.get("checked")))
            db.execute("INSERT OR IGNORE INTO packets VALUES (?, ?, ?)", row)


def is_spelling(reported: str, asked: str) -> bool:
    """Tell whether a URL is a reported form of `asked`: with a path, or without a key."""
    try:
        plain = parse_url(asked).plain
    except ValueError:
        return False
    return reported == plain or _KEY_LEFT_OUT.sub("", reported) == plain


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        hint = f"delete {FILE} in the workspace; it is built again"
        raise StorageFailed(f"{FILE} cannot be used", hint=hint) from exc


def remove_cache(root: Path) -> None:
    """Delete the file; the next run fills a new one from the log."""
    with disk_errors(f"delete {FILE}"):
        remove_derived(root / FILE)


def not_older(now: int, max_age_seconds: int) -> str:
    """Return the earliest time of a packet that is young enough; a huge age means any time."""
    return time_of(max(0, now - max_age_seconds))


def plan_of(urls: list[str], *, level: str) -> str:
    """Return a digest that identifies these questions at this level of confidentiality."""
    return sha256_hex(json.dumps([level, *urls]).encode())
