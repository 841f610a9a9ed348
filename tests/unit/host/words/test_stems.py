"""Stems, one stemmer at a time."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from threegate.host.words.languages import LANGUAGES
from threegate.host.words.stems import LIBRARY, MAX_STEMMED_CHARS, RELEASE, stem


def test_the_release_in_the_index_is_the_one_installed() -> None:
    assert version(LIBRARY) == RELEASE


@pytest.mark.parametrize(
    ("stemmer", "words"),
    [
        ("english", ("fracture", "fractured", "fractures", "fracturing")),
        ("german", ("versicherung", "versicherungen")),
        ("german", ("haus", "häuser", "hauses")),
        ("french", ("étude", "études")),
        ("turkish", ("kırık", "kırıkların", "kırıklar")),
        ("russian", ("кость", "кости", "костей")),
        ("arabic", ("كتاب", "الكتاب")),
    ],
)
def test_forms_of_a_word_have_one_stem(stemmer: str, words: tuple[str, ...]) -> None:
    assert len({stem(stemmer, word) for word in words}) == 1


def test_every_language_has_its_stemmer_and_a_long_word_has_none() -> None:
    long = "s" * (MAX_STEMMED_CHARS + 1)
    for row in LANGUAGES.values():
        assert stem(row.stemmer, "x")
        assert stem(row.stemmer, long) == long


def test_other_stemmers_are_not_loaded() -> None:
    code = (
        "import sys; from threegate.host.words.stems import stem; stem('english', 'ices');"
        "print(sorted(name for name in sys.modules if name.endswith('_stemmer')))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['snowballstemmer.english_stemmer']"
