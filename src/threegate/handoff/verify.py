"""Compare the disk with what the log says must be there.

SECURITY
    Reads a workspace that somebody may have edited.  Changes nothing and raises nothing
    for what it finds; every difference becomes a finding.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from threegate.audit.entry import Entry
from threegate.base.errors import AuditTampered, HandoffTampered, StorageFailed
from threegate.handoff import states
from threegate.handoff.disk import FILE_MODE, Directories, digest_file
from threegate.handoff.journal import MAX_FILE_BYTES
from threegate.handoff.records import (
    INTENT,
    OUTCOME,
    RECOVERED,
    Intent,
    IntentOutcome,
    StateUsage,
    parse_intent,
    parse_outcome,
)

# The expected files according to the log (digest, origin), in bounded memory.
#
# Kept in a nameless temporary SQLite database: the file is unlinked when it is opened, in the
# system's temporary directory, and only pages that do not fit the cache are written. Memory does
# not grow with the workspace, and a read-only workspace can be verified.

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
    """Turns SQLite errors into ours; a plain class, because it is entered often."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, exc: BaseException | None, __: object) -> None:
        if isinstance(exc, sqlite3.Error):
            hint = "is there room in the system's temporary directory?"
            raise StorageFailed("cannot keep the list of files", hint=hint) from exc


_ERRORS: Final = _Errors()


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference; a stray file is one that is not ours, which is not tampering."""

    directory: str
    name: str
    problem: str
    stray: bool = False
    mode: bool = False  # nothing but the mode differs


class Fold:
    """The changes of files according to the log, entry by entry."""

    def __init__(self) -> None:
        # Names in the order the log first mentions them, and where each lies now ("": nowhere).
        self.touched: dict[str, str] = {}
        self.usage = StateUsage()
        self.pending: list[Intent] = []
        self.problem: str | None = None  # the first entry the host would not have written

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        try:
            if entry.kind == INTENT:
                self.pending.append(parse_intent(entry))
            elif entry.kind in (OUTCOME, RECOVERED):
                self._close(parse_outcome(entry), entry.seq)
        except AuditTampered as exc:
            self.problem = self.problem or exc.message

    def _close(self, outcome: IntentOutcome, seq: int) -> None:
        spans = [(intent.seq, intent.number) for intent in self.pending]
        if not spans or (outcome.first, 0) != spans[0] or outcome.last != spans[-1][0]:
            raise AuditTampered(f"audit log entry {seq} closes a change that was not announced")
        if outcome.forward:
            for intent in self.pending:
                self._apply(intent)
        self.pending, self.usage = [], outcome.usage

    def _apply(self, intent: Intent) -> None:
        self.touched[intent.name] = intent.to


class FileFold(Fold):
    """Where every file lies according to the log, and its digest; in bounded memory."""

    def __init__(self) -> None:
        super().__init__()
        self.files = Expected()

    def _apply(self, intent: Intent) -> None:
        digest = intent.sha256
        if intent.source:
            digest = self.files.pop((intent.source, intent.name))
        if intent.to:
            self.files.put((intent.to, intent.name), digest)


def verify_files(
    directories: Directories, fold: FileFold, progress: Callable[[int], None] | None = None
) -> Iterator[Finding]:
    """Yield every difference between the disk and the log."""
    if fold.problem is not None:
        yield Finding("audit", "log", fold.problem)
    seen, differs, found = 0, False, StateUsage()
    for directory in states.NAMES:
        findings: list[Finding] = []
        present = 0
        with os.scandir(directories.fd(directory)) as entries:
            for entry in entries:
                digest = _expected(fold, directory, entry.name)
                present += digest is not None
                findings += _verify_file(directories, directory, entry.name, digest, found)
                seen += 1
                if progress is not None:
                    progress(seen)
        if present < fold.files.count(directory):
            findings += _missing(directories, fold, directory)
        yield from sorted(findings, key=lambda finding: finding.name)
        differs = differs or any(not finding.stray for finding in findings)
    # With another difference, wrong totals are only its consequence.
    if not differs and not fold.pending and found != fold.usage:
        yield Finding(states.HANDOFF, "usage", "the log counts other totals than lie on disk")


def _expected(fold: FileFold, directory: str, name: str) -> str | None:
    ours = states.NAMES[directory].match(name) is not None
    return fold.files.get((directory, name)) if ours else None


def _missing(directories: Directories, fold: FileFold, directory: str) -> Iterator[Finding]:
    for name in fold.files.names(directory):
        try:
            os.stat(name, dir_fd=directories.fd(directory), follow_symlinks=False)
        except FileNotFoundError:
            yield Finding(directory, name, "is missing")


def _verify_file(
    directories: Directories, directory: str, name: str, digest: str | None, found: StateUsage
) -> Iterator[Finding]:
    if states.NAMES[directory].match(name) is None:
        yield Finding(directory, name, "is not a file of ours", stray=True)
        return
    try:
        read = digest_file(directories.fd(directory), name, max_bytes=MAX_FILE_BYTES)
    except (HandoffTampered, StorageFailed) as exc:
        yield Finding(directory, name, exc.message)
        return
    except FileNotFoundError:
        yield Finding(directory, name, "vanished while it was read")
        return
    if directory != states.INCOMING:
        found.add(directory, files=1, size=read.size)
    mode = f"has mode {read.mode:04o} instead of {FILE_MODE:04o}"
    if digest is None:
        yield Finding(directory, name, "is not in the log")
    elif read.sha256 != digest:
        also = f", and it {mode}" if read.mode != FILE_MODE else ""
        yield Finding(directory, name, f"its content is not what the log recorded{also}")
    elif read.mode != FILE_MODE:
        yield Finding(directory, name, f"{mode}; its content is unchanged", mode=True)
