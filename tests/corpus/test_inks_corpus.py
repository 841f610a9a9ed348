"""Every kind of ink and every colour function of the corpus has a vector of text nobody sees.

The vectors are in `tests/support`; the unit tests of the readers go through all of them.  Here
they are compared with what real documents use, and those that are met are read once more.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.support.odd_pdfs import INKS
from tests.support.pages import COLOUR_FUNCTIONS, MARK, answer, page
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.readers import html, pdf

# ISO 32000-1, table 62, and the operators that set an ink without its name.
NAMES = {name: re.compile(rf"/{name}(?![A-Za-z0-9])".encode()) for name in INKS}
OPERATORS = {
    "DeviceGray": re.compile(rb"[0-9.]\s+[gG]\s"),
    "DeviceRGB": re.compile(rb"[0-9.]\s+(?:rg|RG)\s"),
    "DeviceCMYK": re.compile(rb"[0-9.]\s+[kK]\s"),
}
EVERY_INK = re.compile(rb"/(Device[A-Z][A-Za-z]*|Cal[A-Z][A-Za-z]*)(?![A-Za-z0-9])")
STREAM = re.compile(rb"stream\r?\n")
MAX_STREAM_BYTES = 2**20
# `name(` in a declaration of a colour, a background or a border.
DECLARED = re.compile(
    r"(?:color|background|border|fill|shadow)[-a-z]*\s*:\s*([^;{}\"']*)", re.IGNORECASE
)
FUNCTION = re.compile(r"([a-z][-a-z]*)\(", re.IGNORECASE)
# Functions in such declarations that make no colour of their own.
OTHER_FUNCTIONS = {"url", "var", "calc", "linear-gradient", "radial-gradient", "image-set"} | {
    "not"  # of a selector such as `.fill:not()`
}


def files(corpus: Path, ending: str) -> list[Path]:
    found = sorted(corpus.rglob(f"*{ending}"))
    assert found, f"no {ending} in the corpus"
    return found


def streams(raw: bytes) -> Iterator[bytes]:
    """Yield a file and what is packed in it."""
    yield raw
    for match in STREAM.finditer(raw):
        try:
            start = raw[match.end() : match.end() + MAX_STREAM_BYTES]
            yield zlib.decompressobj().decompress(start, MAX_STREAM_BYTES)
        except zlib.error:
            continue


def inks_of(raw: bytes) -> set[str]:
    found: set[str] = set()
    for text in streams(raw):
        found |= {name for name, ink in NAMES.items() if ink.search(text)}
        found |= {name for name, ink in OPERATORS.items() if ink.search(text)}
        found |= {match.decode() for match in EVERY_INK.findall(text)}
    return found


def letters(raw: bytes) -> tuple[str, dict[str, int]]:
    found = pdf.read(Untrusted(raw), answer())
    return found.parts[0].text.open_for_validation(), dict(found.found)


# claim TG-C-423
def test_every_ink_of_the_corpus_has_a_vector_that_is_removed_or_counted(corpus: Path) -> None:
    seen: Counter[str] = Counter()
    for path in files(corpus, ".pdf"):
        if path.parent.parent.name != "hostile":  # bombs
            seen.update(inks_of(path.read_bytes()))
    print(f"\ninks: {dict(seen)}")
    assert {"DeviceRGB", "ICCBased", "Separation", "Indexed"} <= seen.keys(), (
        "control: they are met"
    )
    assert not seen.keys() - INKS.keys(), "an ink without a vector"
    for ink in seen:
        text, hazards = letters(INKS[ink][0])
        assert hazards and ("HIDE" not in text or hazards.get("hidden-undecided")), ink
        assert "HIDE" in letters(INKS[ink][1])[0], f"control: {ink} that is seen stays"


# claim TG-C-422
def test_every_colour_function_of_the_corpus_has_a_vector_that_is_removed(corpus: Path) -> None:
    seen: Counter[str] = Counter()
    for path in files(corpus, ".html"):
        values = DECLARED.findall(path.read_text("utf-8", "replace"))
        seen.update({name.lower() for value in values for name in FUNCTION.findall(value)})
    print(f"\ncolour functions: {dict(seen)}")
    met = seen.keys() - OTHER_FUNCTIONS
    assert {"rgba"} <= met, "control: they are met"
    assert not met - COLOUR_FUNCTIONS.keys(), "a function without a vector"
    for name in met:
        for colour, there in zip(COLOUR_FUNCTIONS[name], (False, True), strict=True):
            found = html.read(Untrusted(page(f'<p style="color:{colour}">{MARK}</p>')), answer())
            text = "".join(part.text.open_for_validation() for part in found.parts)
            assert ("ZZmarker" in text, "hidden-text" in found.found) == (there, not there), colour
