"""What words of every language cost: the same texts in a table with SQLite's own tokenizer.

Both tables hold title and text of the same packets and nothing else, and are filled in one
transaction.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from bench.figures import Plain, compare
from bench.measure import Watch
from threegate.artifacts import registry
from threegate.base.untrusted import Untrusted
from threegate.host.words.query import typed_terms
from threegate.host.words.tokens import indexed
from threegate.host.workspace.index_rows import described
from threegate.host.workspace.workspace import Workspace

PACKETS = 10_000
PEER = "FTS5 with unicode61, which cuts at spaces, the same texts"
_TABLE = "CREATE VIRTUAL TABLE texts USING fts5 (title, body, compounds, tokenize = {})"
_OURS = _TABLE.format("\"ascii tokenchars '.,'\"")
_THEIRS = _TABLE.format('"unicode61 remove_diacritics 2"')
_FIND = """
SELECT rowid FROM texts WHERE texts MATCH ?
ORDER BY bm25(texts, 4.0, 1.0, 0.5), rowid LIMIT 50
"""

Row = tuple[str, str, str]
Text = tuple[str, list[str]]


def rows(ws: Workspace, queries: Sequence[str], directory: Path) -> list[Plain]:
    """Measure the words of the first packets of a workspace."""
    texts = list(islice(_texts(ws), PACKETS))
    ours, theirs = directory / "words.sqlite", directory / "unicode61.sqlite"
    built = _build(ours, _OURS, texts, _row), _build(theirs, _THEIRS, texts, _plain)
    what = f"words of {len(texts):,} packets"
    sizes = [path.stat().st_size / 2**20 for path in (ours, theirs)]
    found = [
        compare(
            f"{what}, packets/s into the index",
            len(texts) / built[0],
            peer=PEER,
            theirs=len(texts) / built[1],
            unit="packets/s",
        ),
        compare(
            f"{what}, size",
            sizes[0],
            peer=PEER,
            theirs=sizes[1],
            unit="MiB",
            smaller_is_better=True,
        ),
    ]
    mine = [" AND ".join(term.fts() for term in typed_terms(one, ())) for one in queries]
    both = _search(ours, mine), _search(theirs, queries)
    found.append(
        compare(
            f"{what}, a phrase of one packet in a hundred",
            both[0] * 1e3,
            peer=PEER,
            theirs=both[1] * 1e3,
            unit="ms",
            smaller_is_better=True,
        )
    )
    return found


def _texts(ws: Workspace) -> Iterator[Text]:
    for packet_id in ws.store.ids("rp"):
        title, texts, _ = described(registry.parse(Untrusted(ws.store.read_bytes(packet_id))))
        yield title, texts


def _row(text: Text) -> Row:
    found = indexed(*text)
    return found.title, found.body, found.compounds


def _plain(text: Text) -> Row:
    return text[0], "\n".join(text[1]), ""


def _build(path: Path, schema: str, texts: Sequence[Text], row: Callable[[Text], Row]) -> float:
    with closing(sqlite3.connect(path)) as db:
        db.execute(schema)
        watch = Watch()
        with watch.lap(), db:
            db.executemany("INSERT INTO texts VALUES (?, ?, ?)", map(row, texts))
        return watch.total


def _search(path: Path, queries: Sequence[str]) -> float:
    watch = Watch()
    with closing(sqlite3.connect(path)) as db:
        for query in queries:
            with watch.lap():
                assert db.execute(_FIND, (query,)).fetchall()
    return watch.at(50)
