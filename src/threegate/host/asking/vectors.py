"""Vectors of passages, kept by the digest of the text and of the embedder: derived, rebuildable.

SECURITY
    Holds numbers computed from foreign text, from which some of it could be guessed: the file
    belongs to the user alone and goes with the index, so `forget` deletes it.  Nothing is
    decided by it: what it proposes is read again from its file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from threegate.artifacts.ids import sha256_hex
from threegate.host.asking.reading import Passage
from threegate.host.derived import open_derived, remove_derived
from threegate.host.index import VECTORS
from threegate.protocol.embed import VECTOR_BYTES

Vector = bytes

_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
PRAGMA secure_delete = ON;
CREATE TABLE IF NOT EXISTS vectors (
    text TEXT, embedder TEXT, row BLOB, PRIMARY KEY (text, embedder)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS holders (
    text TEXT, artifact TEXT, PRIMARY KEY (text, artifact)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS complete (
    artifact TEXT, embedder TEXT, PRIMARY KEY (artifact, embedder)) WITHOUT ROWID;
"""


def digest_of(passage: Passage) -> str:
    """Return what a vector is kept by."""
    return sha256_hex(passage.text.open_for_validation().encode("utf-8"))


class Vectors:
    """The vectors of one workspace, by one embedder."""

    def __init__(self, root: Path, embedder: str) -> None:
        self._embedder = embedder
        path = root / VECTORS
        self._db = open_derived(path, _SCHEMA, lambda: remove_derived(path))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def known(self, texts: Iterable[str]) -> dict[str, Vector]:
        """Return the vectors of those texts, by digest, that have one."""
        found: dict[str, Vector] = {}
        query = "SELECT row FROM vectors WHERE text = ? AND embedder = ?"
        for text in texts:
            row = self._db.execute(query, (text, self._embedder)).fetchone()
            if row is not None and len(row[0]) == VECTOR_BYTES:
                found[text] = bytes(row[0])
        return found

    def keep(self, rows: Mapping[str, Vector], holders: Sequence[Passage]) -> None:
        """Keep vectors by digest, and which artifacts hold these passages."""
        made = [(text, self._embedder, row) for text, row in rows.items()]
        held = [(digest_of(passage), passage.artifact) for passage in holders]
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", made)
            self._db.executemany("INSERT OR IGNORE INTO holders VALUES (?, ?)", held)

    def mark_complete(self, artifact: str) -> None:
        """Note that every passage of an artifact has a vector."""
        with self._db:
            values = (artifact, self._embedder)
            self._db.execute("INSERT OR IGNORE INTO complete VALUES (?, ?)", values)

    def complete(self) -> set[str]:
        """Return the artifacts of which every passage has a vector."""
        query = "SELECT artifact FROM complete WHERE embedder = ?"
        return {str(row[0]) for row in self._db.execute(query, (self._embedder,))}

    def all(self) -> Iterator[tuple[str, Vector]]:
        """Yield each artifact with each of its vectors."""
        query = (
            "SELECT artifact, row FROM holders JOIN vectors USING (text) WHERE embedder = ?"
            " AND length(row) = ?"
        )
        for artifact, row in self._db.execute(query, (self._embedder, VECTOR_BYTES)):
            yield str(artifact), bytes(row)
