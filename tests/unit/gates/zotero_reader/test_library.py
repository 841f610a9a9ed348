"""Records of a Zotero library: items, files, annotations and notes; filters; the log of writes."""

import sqlite3
from pathlib import Path

import pytest

from tests.support.zotero import LibraryFolder, sample
from threegate.gates.zotero_reader.database import with_wal
from threegate.gates.zotero_reader.entries import MAX_REMARKS_CHARS
from threegate.gates.zotero_reader.gate import answer
from threegate.gates.zotero_reader.messages import (
    LibraryNotRead,
    LibraryRead,
    ReadLibrary,
    ZoteroItem,
    ZoteroPlace,
    entries_of,
)


@pytest.fixture
def library(tmp_path: Path) -> LibraryFolder:
    return sample(tmp_path / "Zotero")


def read(
    data: bytes, *, collection: str = "", tag: str = "", wal: bytes = b"", keys: bytes = b""
) -> list[tuple[ZoteroItem, ZoteroPlace]]:
    found = answer(ReadLibrary(collection, tag, data, wal, keys))
    assert isinstance(found, LibraryRead), found
    return [(item, place) for _, item, place in entries_of(found)]


def titles(found: list[tuple[ZoteroItem, ZoteroPlace]]) -> list[str]:
    return [item.fields["title"].open_for_validation() for item, _ in found]


def test_an_item_has_its_fields_creators_marks_and_notes(library: LibraryFolder) -> None:
    (article, place), (book, nowhere), (note, _) = read(library.bytes())
    assert (article.type, article.key, article.item) == ("journalArticle", "KEY00001", "KEY00001")
    assert [(role, last.open_for_validation()) for role, _, last in article.creators] == [
        ("author", "Berg"),
        ("author", "Ice Group"),
        ("editor", "Itor"),
    ]
    assert article.citation_key is not None
    assert article.citation_key.open_for_validation() == "Berg2021-Ice"
    (mark,) = article.annotations
    assert (mark.type, mark.page, mark.colour) == ("highlight", 1, "#ffd400")
    assert mark.page_label.open_for_validation() == "iv"
    assert [one.open_for_validation() for one in article.collections] == ["Thesis/Chapter 1"]
    assert (place.mode, place.key) == ("stored", "KEY00002")
    assert (book.type, nowhere.mode) == ("book", "none")
    assert (note.type, len(note.notes)) == ("note", 1)


def test_a_collection_has_the_items_of_those_inside_it_and_a_tag_has_its_own(
    library: LibraryFolder,
) -> None:
    data = library.bytes()
    assert titles(read(data, collection="thesis")) == ["Strength of sea ice", "Ice: a handbook"]
    assert titles(read(data, collection="Thesis/chapter 1")) == ["Strength of sea ice"]
    assert titles(read(data, collection="Chapter 1")) == ["Strength of sea ice"]
    assert titles(read(data, tag="TO READ")) == ["Strength of sea ice"]
    for ask, reason in (
        (ReadLibrary("Chapter 2", "", data, b"", b""), "no-collection"),
        (ReadLibrary("", "read", data, b"", b""), "no-tag"),
    ):
        assert answer(ask) == LibraryNotRead(reason)


def test_deleted_items_files_and_feeds_are_left_out(library: LibraryFolder) -> None:
    library.insert("libraries", libraryID=2, type="feed")
    library.insert("libraries", libraryID=3, type="group")
    library.insert("groups", groupID=77, libraryID=3, name="Ice")
    library.item("journalArticle", library=2, title="News")
    library.item("journalArticle", library=3, title="Of the group")
    library.insert("deletedItems", itemID=5)
    library.insert("deletedItems", itemID=2)
    found = read(library.bytes())
    assert titles(found) == ["Strength of sea ice", "An idea", "Of the group"]
    assert found[0][1].mode == "none", "its file is in the bin"
    assert found[0][0].annotations == ()
    assert [item.group for item, _ in found] == [0, 0, 77]


def test_a_further_file_has_a_key_of_its_own_and_not_the_notes_again(
    library: LibraryFolder,
) -> None:
    page = library.attach(1, b"<p>x", "index.html", kind="text/html")
    library.attach(1, None, path="https://example.org/", mode=3)  # a link to a page
    article, further = read(library.bytes())[:2]
    assert (further[0].item, further[0].key) == ("KEY00001", library.key(page))
    assert (article[1].key, further[1].key) == ("KEY00002", library.key(page))
    assert (len(article[0].notes), further[0].notes, further[0].annotations) == (1, (), ())


def test_keys_of_better_bibtex_are_read_and_a_pinned_one_is_believed_first(
    library: LibraryFolder, tmp_path: Path
) -> None:
    path = tmp_path / "better-bibtex.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE citationkey (itemID, itemKey, libraryID, citationKey, pinned)")
        db.executemany(
            "INSERT INTO citationkey VALUES (?, '', 1, ?, 0)", [(1, "other"), (5, "frost1999")]
        )
    db.close()
    found = read(library.bytes(), keys=path.read_bytes())
    keys = [item.citation_key for item, _ in found]
    spelled = [None if one is None else one.open_for_validation() for one in keys]
    assert spelled == ["Berg2021-Ice", "frost1999", None]
    assert len(read(library.bytes(), keys=b"no database")) == 3, "the library is read without them"


def test_what_zotero_has_in_its_write_ahead_log_is_read(library: LibraryFolder) -> None:
    library.db.execute("PRAGMA journal_mode=WAL")
    before = library.bytes()
    library.item("book", title="Written a moment ago")
    log = (library.path / "zotero.sqlite-wal").read_bytes()
    assert library.bytes() == before, "control: the item is in the log alone"
    assert titles(read(before))[3:] == []
    assert titles(read(before, wal=log))[3:] == ["Written a moment ago"]


def test_a_log_counts_as_far_as_its_checksums_hold(library: LibraryFolder) -> None:
    library.db.execute("PRAGMA journal_mode=WAL")
    before = library.bytes()
    library.item("book", title="First")
    first = len((library.path / "zotero.sqlite-wal").read_bytes())
    library.item("book", title="Second")
    log = bytearray((library.path / "zotero.sqlite-wal").read_bytes())
    assert titles(read(before, wal=bytes(log)))[3:] == ["First", "Second"], "control"
    log[first + 100] ^= 1  # a page of the second change
    assert titles(read(before, wal=bytes(log)))[3:] == ["First"]
    log[20] ^= 1  # the header
    assert titles(read(before, wal=bytes(log)))[3:] == []
    assert with_wal(before, b"not a log") == with_wal(before, b"")


def test_values_of_other_types_and_texts_that_are_too_long_are_cut_and_counted(
    library: LibraryFolder,
) -> None:
    library.db.execute("UPDATE itemNotes SET note = ? WHERE parentItemID = 1", ("x" * 10**6,))
    library.db.execute("UPDATE itemDataValues SET value = ? WHERE value = ?", (b"\xff", "book"))
    library.db.execute("UPDATE creators SET lastName = 7 WHERE lastName = 'Berg'")
    library.db.execute("UPDATE tags SET name = CAST(x'ff41' AS TEXT)")
    article, _ = read(library.bytes())[0]
    assert article.creators[0][2].open_for_validation() == "7"
    assert article.tags[0].open_for_validation() == "\ufffdA"
    assert len(article.notes[0].open_for_validation()) < MAX_REMARKS_CHARS
    assert article.cut == 1
