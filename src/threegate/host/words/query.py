"""Queries: the words that somebody typed, in all forms that texts may hold them in.  Pure: no I/O.

A query has no language of its own.  Each word is stemmed in English and in every other language
that the searched texts are written in.

SECURITY
    Part of a query may be foreign text, such as the words of a drafted request.  An FTS5 query is
    made of tokens in quotes and of our own words only, so FTS syntax in it has no effect.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import UsageError
from threegate.host.words.folding import cut, pairs, runs
from threegate.host.words.languages import (
    COMPOUND_TAGS,
    ENGLISH,
    LANGUAGES,
    LEAST_COMPOUND,
    is_latin,
    language_of,
)
from threegate.host.words.tokens import END, groups, token_of

MAX_QUERY_CHARS: Final = 1000
MAX_QUERY_WORDS: Final = 64
LEAST_PART: Final = 4  # letters of a word that is looked for at both ends of a compound
LEAST_MIDDLE: Final = 5  # and anywhere in one

_TYPED: Final = re.compile(r'"([^"]+)"|(\S+)')

Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """A word or phrase in its forms; a text that holds one of them holds the term."""

    forms: tuple[Phrase, ...]
    begins: bool = False  # the last token is the beginning of one: a single character of a run
    parts: tuple[str, ...] | None = None  # stems that may be part of a compound, if there are any

    def fts(self) -> str:
        """Return the term as an FTS5 expression."""
        star = " *" if self.begins else ""
        forms = " OR ".join(f'"{" ".join(form)}"{star}' for form in self.forms)
        if self.parts is None:  # the column of compounds is empty; a filter costs time
            return f"({forms})"
        if not self.parts:
            return f"{{title body}} : ({forms})"
        inside = " OR ".join(f'"{" ".join(phrase)}"' for phrase in _inside(self.parts))
        return f"({{title body}} : ({forms}) OR compounds : ({inside}))"

    def holds(self, token: str) -> bool:
        """Tell whether a token of a text is this term; for terms of one word."""
        if (token,) in self.forms:
            return True
        if self.begins:
            return token.startswith(self.forms[0][0])
        is_compound = token[0] in COMPOUND_TAGS and len(token) > LEAST_COMPOUND
        return is_compound and any(_is_part(part, token[1:]) for part in self.parts or ())


def _inside(parts: Iterable[str]) -> Iterable[Phrase]:
    """Return the phrases of letters that find these stems in compounds."""
    for part in parts:
        ends = [part] if len(part) >= LEAST_MIDDLE else [f"{END}{part}", f"{part}{END}"]
        yield from (tuple(groups(one)) for one in ends)


def _is_part(part: str, word: str) -> bool:
    if len(part) >= LEAST_MIDDLE:
        return part in word
    return word.startswith(part) or word.endswith(part)


def term_of(words: Sequence[str], languages: Iterable[str]) -> Term | None:
    """Return words in a row as one term; None if there are none.

    `languages` are those of the texts besides English.
    """
    cuts = [part for word in words for part in runs(word)]
    if not cuts:
        return None
    spoken = list(dict.fromkeys([ENGLISH, *languages]))
    forms = dict.fromkeys(_form(cuts, language) for language in spoken)
    last, unspaced = cuts[-1]
    joining = [LANGUAGES[one] for one in spoken if LANGUAGES[one].joins_words]
    alone = len(cuts) == 1 and last.isalpha() and is_latin(last)
    stems = (token_of(row.code, last).removeprefix(row.tag) for row in joining if alone)
    parts = tuple(dict.fromkeys(one for one in stems if len(one) >= LEAST_PART))
    known = tuple(form for form in forms if form)
    begins = unspaced and len(last) == 1
    return Term(known, begins, parts if joining else None) if known else None


def _form(cuts: Sequence[tuple[str, bool]], language: str) -> Phrase:
    found: list[str] = []
    for number, (part, unspaced) in enumerate(cuts, 1):
        if not unspaced:
            found.append(token_of(language, part))
        elif number < len(cuts) or len(part) == 1:
            found += pairs(part)
        else:
            found += pairs(part)[:-1]  # the text may go on here
    return tuple(filter(None, found))


def typed_terms(typed: str, languages: Iterable[str]) -> list[Term]:
    """Return a term for each word and "phrase"; raises `UsageError` if there is none."""
    if len(typed) > MAX_QUERY_CHARS:
        raise UsageError(f"query of {len(typed)} characters, limit {MAX_QUERY_CHARS}")
    try:
        typed.encode("utf-8")
    except UnicodeEncodeError as exc:  # bytes on the command line that are no text
        raise UsageError("the query is not valid text") from exc
    held = list(languages)
    pieces = (cut(phrase or word) for phrase, word in _TYPED.findall(typed))
    terms = [term for words in pieces if (term := term_of(words, held)) is not None]
    if not terms:
        raise UsageError("the query has no words")
    return terms


def question_words(question: str) -> list[str]:
    """Return the words of a question that say what it is about, each once.

    Without the common words of its language, unless there are no others.  A run is cut into
    overlapping pairs: a question and a text rarely share a whole run.
    """
    words = cut(question)
    common = LANGUAGES[language_of(words) or ENGLISH].common
    found: dict[str, None] = {}
    for word in [one for one in words if one not in common] or words:
        for part, unspaced in runs(word):
            pieces = (pairs(part)[:-1] or [part]) if unspaced else [part]
            found.update(dict.fromkeys(pieces))
    return list(found)[:MAX_QUERY_WORDS]


def question_terms(question: str, languages: Iterable[str]) -> list[Term]:
    """Return a term for each word of a question; words with the same forms make one term."""
    held = sorted(set(languages))
    terms = (term_of([word], held) for word in question_words(question))
    return list(dict.fromkeys(term for term in terms if term is not None))
