"""Tesseract counts only where no other account can replace it, and is named by its bytes."""

from pathlib import Path

import pytest

from tests.support.scans import tesseract
from threegate.sandbox import tesseract as module
from threegate.sandbox.tesseract import Tesseract, find_tesseract


def test_the_installed_one_is_found_with_its_languages() -> None:
    found = tesseract()
    assert {"deu", "eng"} <= set(found.languages)
    assert "osd" not in found.languages
    assert all(Path(path).exists() for path in found.given().values())
    assert len({found.digest(["eng"]), found.digest(["deu"]), found.digest(["eng", "deu"])}) == 3
    assert found.digest(["eng"]) == found.digest(["eng"])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "library").write_bytes(b"library")
    for name in ("eng", "chi_sim", "osd", "UPPER", "no-code"):
        (tmp_path / f"{name}.traineddata").write_bytes(name.encode())
    monkeypatch.setattr(module, "_LIBRARIES", (tmp_path / "absent", tmp_path / "library"))
    monkeypatch.setattr(module, "_DATA", (tmp_path / "absent", tmp_path))
    return tmp_path


def test_only_names_of_languages_count(place: Path) -> None:
    found = find_tesseract()
    assert found == Tesseract(place / "library", place, ("chi_sim", "eng"))


def test_other_bytes_are_another_engine(place: Path) -> None:
    found = find_tesseract()
    assert found is not None
    before = found.digest(["eng"]), found.digest(["chi_sim"])
    (place / "eng.traineddata").write_bytes(b"other data")
    assert found.digest(["eng"]) != before[0]
    assert found.digest(["chi_sim"]) == before[1], "control: another language is as before"
    (place / "library").write_bytes(b"another library")
    assert found.digest(["chi_sim"]) != before[1]


@pytest.mark.parametrize("name", ["library", "eng.traineddata"])
# claim TG-C-585
def test_a_file_that_another_account_can_write_does_not_count(place: Path, name: str) -> None:
    whole = find_tesseract()
    assert whole is not None, "control"
    assert "eng" in whole.languages
    (place / name).chmod(0o666)
    found = find_tesseract()
    assert (
        found is None if name == "library" else found is not None and "eng" not in found.languages
    )
