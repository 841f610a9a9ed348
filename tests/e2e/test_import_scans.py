"""`threegate import` of scans: recognised in a sandbox, refused clearly, made again honestly."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Cli, made
from tests.support.pdfs import line, pdf
from tests.support.scans import read_as, scan

SENTENCE = "The lagoon froze in January and the ice broke"
ABSENT = "from threegate.host.fetch import scans\nscans.find_tesseract = lambda: None\n"
OTHER = "from threegate.sandbox import tesseract\ntesseract._digest = lambda path: 'f' * 64\n"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    place = tmp_path / "papers"
    place.mkdir()
    (place / "scan.pdf").write_bytes(scan(line(SENTENCE)))
    (place / "text.pdf").write_bytes(pdf(line("Sea ice broke at 1.31 MPa.")))
    return place


def imported(cli: Cli, *argv: str | Path, code: int = 0) -> dict[str, Any]:
    found = cli("import", *argv, "--json", code=code).json["files"]
    return {one["file"]: one for one in found}


# claim TG-C-586
def test_a_scan_is_imported_by_recognition_and_made_again(cli: Cli, papers: Path) -> None:
    found = imported(cli, papers)
    assert {one["status"] for one in found.values()} == {"made"}
    packet = found["file:scan.pdf"]
    assert packet["hazards"] == {"recognised": 1}
    assert found["file:text.pdf"]["hazards"] == {}, "control: a PDF with text is not recognised"
    shown = cli("packet", "show", packet["id"]).out
    assert SENTENCE in shown
    assert ", OCR " in shown
    assert read_as("eng") in shown
    picture = cli.base / "page.png"
    cli("packet", "page", packet["id"], "1", "--output", picture)
    assert picture.read_bytes().startswith(b"\x89PNG"), "a quote can be compared with its page"
    again = cli("packet", "remake", "--json").json
    assert {one["verdict"] for one in again["packets"]} == {"same"}
    assert imported(cli, papers)["file:scan.pdf"]["status"] == "already"


# claim TG-C-589
def test_without_its_engine_a_scan_is_not_said_to_be_the_same(cli: Cli, papers: Path) -> None:
    packet = imported(cli, papers)["file:scan.pdf"]["id"]

    def verdicts(patch: str) -> dict[str, tuple[str, str]]:
        found = cli.patched(patch)("packet", "remake", "--json", code=None).json["packets"]
        return {one["packet_id"]: (one["verdict"], one["why"]) for one in found}

    assert verdicts("")[packet][0] == "same", "control"
    absent, other = verdicts(ABSENT), verdicts(OTHER)
    assert absent[packet][0] == "cannot"
    assert "not installed" in absent[packet][1]
    assert other[packet][0] == "cannot"
    assert "another version" in other[packet][1]
    assert sorted(verdict for verdict, _ in absent.values()) == ["cannot", "same"]


def test_without_tesseract_a_scan_is_refused_and_imported_once_it_is_here(
    cli: Cli, papers: Path
) -> None:
    found = imported(cli.patched(ABSENT), papers, code=os.EX_DATAERR)
    assert found["file:text.pdf"]["status"] == "made", "control: the file beside it is imported"
    refused = found["file:scan.pdf"]
    assert (refused["status"], refused["code"]) == ("refused", "TG-IMP-012")
    assert "sudo apt install tesseract-ocr tesseract-ocr-eng" in refused["hint"]
    assert cli("quarantine", "list", "--json").json["items"] == [], "nothing is wrong with it"
    assert imported(cli, papers)["file:scan.pdf"]["status"] == "made"


def test_options_choose_the_language_or_no_recognition(cli: Cli, papers: Path) -> None:
    path = papers / "scan.pdf"
    refused = imported(cli, path, "--no-ocr", code=os.EX_DATAERR)["file:scan.pdf"]
    assert refused["reason"] == "a scan without text; --no-ocr was given"
    refused = imported(cli, path, "--ocr-language", "xyz", code=os.EX_DATAERR)["file:scan.pdf"]
    assert "tesseract-ocr-xyz" in refused["hint"]
    wrong = cli("import", path, "--ocr-language", "../eng", code=2)
    assert "is not a language" in wrong.err
    made_ = imported(cli, path, "--ocr-language", "deu+eng")["file:scan.pdf"]
    assert read_as("deu", "eng") in cli("packet", "show", made_["id"]).out
