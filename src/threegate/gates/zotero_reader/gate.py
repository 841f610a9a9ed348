"""The payload of a zotero-reader sandbox: a library in, records of its items out, then the end.

SECURITY
    Reads hostile bytes.  Only messages of `messages` leave: an unexpected error ends the sandbox,
    and its text stays inside.
"""

from threegate.base.untrusted import Untrusted
from threegate.gates.zotero_reader.database import Database, DatabaseRefused, with_wal
from threegate.gates.zotero_reader.entries import Entries
from threegate.gates.zotero_reader.library import read_library, text
from threegate.gates.zotero_reader.messages import (
    MAX_ENTRIES,
    MAX_ITEM_BYTES,
    MAX_ITEMS_BYTES,
    MAX_NAME_CHARS,
    MAX_PLACES_BYTES,
    TOO_LARGE,
    LibraryNotRead,
    LibraryRead,
    ReadLibrary,
    parse_read,
)
from threegate.gates.zotero_reader.tables import BETTER_BIBTEX, REQUIRED, ZOTERO
from threegate.sandbox.payload import answer_once


def serve() -> None:
    """Answer one message."""
    answer_once(
        lambda message: answer(parse_read(Untrusted(message))).to_bytes(), parse_read.most_bytes
    )


def answer(ask: ReadLibrary) -> LibraryRead | LibraryNotRead:
    """Return the records, or why there are none."""
    try:
        return _read(ask)
    except DatabaseRefused as exc:
        return LibraryNotRead(exc.reason)
    except MemoryError:
        return LibraryNotRead(TOO_LARGE)


def _read(ask: ReadLibrary) -> LibraryRead:
    db = Database(with_wal(ask.database, ask.wal), ZOTERO, REQUIRED)
    library = read_library(db)
    db.close()
    items, places, size = list[bytes](), list[bytes](), 0
    for item, place in Entries(library, _citation_keys(ask.keys)).chosen(ask.collection, ask.tag):
        line = item.to_bytes()
        size += len(line) + 1
        if len(line) > MAX_ITEM_BYTES or size > MAX_ITEMS_BYTES or len(items) >= MAX_ENTRIES:
            raise DatabaseRefused(TOO_LARGE)
        items.append(line)
        places.append(place.to_bytes())
    if sum(map(len, places)) + len(places) > MAX_PLACES_BYTES:
        raise DatabaseRefused(TOO_LARGE)
    return LibraryRead(b"\n".join(items), b"\n".join(places))


def _citation_keys(data: bytes) -> dict[int, str]:
    """Return the keys that Better BibTeX made; a database of another form has none."""
    if not data:
        return {}
    try:
        db = Database(with_wal(data, b""), BETTER_BIBTEX, frozenset())
        rows = db.rows("citationkey", "SELECT itemID, citationKey FROM citationkey", 1_000_000)
        return {item: text(key, MAX_NAME_CHARS) for item, key in rows if isinstance(item, int)}
    except DatabaseRefused:
        return {}
