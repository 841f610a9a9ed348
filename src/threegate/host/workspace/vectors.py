"""Store of passage vectors, by the digest of the text and of the embedder: derived, rebuildable.

Computing them takes hours in a large library, so one edit must not cost all of them.  Each row
carries a keyed digest of itself (the key is in the user's state directory).  A row with a wrong
digest is ignored and computed again; so is one that was removed.

SECURITY
    Holds numbers computed from foreign text, from which some of it could be guessed.  Only the user
    can read the file.  After a `forget`, only rows that a remaining artifact holds are kept, and
    the file is rewritten.
"""

import fcntl
import hmac
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

from threegate.gates.model.embedder.messages import VECTOR_BYTES
from threegate.handoff.store import Store
from threegate.host.workspace.derived import (
    NEW,
    open_plain,
    remove_derived,
    storage_errors,
    write_again,
)
from threegate.host.workspace.seal import locked, make_private

FILE: Final = "vectors.sqlite"
KEY_BYTES: Final = 32
MAC_BYTES: Final = 16
DIGEST_CHARS: Final = 64

Vector = bytes

SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA secure_delete = ON;
CREATE TABLE IF NOT EXISTS vectors (
    text TEXT, embedder TEXT, row BLOB, mac BLOB, PRIMARY KEY (text, embedder)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS holders (
    artifact TEXT, embedder TEXT, complete INTEGER, texts TEXT, mac BLOB,
    PRIMARY KEY (artifact, embedder)) WITHOUT ROWID;
"""


class VectorStore:
    """The vectors of one workspace and embedder; without a directory for keys, temporary."""

    def __init__(self, root: Path, embedder: str, seals: Path | None = None) -> None:
        self._embedder = embedder
        self._path = None if seals is None else root / FILE
        self._key = secrets.token_bytes(KEY_BYTES) if seals is None else secret(seals)
        self._db = open_plain(self._path, SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def known(self, texts: Iterable[str]) -> dict[str, Vector]:
        """Return the vectors of those texts, by digest, that have one."""
        query = "SELECT row, mac FROM vectors WHERE text = ? AND embedder = ?"
        found: dict[str, Vector] = {}
        for text in texts:
            row = self._db.execute(query, (text, self._embedder)).fetchone()
            if row is not None and self._is_vector(text, *row):
                found[text] = bytes(row[0])
        return found

    def keep(self, rows: Mapping[str, Vector], held: Mapping[str, Iterable[str]]) -> None:
        """Keep vectors by digest of the text, and which artifacts hold which texts."""
        made = [
            (text, self._embedder, row, self._mac("vector", text, row))
            for text, row in rows.items()
        ]
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", made)
            for artifact, texts in held.items():
                complete, before = self._held_by(artifact)
                self._write_holder(artifact, complete=complete, texts={*before, *texts})

    def mark_complete(self, artifact: str) -> None:
        """Note that every passage of an artifact has a vector."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            _, texts = self._held_by(artifact)
            self._write_holder(artifact, complete=True, texts=texts)

    def complete(self) -> set[str]:
        """Return the artifacts of which every passage has a vector."""
        rows = self._db.execute(
            "SELECT text, row, mac FROM vectors WHERE embedder = ?", (self._embedder,)
        )
        good = {str(text) for text, row, mac in rows if self._is_vector(text, row, mac)}
        return {
            artifact
            for artifact, complete, texts in self._holders()
            if complete and good.issuperset(texts)
        }

    def all(self) -> Iterator[tuple[str, Vector]]:
        """Yield each artifact with each of its vectors."""
        for artifact, _, texts in self._holders():
            for row in self.known(texts).values():
                yield artifact, row

    def drop(self, is_here: Callable[[str], bool]) -> bool:
        """Keep the rows of artifacts that are still here; return whether rows were deleted."""
        gone = [
            (artifact, embedder)
            for artifact, embedder in self._db.execute("SELECT artifact, embedder FROM holders")
            if not is_here(str(artifact))
        ]
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            where = "WHERE artifact = ? AND embedder = ?"
            self._db.executemany(f"DELETE FROM holders {where}", gone)  # noqa: S608  # our own words
            held = {text for _, _, texts in self._holders(None) for text in texts}
            rows = self._db.execute("SELECT DISTINCT text FROM vectors").fetchall()
            loose = [row for row in rows if str(row[0]) not in held]
            self._db.executemany("DELETE FROM vectors WHERE text = ?", loose)
        return bool(gone or loose)

    def rewrite(self) -> None:
        """Rewrite the file, so that no page holds deleted content, and close it."""
        assert self._path is not None
        write_again(self._db, self._path)

    def _holders(self, embedder: str | None = "") -> Iterator[tuple[str, bool, list[str]]]:
        """Yield artifacts and the texts they hold; `None` means of every embedder."""
        wanted = self._embedder if embedder == "" else embedder
        rows = self._db.execute(
            "SELECT artifact, embedder, complete, texts, mac FROM holders"
            " WHERE ?1 IS NULL OR embedder = ?1",
            (wanted,),
        )
        for artifact, by, complete, texts, mac in rows.fetchall():
            if self._is_good(mac, "holder", str(artifact), int(complete), str(texts), by=str(by)):
                yield str(artifact), bool(complete), _split(texts)

    def _held_by(self, artifact: str) -> tuple[bool, list[str]]:
        row = self._db.execute(
            "SELECT complete, texts, mac FROM holders WHERE artifact = ? AND embedder = ?",
            (artifact, self._embedder),
        ).fetchone()
        if row is None or not self._is_good(row[2], "holder", artifact, int(row[0]), str(row[1])):
            return False, []
        return bool(row[0]), _split(row[1])

    def _write_holder(self, artifact: str, *, complete: bool, texts: Iterable[str]) -> None:
        joined = "".join(sorted(texts))
        mac = self._mac("holder", artifact, int(complete), joined)
        row = (artifact, self._embedder, int(complete), joined, mac)
        self._db.execute("INSERT OR REPLACE INTO holders VALUES (?, ?, ?, ?, ?)", row)

    def _is_vector(self, text: str, row: object, mac: object) -> bool:
        good = isinstance(row, bytes) and len(row) == VECTOR_BYTES
        return good and self._is_good(mac, "vector", text, row)

    def _is_good(self, mac: object, *parts: object, by: str | None = None) -> bool:
        return isinstance(mac, bytes) and hmac.compare_digest(mac, self._mac(*parts, by=by))

    def _mac(self, *parts: object, by: str | None = None) -> bytes:
        found = blake2b(key=self._key, digest_size=MAC_BYTES)
        for part in (by or self._embedder, *parts):
            data = part if isinstance(part, bytes) else str(part).encode("utf-8")
            found.update(len(data).to_bytes(8, "big") + data)
        return found.digest()


def drop_vectors(store: Store, seals: Path | None) -> None:
    """Delete the vectors of artifacts that are no longer in a state, and rewrite the file."""
    remove_derived(store.root / f"{FILE}{NEW}")  # a killed `write_again` leaves it
    if seals is None or not os.path.lexists(store.root / FILE):
        return
    vectors = VectorStore(store.root, "", seals)
    try:
        if vectors.drop(lambda artifact: store.locate(artifact) is not None):
            vectors.rewrite()
    finally:
        vectors.close()


def _split(texts: object) -> list[str]:
    whole = str(texts)
    return [whole[at : at + DIGEST_CHARS] for at in range(0, len(whole), DIGEST_CHARS)]


def secret(seals: Path) -> bytes:
    """Return the user's key for authenticated rows; create it if there is none."""
    with storage_errors(seals):
        make_private(seals)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(seals / "key", flags, 0o600)
        try:
            with locked(fd, fcntl.LOCK_EX):
                found = os.pread(fd, KEY_BYTES, 0)
                if len(found) != KEY_BYTES:
                    found = secrets.token_bytes(KEY_BYTES)
                    os.pwrite(fd, found, 0)
            return found
        finally:
            os.close(fd)
