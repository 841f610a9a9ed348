"""Stems of words, by Snowball: fracture, fractures and fractured have one stem.

SECURITY
    Reads words of strangers, at most `MAX_STEMMED_CHARS` long.  The stemmers are pure Python.  An
    error in one leaves the word as it is.
"""

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Final, Protocol, cast

LIBRARY: Final = "snowballstemmer"
# An index holds stems: another release may stem in another way, so this is part of its version.
RELEASE: Final = "3.1.1"
MAX_STEMMED_CHARS: Final = 40


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str:  # noqa: N802  # the library's name
        """Return the stem of a word in lower case."""
        ...


def stem(stemmer: str, word: str) -> str:
    """Return the stem of a word in lower case; the word itself if it has none."""
    if len(word) > MAX_STEMMED_CHARS:
        return word
    return _stemmer(stemmer).stemWord(word) or word


@cache
def _stemmer(name: str) -> _Stemmer:
    if LIBRARY not in sys.modules:
        # Its `__init__` imports all stemmers, which takes 80 ms; one takes 5.
        spec = find_spec(LIBRARY)
        assert spec is not None
        sys.modules[LIBRARY] = module_from_spec(spec)
    module = import_module(f"{LIBRARY}.{name}_stemmer")
    return cast("_Stemmer", getattr(module, f"{name.capitalize()}Stemmer")())
