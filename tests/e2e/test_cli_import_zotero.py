"""`threegate import zotero`: items of a library become packets, through real sandboxes."""

import os
from pathlib import Path

import pytest

from tests.e2e.test_cli_import import imported, stored
from tests.support.cli import Cli, made
from tests.support.zotero import PDF, LibraryFolder, sample
from threegate.artifacts.ids import sha256_hex

ARTICLE = "file:storage/KEY00002/paper.pdf"
BOOK = "file:zotero.sqlite/library/items/KEY00005"
NOTE = "file:zotero.sqlite/library/items/KEY00006"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


@pytest.fixture
def library(tmp_path: Path) -> LibraryFolder:
    return sample(tmp_path / "library")


def statuses(cli: Cli, *argv: str | Path, code: int = 0) -> dict[str, str]:
    return {name: one["status"] for name, one in imported(cli, *argv, code=code).items()}


def test_items_become_packets_with_what_the_library_says(cli: Cli, library: LibraryFolder) -> None:
    found = imported(cli, "zotero", library.path)
    assert {name: one["status"] for name, one in found.items()} == {
        ARTICLE: "made",
        BOOK: "made",
        NOTE: "made",
    }
    packet = stored(cli, found[ARTICLE]["id"])
    assert (packet.source, packet.url, packet.raw_sha256) == ("file", ARTICLE, sha256_hex(PDF))
    assert [one.source for one in packet.also] == ["zotero"]
    assert packet.title.open_for_validation() == "Strength of sea ice"
    assert {one.source for one in packet.metadata_from} == {"zotero"}
    labels = {
        one.label.open_for_validation(): (one.page, text.open_for_validation())
        for one, text in zip(packet.excerpts, packet.texts, strict=True)
    }
    assert labels["annotation, page iv"] == (1, "1.31 MPa")
    assert labels["note"] == (None, "Read twice.\nAsk Eva.")
    assert stored(cli, found[BOOK]["id"]).source == "zotero"
    assert "same" in cli("packet", "remake").out
    assert "verified" in cli("audit", "verify").out


def test_citation_keys_are_kept_through_an_export(cli: Cli, library: LibraryFolder) -> None:
    imported(cli, "zotero", library.path)
    exported = cli("packet", "export", "--format", "bibtex").out
    assert "@article{Berg2021-Ice," in exported
    assert "@misc{frost1999-" in exported, "without a key of the library it has one of ours"


def test_an_unchanged_item_is_already_here_and_a_changed_one_replaces(
    cli: Cli, library: LibraryFolder
) -> None:
    first = imported(cli, "zotero", library.path)
    assert set(statuses(cli, "zotero", library.path).values()) == {"already"}
    library.annotate(2, "in May", "", "v", 2)
    again = imported(cli, "zotero", library.path)
    assert (again[ARTICLE]["status"], again[BOOK]["status"]) == ("made", "already")
    assert again[ARTICLE]["replaces"] == first[ARTICLE]["id"]
    (library.path / "storage" / "KEY00002" / "paper.pdf").unlink()
    without = imported(cli, "zotero", library.path)["file:zotero.sqlite/library/items/KEY00001"]
    assert without["replaces"] == again[ARTICLE]["id"], "the item is the same, without its file"
    packet = stored(cli, without["id"])
    assert [(gap.source, gap.reason) for gap in packet.gaps] == [("file", "not-found")]
    library.insert("deletedItems", itemID=5)
    assert statuses(cli, "zotero", library.path)[BOOK] == "gone"


def test_collections_and_tags_choose_and_a_choice_does_not_say_gone(
    cli: Cli, library: LibraryFolder
) -> None:
    imported(cli, "zotero", library.path)
    assert statuses(cli, "zotero", library.path, "--collection", "Thesis/Chapter 1") == {
        ARTICLE: "already"
    }
    assert statuses(cli, "zotero", library.path, "--tag", "to read") == {ARTICLE: "already"}
    refused = cli("import", "zotero", library.path, "--collection", "Nothing", code=2)
    assert 'no collection "Nothing"' in refused.err


def test_a_file_that_cannot_be_read_leaves_the_item_and_a_further_one_is_refused(
    cli: Cli, library: LibraryFolder
) -> None:
    place = library.path / "storage" / "KEY00002" / "paper.pdf"
    place.write_bytes(b"%PDF-1.7 damaged")
    picture = library.attach(1, b"\x89PNG\r\n\x1a\n", "plot.png", kind="image/png")
    found = imported(cli, "zotero", library.path, code=os.EX_DATAERR)
    packet = stored(cli, found[ARTICLE]["id"])
    assert packet.source == "zotero"
    assert [(gap.source, gap.reason) for gap in packet.gaps] == [("file", "unreadable")]
    assert packet.title.open_for_validation() == "Strength of sea ice"
    further = found[f"file:storage/{library.key(picture)}/plot.png"]
    assert (further["status"], further["reason"]) == ("refused", "PNG is not read")


# claim TG-C-616
def test_no_absolute_path_of_a_linked_file_is_kept(
    cli: Cli, library: LibraryFolder, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "paper.pdf").write_bytes(PDF)
    library.db.execute(
        "UPDATE itemAttachments SET linkMode = 2, path = ?", (str(elsewhere / "paper.pdf"),)
    )
    imported(cli, "zotero", library.path, "--base", elsewhere)
    imported(cli, "zotero", library.path)
    assert cli.workspace is not None
    kept = [path for path in cli.workspace.rglob("*") if path.is_file()]
    assert [path for path in kept if b"file:attachments/paper.pdf" in path.read_bytes()], "control"
    for private in (elsewhere, library.path):
        assert not [path for path in kept if os.fsencode(private) in path.read_bytes()]


def test_options_of_the_other_kind_and_a_folder_without_a_library_are_refused(
    cli: Cli, library: LibraryFolder, tmp_path: Path
) -> None:
    for argv, why in (
        (("zotero", library.path, "--recursive"), "--recursive is for files and folders"),
        ((tmp_path, "--tag", "x"), "--tag is for `threegate import zotero`"),
        (("zotero", library.path, tmp_path), "one Zotero library at a time"),
        (("zotero", tmp_path), "has no zotero.sqlite"),
    ):
        assert why in cli("import", *argv, code=2).err


def test_zotero_in_the_middle_of_a_change_is_waited_for_by_the_operator(
    cli: Cli, library: LibraryFolder
) -> None:
    journal = library.path / "zotero.sqlite-journal"
    journal.write_bytes(bytes(512))
    assert len(imported(cli, "zotero", library.path, "--dry-run")) == 3, "control: it is empty"
    journal.write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(504))
    refused = cli("import", "zotero", library.path, code=os.EX_DATAERR)
    assert "Zotero is in the middle of a change" in refused.err
    assert "close Zotero" in refused.err
