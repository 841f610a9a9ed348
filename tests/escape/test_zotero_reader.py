"""Hostile Zotero libraries: databases with code, bombs and damage, paths that lead elsewhere.

What arbitrary Python in the sandbox can reach is asked by the sandbox's own suite, which attacks
the profile `zotero-reader` like every other: test_sandbox_escape.py.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.boxes import importable, start_with
from tests.support.policies import policy
from tests.support.zotero import PDF, LibraryFolder, sample
from threegate.base.errors import ArtifactRejected, GateUnavailable
from threegate.gates.zotero_reader import database
from threegate.gates.zotero_reader.gate import answer
from threegate.gates.zotero_reader.messages import LibraryNotRead, LibraryRead, ReadLibrary
from threegate.host import open_box
from threegate.host.importing.selection import Material
from threegate.host.importing.zotero import Wanted, ZoteroEntry, select_library
from threegate.sandbox.attacks.runner import applicable
from threegate.sandbox.box import Start
from threegate.sandbox.profiles import ZOTERO_READER


@pytest.fixture
def library(tmp_path: Path) -> LibraryFolder:
    return sample(tmp_path / "Zotero")


def entries(folder: Path, base: Path | None = None) -> list[ZoteroEntry]:
    return list(select_library(folder, policy().bundle(), Wanted(), base).files)


def view(db: LibraryFolder) -> None:
    db.db.execute("ALTER TABLE items RENAME TO real_items")
    db.db.execute("CREATE VIEW items AS SELECT * FROM real_items")


def recursive_view(db: LibraryFolder) -> None:
    db.db.execute("DROP TABLE tags")
    db.db.execute(
        "CREATE VIEW tags AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        " SELECT i AS tagID, i AS name FROM n"
    )


def virtual_table(db: LibraryFolder) -> None:
    db.db.execute("DROP TABLE tags")
    db.db.execute("CREATE VIRTUAL TABLE tags USING fts5(tagID, name)")


def generated_column(db: LibraryFolder) -> None:
    db.db.execute("DROP TABLE items")
    db.db.execute(
        "CREATE TABLE items (itemID INTEGER PRIMARY KEY, itemTypeID INT, libraryID INT,"
        " key TEXT AS (hex(zeroblob(100000000))))"
    )


def huge_value(db: LibraryFolder) -> None:
    db.db.execute("UPDATE itemNotes SET note = zeroblob(?)", (database.MAX_CELL_BYTES + 1,))


def other_tables(db: LibraryFolder) -> None:
    db.db.execute("DROP TABLE itemData")


HOSTILE: dict[str, tuple[Callable[[LibraryFolder], None], str]] = {
    "a view named items": (view, "it is not a database as Zotero writes it"),
    "a view that never ends": (recursive_view, "it is not a database as Zotero writes it"),
    "a virtual table": (virtual_table, "it is not a database as Zotero writes it"),
    "a column that is computed": (generated_column, "it is not a database as Zotero writes it"),
    "a value of 64 MiB": (huge_value, "the library is too large"),
    "a table is missing": (other_tables, "it is not a database as Zotero writes it"),
}


@pytest.mark.parametrize("name", HOSTILE)
# claim TG-C-615
def test_a_database_with_code_or_bombs_is_refused_with_the_reason(
    name: str, library: LibraryFolder
) -> None:
    assert len(entries(library.path)) == 3, "control: the same library before"
    make, why = HOSTILE[name]
    make(library)
    with pytest.raises(ArtifactRejected, match=why):
        entries(library.path)


# claim TG-C-615
def test_a_trigger_is_not_run_and_the_file_of_zotero_is_not_written(
    library: LibraryFolder,
) -> None:
    library.db.execute("CREATE TRIGGER t AFTER UPDATE ON items BEGIN DELETE FROM itemNotes; END")
    library.db.execute("CREATE TABLE log (seen)")
    before = {path: path.read_bytes() for path in library.path.rglob("*") if path.is_file()}
    assert len(entries(library.path)) == 3
    after = {path: path.read_bytes() for path in library.path.rglob("*") if path.is_file()}
    assert after == before, "no file was made, changed or removed beside it"


# claim TG-C-615
def test_steps_of_a_query_are_counted(
    library: LibraryFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ReadLibrary("", "", library.bytes(), b"", b"")
    assert isinstance(answer(ask), LibraryRead), "control"
    monkeypatch.setattr(database, "MAX_STEPS", 10)
    monkeypatch.setattr(database, "STEPS_EACH", 1)
    assert answer(ask) == LibraryNotRead("too-long")


# claim TG-C-615
def test_a_query_may_read_plain_tables_and_do_nothing_else(library: LibraryFolder) -> None:
    known = {"tags": ("tagID", "name")}
    db = database.Database(library.bytes(), known, frozenset(known))
    assert list(db.rows("tags", "SELECT name FROM tags", 10)) == [("to read",)], "control"
    for query in (
        "SELECT key FROM items",  # a table that was not named
        "SELECT sql FROM sqlite_master",
        "SELECT hex(name) FROM tags",
        "SELECT load_extension('x') FROM tags",
        "DELETE FROM tags",
        "ATTACH 'x' AS y",
        "PRAGMA writable_schema=ON",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i, name FROM n, tags",
    ):
        with pytest.raises(database.DatabaseRefused) as caught:
            list(db.rows("tags", query, 10))
        assert caught.value.reason == "not-zotero", query


# claim TG-C-615
def test_a_damaged_database_ends_in_words_and_nothing_else(library: LibraryFolder) -> None:
    for number in range(200):  # several pages of overflow, to have something to damage
        library.note(1, f"<p>{number}</p>" + "y" * 9_000)
    data = library.bytes()
    assert isinstance(answer(ReadLibrary("", "", data, b"", b"")), LibraryRead), "control"
    chance = random.Random(18)  # the same damage each time
    outcomes = set()
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 40)):
            place = chance.randrange(100, len(damaged))
            damaged[place] = chance.randrange(256)
        said = answer(
            ReadLibrary("", "", bytes(damaged[: chance.randrange(600, len(data))]), b"", b"")
        )
        outcomes.add(said.reason if isinstance(said, LibraryNotRead) else "read")
    assert "damaged" in outcomes
    assert outcomes <= {"damaged", "not-zotero", "read"}


def gap_of(entry: ZoteroEntry) -> tuple[str, str]:
    found = entry.material()
    assert [piece.source for piece in found.pieces] == ["zotero"], "the record alone"
    (miss,) = found.misses
    return miss.reason, miss.detail


SECRET = b"the operator's secret"
PATHS = {
    "storage:../../secret.txt": "a stored file with a path of its own",
    "storage:/etc/passwd": "a stored file with a path of its own",
    "storage:..": "a path that leads elsewhere",
    "storage:": "a path that leads elsewhere",
    "storage:a\0b": "a path that leads elsewhere",
    "../secret.txt": "a stored file with a path of its own",
    "/etc/passwd": "a stored file with a path of its own",
}


@pytest.mark.parametrize("path", PATHS)
# claim TG-C-616
def test_a_stored_file_is_read_from_its_own_folder_alone(
    path: str, library: LibraryFolder, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_bytes(SECRET)
    assert entries(library.path)[0].material().pieces[0].raw == PDF, "control"
    library.db.execute("UPDATE itemAttachments SET path = ?", (path,))
    assert gap_of(entries(library.path)[0]) == ("denied", PATHS[path])


LINKED = {
    "attachments:../secret.txt": "a path that leads elsewhere",
    "attachments:/etc/passwd": "a path that leads elsewhere",
    "attachments:a//b": "a path that leads elsewhere",
    "/etc/passwd": "a linked file outside the folder of the library",
    "C:\\Users\\eva\\paper.pdf": "a linked file outside the folder of the library",
}


@pytest.mark.parametrize("path", LINKED)
# claim TG-C-616
def test_a_linked_file_is_read_below_the_folder_that_the_operator_names(
    path: str, library: LibraryFolder, tmp_path: Path
) -> None:
    base = tmp_path / "linked"
    (base / "sub").mkdir(parents=True)
    (base / "sub" / "paper.pdf").write_bytes(PDF)
    (tmp_path / "secret.txt").write_bytes(SECRET)
    for good in ("attachments:sub/paper.pdf", str(base / "sub" / "paper.pdf")):
        library.db.execute("UPDATE itemAttachments SET linkMode = 2, path = ?", (good,))
        piece = entries(library.path, base)[0].material().pieces[0]
        assert (piece.raw, piece.location) == (PDF, "file:attachments/sub/paper.pdf"), "control"
    assert gap_of(entries(library.path)[0])[0] == "denied", "without the folder it is not read"
    library.db.execute("UPDATE itemAttachments SET path = ?", (path,))
    assert gap_of(entries(library.path, base)[0]) == ("denied", LINKED[path])


# claim TG-C-616
def test_links_in_storage_are_not_followed(library: LibraryFolder, tmp_path: Path) -> None:
    place = library.path / "storage" / "KEY00002"
    assert entries(library.path)[0].material().pieces[0].raw == PDF, "control"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "paper.pdf").write_bytes(SECRET)
    (place / "paper.pdf").unlink()
    (place / "paper.pdf").symlink_to(outside / "paper.pdf")
    reason, why = gap_of(entries(library.path)[0])
    assert (reason, why) == ("failed", "it cannot be opened: too many levels of symbolic links")
    (place / "paper.pdf").unlink()
    place.rmdir()
    place.symlink_to(outside)
    reason, why = gap_of(entries(library.path)[0])
    assert (reason, why) == ("failed", "it cannot be opened: not a directory")
    place.unlink()
    place.mkdir()
    os.mkfifo(place / "paper.pdf")
    assert gap_of(entries(library.path)[0]) == ("failed", "it is not a regular file any more")


def owned(monkeypatch: pytest.MonkeyPatch, directory: Path, body: str) -> None:
    """Let the sandbox run another program, as if a database had taken it over."""
    head = (
        "from threegate.base.untrusted import Untrusted\n"
        "from threegate.gates.zotero_reader.messages import *\n"
        "from threegate.gates.zotero_reader.messages import ZoteroItem, ZoteroPlace\n"
        "def place(path):\n"
        "    return ZoteroPlace('stored', 'AAAAAAAA', Untrusted(path)).to_bytes()\n"
        "ITEM = ZoteroItem('AAAAAAAA', 'AAAAAAAA', 0, 'book', {}, (), None, (), (), (), (), 0)\n"
        "ITEM = ITEM.to_bytes()\n"
        "def main():\n    read_message(0, 1 << 30)\n"
    )
    code = head + "\n".join(f"    {one}" for one in body.strip().splitlines()) + "\n"

    def start(*_: object, **__: object) -> Start:
        return start_with(directory, code, ZOTERO_READER)

    monkeypatch.setattr(open_box, "Start", start)


LIES = {
    "no message": "write_message(3, b'<!DOCTYPE html>')",
    "fewer places": "write_message(3, LibraryRead(ITEM + b'\\n' + ITEM, place('x')).to_bytes())",
    "a key with a path": (
        "write_message(3, LibraryRead(ITEM, place('x').replace(b'AAAAAAAA', b'../../..'))"
        ".to_bytes())"
    ),
    "an item of another form": "write_message(3, LibraryRead(b'{}', place('x')).to_bytes())",
    "nothing": "pass",
}


@pytest.mark.parametrize("lie", LIES)
# claim TG-C-616
def test_an_owned_sandbox_that_breaks_its_form_gives_no_items(
    lie: str, library: LibraryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(entries(library.path)) == 3, "control"
    owned(monkeypatch, tmp_path, LIES[lie])
    with pytest.raises(GateUnavailable, match="the Zotero reader ended: it "):
        entries(library.path)


# claim TG-C-616
def test_an_owned_sandbox_invents_items_and_reaches_no_file_outside_storage(
    library: LibraryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.txt").write_bytes(SECRET)
    path = "storage:../../../secret.txt"
    body = f"write_message(3, LibraryRead(ITEM, place({path!r})).to_bytes())"
    owned(monkeypatch, tmp_path / "owned", body)
    (tmp_path / "owned").mkdir()
    (entry,) = entries(library.path)
    assert b"AAAAAAAA" in entry.record, "control: its item is believed to be one"
    assert gap_of(entry) == ("denied", "a stored file with a path of its own")
    assert isinstance(entry.material(), Material)


# claim TG-C-615
def test_only_sqlite_is_there_and_the_sandbox_is_attacked_like_the_one_without(
    tmp_path: Path,
) -> None:
    natives = ("PIL.PngImagePlugin", "lxml.etree", "pyexpat", "pypdfium2_raw.bindings")
    there = importable(tmp_path, ZOTERO_READER, ("_sqlite3", *natives))
    assert there == ["_sqlite3"], "no other native part can be loaded"
    ours = {item.name for item in applicable(ZOTERO_READER.name)}
    without = {item.name for item in applicable("fetch-normalize") if not item.only}
    assert len(without) > 250, "control: there are attempts"
    assert without <= ours
