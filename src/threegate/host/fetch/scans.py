"""Scans: PDF files without text, which Tesseract reads in the sandbox `fetch-ocr`.

The record of a scan names the languages and a digest over Tesseract's library and language data,
as part of the type that the bytes are read as.  So a packet is still a function of its record and
raw bytes, and a machine with another Tesseract knows that it cannot make the same packet.

SECURITY
    Decides on the host which record a scan gets; the bytes are not looked at.  If this module is
    wrong, a packet names another engine than the one that read it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from threegate.artifacts.media_types import PDF, languages_of, recognised_pdf
from threegate.base.errors import ArtifactRejected
from threegate.gates.fetch.normalize.messages import KeptAnswer, RetrievalRecord
from threegate.sandbox.tesseract import PACKAGES, Tesseract, find_tesseract

NOT_RECOGNISED: Final = "TG-IMP-012"  # a scan, and its text cannot or may not be recognised here
_SCAN: Final = "a scan without text"


@dataclass(frozen=True, slots=True)
class ScanReader:
    """Reads scans in these languages, or refuses them if there are none."""

    languages: tuple[str, ...]

    def record_for(self, record: RetrievalRecord) -> RetrievalRecord:
        """Return the record for recognition of the PDF files in `record`.

        Raises `ArtifactRejected` if recognition is not possible here, or has been tried.
        """
        if not self.languages:
            hint = "import it without --no-ocr"
            raise ArtifactRejected(f"{_SCAN}; --no-ocr was given", code=NOT_RECOGNISED, hint=hint)
        if all(answer.read_as != PDF for answer in record.answers):
            raise ArtifactRejected(_SCAN, code=NOT_RECOGNISED)
        engine = _installed(self.languages)
        kind = recognised_pdf(self.languages, engine.digest(self.languages))
        answers = tuple(_read_as(answer, kind) for answer in record.answers)
        return replace(record, answers=answers)


ENGLISH_SCANS: Final = ScanReader(("eng",))


def missing_engine(record: RetrievalRecord) -> str:
    """Return why the scans of a record cannot be read here as they were; empty if they can."""
    for answer in record.answers:
        languages = languages_of(answer.read_as)
        if not languages:
            continue
        try:
            engine = _installed(languages)
        except ArtifactRejected as exc:
            return exc.message
        if recognised_pdf(languages, engine.digest(languages)) != answer.read_as:
            return f"{_SCAN}; another version of Tesseract or of its language data is here"
    return ""


def given_tesseract() -> dict[str, str]:
    """Return what the sandbox of scans is given."""
    found = find_tesseract()
    return {} if found is None else found.given()


def _installed(languages: Sequence[str]) -> Tesseract:
    found = find_tesseract()
    if found is None:
        detail = f"{_SCAN}; Tesseract, which recognises text, is not installed"
        hint = f"sudo apt install {PACKAGES}; then the same import again"
        raise ArtifactRejected(detail, code=NOT_RECOGNISED, hint=hint)
    missing = [name for name in languages if name not in found.languages]
    if missing:
        packages = " ".join(f"tesseract-ocr-{name.replace('_', '-')}" for name in missing)
        detail = f"{_SCAN}; Tesseract has no data for the language {', '.join(missing)}"
        here = f"--ocr-language takes {', '.join(found.languages)} here"
        hint = f"sudo apt install {packages}; {here}"
        raise ArtifactRejected(detail, code=NOT_RECOGNISED, hint=hint)
    return found


def _read_as(answer: KeptAnswer, kind: str) -> KeptAnswer:
    return replace(answer, read_as=kind) if answer.read_as == PDF else answer
