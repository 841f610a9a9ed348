"""Tesseract as it is installed on this machine: its library and the data of its languages.

SECURITY
    The sandbox `fetch-ocr` loads this library before its lock.  So it counts only at fixed places
    where no other account can replace it (`programs`).  If this module is wrong, the code of
    another account runs in that sandbox, before the lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from threegate.base.forms import OCR_LANGUAGE
from threegate.base.limits import MIB
from threegate.sandbox.programs import is_unexchangeable

PACKAGES: Final = "tesseract-ocr tesseract-ocr-eng"  # on Debian; one package for each language
_NAME: Final = "libtesseract.so.5"
_LIBRARIES: Final = tuple(
    Path("/usr", place, _NAME)
    for place in ("lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "lib")
)
_DATA: Final = tuple(
    Path("/usr/share", place)
    for place in ("tesseract-ocr/5/tessdata", "tesseract/tessdata", "tessdata")
)
_ENDING: Final = ".traineddata"
_NOT_LANGUAGES: Final = ("equ", "osd")  # formulas, and the orientation of a page
_PIECE_BYTES: Final = 1 * MIB


@dataclass(frozen=True, slots=True)
class Tesseract:
    """The files of an installed Tesseract."""

    library: Path
    data: Path
    languages: tuple[str, ...]

    def given(self) -> dict[str, str]:
        """Return what the sandbox is given."""
        return {"tesseract": str(self.library), "tessdata": str(self.data)}

    def digest(self, languages: Sequence[str]) -> str:
        """Return a digest over the library and the data of these languages, in this order."""
        files = [self.library, *(self.data / f"{name}{_ENDING}" for name in languages)]
        return sha256("".join(map(_digest, files)).encode("ascii")).hexdigest()


def find_tesseract() -> Tesseract | None:
    """Return Tesseract if it is installed with at least one language."""
    library = next((path for path in _LIBRARIES if is_unexchangeable(path, program=False)), None)
    for data in _DATA:
        names = sorted(path.name.removesuffix(_ENDING) for path in data.glob(f"*{_ENDING}"))
        languages = tuple(
            name
            for name in names
            if OCR_LANGUAGE.fullmatch(name)
            and name not in _NOT_LANGUAGES
            and is_unexchangeable(data / f"{name}{_ENDING}", program=False)
        )
        if library is not None and languages:
            return Tesseract(library.resolve(), data.resolve(), languages)
    return None


def _digest(path: Path) -> str:
    found = sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            found.update(piece)
    return found.hexdigest()
