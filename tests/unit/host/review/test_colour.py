"""Code taken apart: any text, every word where it stands, and nothing painted as what it is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.host.review.code_flags import MAX_LINE_CHARS, lex

CODE = '''import math
def mean(rows):  # of all
    """Two
    lines."""
    return f"{sum(rows)}" if rows else 0.5
'''


def words(code: str, kind: str) -> list[tuple[str, int]]:
    return [(token.text, token.line) for token in lex(code).tokens if token.kind == kind]


def test_a_program_is_taken_apart() -> None:
    assert lex(CODE).whole
    assert words(CODE, "keyword") == [
        ("import", 1),
        ("def", 2),
        ("return", 5),
        ("if", 5),
        ("else", 5),
    ]
    assert words(CODE, "comment") == [("# of all", 2)]
    assert words(CODE, "number") == [("0.5", 5)]
    assert ('"""Two', 3) in words(CODE, "string")
    assert ('    lines."""', 4) in words(CODE, "string"), "in each line it stands in"
    assert ("mean", 2) in words(CODE, "name")


@pytest.mark.parametrize(
    "code",
    ["x = (1", "'open", '"""open\nx = 1', "  x\n y", "x = $\n)", "x" * (MAX_LINE_CHARS + 1)],
)
def test_what_the_tokenizer_refuses_is_read_without_comments(code: str) -> None:
    text = f"{code}\nimport os  # not hidden\n"
    found = lex(text)
    assert not found.whole
    assert {"comment"} & {token.kind for token in found.tokens} == set()
    assert ("import", text.count("\n")) in words(text, "keyword")
    assert lex("import os  # x\n").tokens[-1].kind == "comment", "control"


@given(st.text())
def test_any_text_is_taken_apart_and_every_word_stands_where_it_says(code: str) -> None:
    lines = code.split("\n")
    for token in lex(code).tokens:
        assert lines[token.line - 1][token.start : token.end] == token.text


@given(st.text(alphabet="\"'\\({f#\n\t x1", max_size=200))
def test_quotes_and_brackets_of_any_kind(code: str) -> None:
    lines = code.split("\n")
    for token in lex(code).tokens:
        assert lines[token.line - 1][token.start : token.end] == token.text
        assert token.text


@pytest.mark.parametrize("unit", ['"\\', "'", "(", "f'{", "\\\n", "0_", "'''\n"])
def test_hostile_repetition_ends(unit: str) -> None:
    # Searching for the end of a text from each quote again took hours.
    assert lex(unit * 60_000).tokens is not None
