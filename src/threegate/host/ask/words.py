"""Words of a text, for ranking: lower case, without the commonest, plural like singular."""

import re
from collections.abc import Sequence
from typing import Final

MAX_QUERY_WORDS: Final = 64
_WORD: Final = re.compile(r"[^\W_]+(?:[.,][0-9]+)*")
_COMMON_ONES: Final = """
a about all also am an and any are as at be been between both but by can could did do does done
each for from get had has have he her here him his how i if in into is it its just many may me
might more most much must my no nor not of on one only or other our out over own shall she should
so some such than that the their them then there these they this those to too under up us very was
we were what when where which while who whom whose why will with would you your
"""
_COMMON: Final = frozenset(_COMMON_ONES.split())


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are compared, in order."""
    return [_stem(word) for word in _WORD.findall(text.lower())]


def query_words(text: str) -> list[str]:
    """Return the words of a question that say what it is about, each once, as compared."""
    found = [_stem(word) for word in _asked(text)]
    return list(dict.fromkeys(found))[:MAX_QUERY_WORDS]


def spelled(text: str) -> list[str]:
    """Return the words of a question in the spellings an index should look for."""
    found: list[str] = []
    for word in _asked(text)[:MAX_QUERY_WORDS]:
        stem = _stem(word)
        found += [word, stem] if stem != word or not word.isalpha() else [word, f"{word}s"]
    return list(dict.fromkeys(found))


def _asked(text: str) -> Sequence[str]:
    """Return the words that are not common, or all of them if there are no others."""
    words = _WORD.findall(text.lower())
    return [word for word in words if word not in _COMMON] or words


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
