"""Which record a scan gets, and the words of a refusal."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.normalization import ask, got
from threegate.artifacts.media_types import PDF, languages_of
from threegate.base.errors import ArtifactRejected
from threegate.gates.fetch.normalize.messages import RetrievalRecord
from threegate.host.fetch import scans
from threegate.host.fetch.scans import ENGLISH_SCANS, ScanReader, missing_engine
from threegate.sandbox.tesseract import Tesseract

RECORD = ask([got("file", b"%PDF", PDF, role="document")], scheme="file", want="full-text")[0]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tesseract:
    (tmp_path / "library").write_bytes(b"library")
    for name in ("deu", "eng"):
        (tmp_path / f"{name}.traineddata").write_bytes(name.encode())
    found = Tesseract(tmp_path / "library", tmp_path, ("deu", "eng"))
    monkeypatch.setattr(scans, "find_tesseract", lambda: found)
    return found


def refusal(reader: ScanReader, record: RetrievalRecord = RECORD) -> tuple[str, str, str]:
    with pytest.raises(ArtifactRejected) as caught:
        reader.record_for(record)
    return caught.value.code, caught.value.message, caught.value.hint


@pytest.mark.usefixtures("engine")
def test_the_record_of_a_scan_names_its_engine_and_changes_nothing_else() -> None:
    record = ScanReader(("deu", "eng")).record_for(RECORD)
    (answer,) = record.answers
    assert languages_of(answer.read_as) == ("deu", "eng")
    assert replace(record, answers=(replace(answer, read_as=PDF),)) == RECORD
    assert missing_engine(record) == ""
    assert missing_engine(RECORD) == "", "control: another document needs no engine"


@pytest.mark.usefixtures("engine")
def test_a_scan_is_given_to_recognition_once() -> None:
    once = ENGLISH_SCANS.record_for(RECORD)
    assert refusal(ENGLISH_SCANS, once)[0] == "TG-IMP-012", "a sandbox that lies makes no circle"


def test_without_tesseract_the_refusal_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "find_tesseract", lambda: None)
    code, message, hint = refusal(ENGLISH_SCANS)
    assert code == "TG-IMP-012"
    assert message == "a scan without text; Tesseract, which recognises text, is not installed"
    assert hint.startswith("sudo apt install tesseract-ocr tesseract-ocr-eng")


@pytest.mark.usefixtures("engine")
def test_a_language_without_data_names_its_package() -> None:
    code, message, hint = refusal(ScanReader(("eng", "chi_sim")))
    assert (code, message) == (
        "TG-IMP-012",
        "a scan without text; Tesseract has no data for the language chi_sim",
    )
    assert hint.startswith("sudo apt install tesseract-ocr-chi-sim; ")
    assert "deu, eng" in hint


@pytest.mark.usefixtures("engine")
def test_recognition_can_be_switched_off() -> None:
    assert refusal(ScanReader(()))[1] == "a scan without text; --no-ocr was given"


def test_another_engine_is_not_the_one_that_a_record_names(
    engine: Tesseract, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = ENGLISH_SCANS.record_for(RECORD)
    assert missing_engine(record) == "", "control"
    (engine.data / "eng.traineddata").write_bytes(b"newer data")
    assert "another version of Tesseract" in missing_engine(record)
    monkeypatch.setattr(scans, "find_tesseract", lambda: None)
    assert "not installed" in missing_engine(record)
