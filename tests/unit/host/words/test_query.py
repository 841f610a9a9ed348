"""Queries: forms of words in each language, phrases, and nothing that FTS5 takes for syntax."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.errors import UsageError
from threegate.host.words.languages import LANGUAGES
from threegate.host.words.query import (
    MAX_QUERY_CHARS,
    MAX_QUERY_WORDS,
    question_terms,
    question_words,
    typed_terms,
)
from threegate.host.words.tokens import indexed, words_of_each

OTHERS = [code for code in LANGUAGES if code != "en"]
SCHEMA = """CREATE VIRTUAL TABLE texts USING fts5 (
    title, body, compounds, tokenize = "ascii tokenchars '.,'")"""


def query(typed: str, *languages: str) -> str:
    return " AND ".join(term.fts() for term in typed_terms(typed, languages))


@pytest.mark.parametrize(
    ("typed", "languages", "found"),
    [
        ("fractured", (), '("fractur")'),
        ("fractured", ("fr",), '("fractur" OR "éfractured")'),
        ('"sea ice"', (), '("sea ice")'),
        ("10.5555/12345", (), '("10.5555 12345")'),
        ("癌", (), '("癌" *)'),
        ("骨折診断", ("fr",), '("骨折 折診 診断")'),
        ("A型肝炎", (), '("a 型肝 肝炎")'),
        ("维A", (), '("维 a")'),
        ("the", ("de",), '{title body} : ("the" OR "äthe")'),
        (
            "Haus",
            ("de",),
            '({title body} : ("haus" OR "ähaus") OR compounds : ("·ha hau aus" OR "hau aus us·"))',
        ),
        (
            "Beitrag",
            ("de",),
            '({title body} : ("beitrag" OR "äbeitrag") OR compounds : ("bei eit itr tra rag"))',
        ),
    ],
)
def test_words_become_their_forms(typed: str, languages: tuple[str, ...], found: str) -> None:
    assert query(typed, *languages) == found


@pytest.mark.parametrize(
    "typed", ["", "   ", "\0", "x" * (MAX_QUERY_CHARS + 1), '""', "(*)", "\udcff"]
)
def test_a_query_without_words_or_too_long_is_refused(typed: str) -> None:
    assert query("x"), "control"
    with pytest.raises(UsageError):
        typed_terms(typed, ())


def matches(db: sqlite3.Connection, match: str) -> int:
    return int(db.execute("SELECT count(*) FROM texts WHERE texts MATCH ?", (match,)).fetchone()[0])


@given(st.text(min_size=1, max_size=80))
# claim TG-C-560
def test_no_text_is_a_syntax_error(typed: str) -> None:
    db = sqlite3.connect(":memory:")
    db.execute(SCHEMA)
    try:
        match = query(typed, *OTHERS)
    except UsageError:
        return
    assert matches(db, match) == 0
    db.close()


@pytest.mark.parametrize("typed", ["a " * 500, "骨折" * 500, "ab" * 500, '"' + "x " * 499 + '"'])
def test_the_longest_queries_are_answered(typed: str) -> None:
    db = sqlite3.connect(":memory:")
    db.execute(SCHEMA)
    assert matches(db, query(typed[:MAX_QUERY_CHARS], *OTHERS)) == 0
    db.close()


def test_a_question_leaves_out_the_common_words_of_its_language() -> None:
    german = question_words("Welche Beiträge zur Krankenversicherung gibt es?")
    assert german == ["beiträge", "krankenversicherung"]
    assert question_words("How strong is the sea ice?") == ["strong", "sea", "ice"]
    assert question_words("What is it?") == ["what", "is", "it"], "there are no others"
    assert question_words("骨折の診断") == ["骨折", "折の", "の診", "診断"]
    assert len(question_words(" ".join(f"w{n}" for n in range(200)))) == MAX_QUERY_WORDS


def test_words_with_the_same_stem_are_one_term() -> None:
    assert len(question_terms("fracture fractured fractures", ())) == 1


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("fracture", "He fractured it.", True),
        ("Versicherung", "Der Krankenversicherungsbeitrag ist für die Kasse und das Haus.", True),
        ("Haus", "Das Krankenhaus ist für die Kinder und die Eltern.", True),
        ("Haus", "Die Schauspieler sind für das Theater und die Leute.", False),
        ("form", "Information of the form.", True),
        ("form", "Information of the transformation.", False),
        ("癌", "肺癌的治疗", True),
        ("癌", "肺炎的治疗", False),
        ("news", "The new ones are here.", False),
    ],
)
def test_a_term_holds_the_same_tokens_as_the_index_finds(word: str, text: str, found: bool) -> None:
    ((language, tokens),) = words_of_each([text])
    (term,) = question_terms(word, {language})
    assert any(map(term.holds, tokens)) is found
    db = sqlite3.connect(":memory:")
    db.execute(SCHEMA)
    row = indexed(text, [])
    db.execute("INSERT INTO texts VALUES (?, ?, ?)", (row.title, row.body, row.compounds))
    assert matches(db, term.fts()) == found
    db.close()
