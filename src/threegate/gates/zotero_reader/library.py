"""The rows of a Zotero library, held by item.

SECURITY
    Every value may be of any type: SQLite enforces none.  What is not text, a number or null where
    one is due is left out.  Lists and texts are bounded while they are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from threegate.gates.zotero_reader.database import Database
from threegate.gates.zotero_reader.messages import (
    KEY,
    MAX_ENTRIES,
    MAX_NAME_CHARS,
    MAX_PATH_CHARS,
    MAX_REMARK_CHARS,
    MAX_VALUE_CHARS,
    WORD,
)

MAX_ROWS: Final = 5_000_000
MAX_COLLECTION_DEPTH: Final = 64
FEED: Final = "feed"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A row of `itemAttachments`."""

    item: int
    parent: int | None
    mode: int
    content_type: str
    path: str


@dataclass(frozen=True, slots=True)
class Annotation:
    """A row of `itemAnnotations`."""

    type: int
    text: str
    comment: str
    colour: str
    page_label: str
    order: str


@dataclass(slots=True)
class Library:
    """What was read, by the number of an item."""

    types: dict[int, str] = field(default_factory=dict)
    keys: dict[int, tuple[int, str]] = field(default_factory=dict)  # group and key
    deleted: set[int] = field(default_factory=set)
    fields: dict[int, dict[str, str]] = field(default_factory=dict)
    creators: dict[int, list[tuple[str, str, str]]] = field(default_factory=dict)
    tags: dict[int, list[str]] = field(default_factory=dict)
    collections: dict[int, list[str]] = field(default_factory=dict)  # paths of names
    collection_paths: set[str] = field(default_factory=set)
    notes: dict[int, tuple[int | None, str, str]] = field(default_factory=dict)
    attachments: dict[int, Attachment] = field(default_factory=dict)
    annotations: dict[int, list[Annotation]] = field(default_factory=dict)  # by attachment


def text(value: Any, most: int) -> str:
    """Return a value as text of at most `most` characters; other types are no text."""
    if isinstance(value, int | float):
        value = str(value)
    return value[:most] if isinstance(value, str) else ""


def number(value: Any) -> int | None:
    """Return a value if it is a whole number."""
    return value if isinstance(value, int) else None


def read_library(db: Database) -> Library:
    """Return the items of all libraries but feeds; raise `DatabaseRefused`."""
    found = Library()
    _read_items(db, found)
    for item, name, value in db.rows("itemData", _DATA, MAX_ROWS):
        if item in found.keys and WORD.fits(text(name, 64)):
            # One character more than allowed, so that a cut is seen.
            found.fields.setdefault(item, {})[name] = text(value, MAX_VALUE_CHARS + 1)
    for item, role, first, last in db.rows("itemCreators", _CREATORS, MAX_ROWS):
        if item in found.keys and WORD.fits(text(role, 64)):
            name = text(first, MAX_NAME_CHARS), text(last, MAX_NAME_CHARS)
            found.creators.setdefault(item, []).append((role, *name))
    for item, name in db.rows("itemTags", _TAGS, MAX_ROWS):
        if item in found.keys:
            found.tags.setdefault(item, []).append(text(name, MAX_NAME_CHARS))
    _read_collections(db, found)
    _read_children(db, found)
    return found


_DATA: Final = (
    "SELECT d.itemID, f.fieldName, v.value FROM itemData d "
    "JOIN itemDataValues v ON v.valueID = d.valueID JOIN fields f ON f.fieldID = d.fieldID"
)
_CREATORS: Final = (
    "SELECT i.itemID, t.creatorType, c.firstName, c.lastName FROM itemCreators i "
    "JOIN creators c ON c.creatorID = i.creatorID "
    "JOIN creatorTypes t ON t.creatorTypeID = i.creatorTypeID ORDER BY i.itemID, i.orderIndex"
)
_TAGS: Final = "SELECT i.itemID, t.name FROM itemTags i JOIN tags t ON t.tagID = i.tagID"
_NOTES: Final = "SELECT itemID, parentItemID, note, title FROM itemNotes"
_ANNOTATIONS: Final = (
    "SELECT itemID, parentItemID, type, text, comment, color, pageLabel, sortIndex "
    "FROM itemAnnotations"
)


def _read_items(db: Database, found: Library) -> None:
    names = {key: text(name, 64) for key, name in db.rows("itemTypes", _TYPES, 10_000)}
    feeds = {key for key, kind in db.rows("libraries", _LIBRARIES, 100_000) if kind == FEED}
    groups = dict(db.rows("groups", "SELECT libraryID, groupID FROM groups", 100_000))
    found.deleted = {item for (item,) in db.rows("deletedItems", _DELETED, MAX_ROWS)}
    most = 20 * MAX_ENTRIES  # attachments, notes and annotations are items too
    for item, kind, library, key in db.rows("items", _ITEMS, most):
        group = number(groups.get(library, 0))
        known = WORD.fits(names.get(kind, "")) and KEY.fits(text(key, 8))
        if known and library not in feeds and isinstance(item, int) and group is not None:
            found.keys[item] = (abs(group), key)
            found.types[item] = names[kind]


_TYPES: Final = "SELECT itemTypeID, typeName FROM itemTypes"
_LIBRARIES: Final = "SELECT libraryID, type FROM libraries"
_DELETED: Final = "SELECT itemID FROM deletedItems"
_ITEMS: Final = "SELECT itemID, itemTypeID, libraryID, key FROM items ORDER BY itemID"
_COLLECTIONS: Final = "SELECT collectionID, collectionName, parentCollectionID FROM collections"


def _read_collections(db: Database, found: Library) -> None:
    rows = {row[0]: row for row in db.rows("collections", _COLLECTIONS, 100_000)}
    paths = {key: "/".join(reversed(list(_names(key, rows)))) for key in rows}
    found.collection_paths = set(paths.values())
    for collection, item in db.rows(
        "collectionItems", "SELECT collectionID, itemID FROM collectionItems", MAX_ROWS
    ):
        if item in found.keys and collection in paths:
            found.collections.setdefault(item, []).append(paths[collection][:MAX_NAME_CHARS])


def _names(key: Any, rows: dict[Any, tuple[Any, ...]]) -> Iterator[str]:
    """Yield the name of a collection and of those around it; they may be in a circle."""
    for _ in range(MAX_COLLECTION_DEPTH):
        if key not in rows:
            return
        _, name, key = rows[key]
        yield text(name, MAX_NAME_CHARS)


def _read_children(db: Database, found: Library) -> None:
    for item, parent, note, title in db.rows("itemNotes", _NOTES, MAX_ROWS):
        if item in found.keys:
            said = text(note, MAX_REMARK_CHARS + 1), text(title, MAX_NAME_CHARS)
            found.notes[item] = (number(parent), *said)
    query = "SELECT itemID, parentItemID, linkMode, contentType, path FROM itemAttachments"
    for item, parent, mode, kind, path in db.rows("itemAttachments", query, MAX_ROWS):
        if item in found.keys:
            place = text(kind, 100), text(path, MAX_PATH_CHARS + 1)
            found.attachments[item] = Attachment(item, number(parent), number(mode) or 0, *place)
    for item, parent, kind, marked, comment, *rest in db.rows(
        "itemAnnotations", _ANNOTATIONS, MAX_ROWS
    ):
        if item in found.keys and item not in found.deleted and isinstance(parent, int):
            long = text(marked, MAX_REMARK_CHARS + 1), text(comment, MAX_REMARK_CHARS + 1)
            made = Annotation(number(kind) or 0, *long, *(text(one, 100) for one in rest))
            found.annotations.setdefault(parent, []).append(made)
