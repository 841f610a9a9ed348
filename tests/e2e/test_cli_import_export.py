"""`threegate import zotero library.bib`: an export of Zotero or Better BibTeX with its files."""

import os
from pathlib import Path

import pytest

from tests.support.cli import Cli, made
from tests.support.pdfs import line, pdf

BIB = r"""
@article{nansen2024flexural,
  title = {Flexural strength of {First-Year} sea ice},
  author = {Nansen, Ada and Larsen, Bo},
  journaltitle = {Journal of Ice},
  date = {2024-02},
  doi = {10.5555/ice.2024},
  keywords = {ice,strength},
  annote = {Read again.},
  file = {Full Text:files/12/nansen\:2024.pdf:application/pdf}
}

@book{holm2022,
  title = {Ice without a file},
  author = {Maren Holm},
  year = 2022
}

@misc{outside,
  title = {A path that leads away},
  file = {Secret:../secret.pdf:application/pdf}
}
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    folder = tmp_path / "export"
    (folder / "files" / "12").mkdir(parents=True)
    page = pdf(line("Sea ice broke at 1.31 MPa."))
    (folder / "files" / "12" / "nansen:2024.pdf").write_bytes(page)
    (tmp_path / "secret.pdf").write_bytes(pdf(line("A secret of 9.99 MPa.")))
    (folder / "library.bib").write_text(BIB)
    return folder / "library.bib"


def imported(cli: Cli, path: Path) -> dict[str, dict[str, str]]:
    found = cli("import", "zotero", path, "--json").json["files"]
    return {one["title"] or one["file"]: one for one in found}


def test_entries_become_packets_with_their_files_metadata_and_keys(cli: Cli, export: Path) -> None:
    found = imported(cli, export)
    assert [one["status"] for one in found.values()] == ["made"] * 3
    paper = found["Flexural strength of First-Year sea ice"]
    assert paper["file"] == "file:files/12/nansen:2024.pdf"
    shown = cli("packet", "show", paper["id"]).out
    for words in ("Ada Nansen", "Journal of Ice", "1.31 MPa", "Read again.", "10.5555/ice.2024"):
        assert words in shown
    assert "field=title  source=zotero" in shown
    exported = cli("packet", "export", "--format", "bibtex").out
    assert "{nansen2024flexural," in exported
    assert "{holm2022," in exported
    again = cli("import", "zotero", export, "--json").json["files"]
    assert {one["status"] for one in again} == {"already"}


def test_a_changed_entry_replaces_its_packet(cli: Cli, export: Path) -> None:
    first = imported(cli, export)["Ice without a file"]
    export.write_text(BIB.replace("Ice without a file", "Ice with another title"))
    second = imported(cli, export)["Ice with another title"]
    assert second["replaces"] == first["id"]


# claim TG-C-616
def test_a_path_out_of_the_folder_of_an_export_is_a_gap(cli: Cli, export: Path) -> None:
    found = imported(cli, export)
    assert (
        "1.31 MPa"
        in cli("packet", "show", found["Flexural strength of First-Year sea ice"]["id"]).out
    ), "control: a file in the folder is read"
    shown = cli("packet", "show", found["A path that leads away"]["id"]).out
    assert "reason=denied" in shown
    assert "9.99" not in shown
    assert cli("packet", "search", "secret", "--json").json["items"] == []


def test_a_file_that_is_no_export_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "broken.bib").write_text("@article{x, title = {never closed")
    refused = cli("import", "zotero", "broken.bib", code=os.EX_DATAERR)
    assert "an entry that is never closed" in refused.err
    missing = cli("import", "zotero", "nowhere.bib", code=2)
    assert "is not a file" in missing.err
