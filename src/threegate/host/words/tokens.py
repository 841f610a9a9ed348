"""Tokens: the forms in which words are stored in the index and compared with a question.

| text | tokens |
|---|---|
| Latin script | the folded stem, after the tag of its language; English has no tag |
| another script with spaces | the folded stem |
| a run of a script without spaces | each character with the next one |
| a number, or a word with a digit | itself |

Pure: no I/O.  The same text always has the same tokens.

SECURITY
    Reads text of strangers.  Tokens hold no blank and no quote, so they need no escape in a query.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from threegate.host.words.folding import MAX_WORD_CHARS, cut, folded, pairs, runs
from threegate.host.words.languages import (
    ENGLISH,
    LANGUAGES,
    LEAST_COMPOUND,
    Language,
    is_latin,
    languages_of,
    stemmer_of_script,
)
from threegate.host.words.stems import stem

CACHED_WORDS: Final = 2**15  # of each language
END: Final = "·"  # before and after the letters of a compound; never part of a word


class _Tokens(dict[str, str]):
    """The tokens of words that are not runs, in texts of one language; a bounded cache."""

    def __init__(self, language: Language) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, word: str) -> str:
        if not word.isalpha() and any(map(str.isdigit, word)):
            return folded(word)  # not kept: there is no end of numbers
        if len(self) >= CACHED_WORDS:
            self.clear()
        self[word] = found = self._made(word)
        return found

    def _made(self, word: str) -> str:
        if not is_latin(word):
            script = stemmer_of_script(word)
            return folded(word if script is None else stem(script, word))
        return self._language.tag + folded(stem(self._language.stemmer, word))


_TOKENS: Final = {code: _Tokens(language) for code, language in LANGUAGES.items()}


def token_of(language: str, word: str) -> str:
    """Return the token of a word that is not a run, in a text of this language."""
    return _TOKENS[language][word]


def tokens_of(words: Sequence[str], language: str) -> list[str]:
    """Return the tokens of words as `cut` returns them."""
    known = _TOKENS[language]
    if all(map(str.isascii, words)):
        return [known[word] for word in words]
    parts = (part for word in words for part in runs(word))
    found = (pairs(part) if unspaced else [known[part]] for part, unspaced in parts)
    return [token for tokens in found for token in tokens if token]


def words_of_each(texts: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the language and the tokens of each text of one work."""
    cuts = [cut(text) for text in texts]
    both = zip(cuts, languages_of(cuts), strict=True)
    return [(language, tokens_of(words, language)) for words, language in both]


@dataclass(frozen=True, slots=True)
class IndexedText:
    """What the index stores of the text of one artifact."""

    title: str
    body: str
    compounds: str  # the long words of languages that join words, in groups of three letters
    languages: tuple[str, ...]  # other than English


def indexed(title: str, parts: Sequence[str]) -> IndexedText:
    """Return the tokens of a title and of the parts of a text, each in its own language."""
    found = words_of_each([title, *parts])
    compounds: dict[str, None] = {}
    for language, tokens in found:
        if LANGUAGES[language].joins_words:
            tag = LANGUAGES[language].tag
            long = (one for one in tokens if one.startswith(tag) and len(one) > LEAST_COMPOUND)
            compounds.update(dict.fromkeys(one[len(tag) :] for one in long))
    return IndexedText(
        " ".join(found[0][1]),
        " ".join(chain.from_iterable(tokens for _, tokens in found[1:])),
        " ".join(group for word in compounds for group in groups(f"{END}{word}{END}")),
        tuple(sorted({language for language, tokens in found if tokens} - {ENGLISH})),
    )


def groups(letters: str) -> list[str]:
    """Return every three letters in a row."""
    return [letters[at : at + 3] for at in range(min(len(letters), MAX_WORD_CHARS) - 2)]
