"""Zotero libraries for tests: the tables and columns that Zotero has, with a few items in them."""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.pdfs import line, pdf

# Table and column names are those of Zotero's schema; types and indexes only as far as they matter.
TABLES: Final = {
    "itemTypes": "itemTypeID INTEGER PRIMARY KEY, typeName TEXT",
    "fields": "fieldID INTEGER PRIMARY KEY, fieldName TEXT",
    "creatorTypes": "creatorTypeID INTEGER PRIMARY KEY, creatorType TEXT",
    "libraries": "libraryID INTEGER PRIMARY KEY, type TEXT NOT NULL",
    "groups": "groupID INTEGER PRIMARY KEY, libraryID INT NOT NULL UNIQUE, name TEXT",
    "items": (
        "itemID INTEGER PRIMARY KEY, itemTypeID INT, dateAdded TIMESTAMP, dateModified TIMESTAMP,"
        " libraryID INT, key TEXT NOT NULL, version INT, synced INT"
    ),
    "itemData": "itemID INT, fieldID INT, valueID, PRIMARY KEY (itemID, fieldID)",
    "itemDataValues": "valueID INTEGER PRIMARY KEY, value UNIQUE",
    "itemNotes": "itemID INTEGER PRIMARY KEY, parentItemID INT, note TEXT, title TEXT",
    "itemAttachments": (
        "itemID INTEGER PRIMARY KEY, parentItemID INT, linkMode INT, contentType TEXT, path TEXT"
    ),
    "itemAnnotations": (
        "itemID INTEGER PRIMARY KEY, parentItemID INT, type INTEGER, authorName TEXT, text TEXT,"
        " comment TEXT, color TEXT, pageLabel TEXT, sortIndex TEXT, position TEXT, isExternal INT"
    ),
    "tags": "tagID INTEGER PRIMARY KEY, name TEXT UNIQUE",
    "itemTags": "itemID INT, tagID INT, type INT, PRIMARY KEY (itemID, tagID)",
    "creators": "creatorID INTEGER PRIMARY KEY, firstName TEXT, lastName TEXT, fieldMode INT",
    "itemCreators": "itemID INT, creatorID INT, creatorTypeID INT, orderIndex INT",
    "collections": (
        "collectionID INTEGER PRIMARY KEY, collectionName TEXT, parentCollectionID INT,"
        " libraryID INT, key TEXT"
    ),
    "collectionItems": "collectionID INT, itemID INT, orderIndex INT",
    "deletedItems": "itemID INTEGER PRIMARY KEY, dateDeleted",
}
TEXT: Final = "The strength of sea ice was 1.31 MPa in May."
PDF: Final = pdf(line(TEXT))
DOI: Final = "10.5555/ice.2021"


@dataclass(slots=True)
class LibraryFolder:
    """A Zotero folder that is being filled."""

    path: Path
    db: sqlite3.Connection = field(init=False)
    _next: int = 0

    def __post_init__(self) -> None:
        (self.path / "storage").mkdir(parents=True)
        self.db = sqlite3.connect(self.path / "zotero.sqlite", isolation_level=None)
        for name, columns in TABLES.items():
            self.db.execute(f"CREATE TABLE {name} ({columns})")
        self.insert("libraries", libraryID=1, type="user")

    def insert(self, table: str, **values: Any) -> None:
        """Insert a row."""
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        query = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608
        self.db.execute(query, tuple(values.values()))

    def number_of(self, table: str, name: str) -> int:
        """Return the number of a name in a list of names, such as `fields`."""
        number, column = {
            "itemTypes": ("itemTypeID", "typeName"),
            "fields": ("fieldID", "fieldName"),
            "creatorTypes": ("creatorTypeID", "creatorType"),
            "tags": ("tagID", "name"),
            "itemDataValues": ("valueID", "value"),
        }[table]
        query = f"SELECT {number} FROM {table} WHERE {column} = ?"  # noqa: S608
        row = self.db.execute(query, (name,)).fetchone()
        if row is None:
            self.insert(table, **{column: name})
            row = self.db.execute(query, (name,)).fetchone()
        return int(row[0])

    def item(self, kind: str, library: int = 1, **fields: str) -> int:
        """Add an item and return its number; its key is made of it."""
        self._next += 1
        kind_number = self.number_of("itemTypes", kind)
        self.insert(
            "items",
            itemID=self._next,
            itemTypeID=kind_number,
            libraryID=library,
            key=self.key(self._next),
        )
        number = self._next
        for name, value in fields.items():
            self.set_field(number, name, value)
        return number

    @staticmethod
    def key(item: int) -> str:
        """Return the key of an item."""
        return f"KEY{item:05}"

    def set_field(self, item: int, name: str, value: str) -> None:
        """Set a field of an item."""
        both = self.number_of("fields", name), self.number_of("itemDataValues", value)
        self.db.execute("INSERT OR REPLACE INTO itemData VALUES (?, ?, ?)", (item, *both))

    def creator(self, item: int, first: str, last: str, role: str = "author") -> None:
        """Add a creator to an item."""
        order = self.db.execute(
            "SELECT count(*) FROM itemCreators WHERE itemID = ?", (item,)
        ).fetchone()
        self.insert("creators", firstName=first, lastName=last, fieldMode=int(not first))
        number = self.db.execute("SELECT max(creatorID) FROM creators").fetchone()[0]
        kind = self.number_of("creatorTypes", role)
        self.insert(
            "itemCreators", itemID=item, creatorID=number, creatorTypeID=kind, orderIndex=order[0]
        )

    def attach(
        self,
        item: int | None,
        data: bytes | None = PDF,
        name: str = "paper.pdf",
        *,
        path: str | None = None,
        mode: int = 0,
        kind: str = "application/pdf",
    ) -> int:
        """Attach a file to an item and return the number of the attachment."""
        number = self.item("attachment", title="Full Text")
        spelled = f"storage:{name}" if path is None else path
        self.insert(
            "itemAttachments",
            itemID=number,
            parentItemID=item,
            linkMode=mode,
            contentType=kind,
            path=spelled,
        )
        if data is not None:
            folder = self.path / "storage" / self.key(number)
            folder.mkdir()
            (folder / name).write_bytes(data)
        return number

    def note(self, item: int | None, html: str, title: str = "") -> int:
        """Add a note to an item, or on its own."""
        number = self.item("note")
        self.insert("itemNotes", itemID=number, parentItemID=item, note=html, title=title)
        return number

    def annotate(self, attachment: int, text: str, comment: str, label: str, page: int) -> int:
        """Mark a passage of an attachment."""
        number = self.item("annotation")
        self.insert(
            "itemAnnotations",
            itemID=number,
            parentItemID=attachment,
            type=1,
            text=text,
            comment=comment,
            color="#ffd400",
            pageLabel=label,
            sortIndex=f"{page - 1:05}|000100|00050",
            position="{}",
            isExternal=0,
        )
        return number

    def tag(self, item: int, name: str) -> None:
        """Tag an item."""
        self.insert("itemTags", itemID=item, tagID=self.number_of("tags", name), type=0)

    def collection(self, number: int, name: str, parent: int | None, *items: int) -> None:
        """Add a collection with items in it."""
        self.insert(
            "collections",
            collectionID=number,
            collectionName=name,
            parentCollectionID=parent,
            libraryID=1,
            key=f"COLL{number:04}",
        )
        for item in items:
            self.insert("collectionItems", collectionID=number, itemID=item, orderIndex=0)

    def bytes(self) -> bytes:
        """Return the bytes of the database."""
        return (self.path / "zotero.sqlite").read_bytes()


def sample(path: Path) -> LibraryFolder:
    """Return a library with an article, a book without a file, and a note on its own."""
    made = LibraryFolder(path)
    article = made.item(
        "journalArticle",
        title="Strength of sea ice",
        DOI=DOI,
        date="2021-05-00 May 2021",
        publicationTitle="Journal of Ice",
        abstractNote="We measured ice.",
        extra="Citation Key: Berg2021-Ice\nPMID: 12345678",
    )
    made.creator(article, "Eva", "Berg")
    made.creator(article, "", "Ice Group")
    made.creator(article, "Ed", "Itor", "editor")
    file = made.attach(article)
    made.annotate(file, "1.31 MPa", "compare with ours", "iv", 1)
    made.note(article, "<p>Read <b>twice</b>.</p><p>Ask Eva.</p>")
    made.tag(article, "to read")
    book = made.item(
        "book", title="Ice: a handbook", ISBN="978-3-16-148410-0", date="1999-00-00 1999"
    )
    made.creator(book, "Otto", "Frost")
    made.collection(1, "Thesis", None, book)
    made.collection(2, "Chapter 1", 1, article)
    made.note(None, "<p>An idea about floes.</p>", "An idea")
    return made
