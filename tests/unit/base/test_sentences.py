"""Sentences are counted the same way on both sides of a gate, whatever the text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.sentences import MAX_LINE_CHARS, sentences, spans


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ice broke at 1.2 MPa. It was cold.", ("Ice broke at 1.2 MPa.", "It was cold.")),
        ("See Fig. 3 and Smith et al. 2019 for it.", ("See Fig. 3 and Smith et al. 2019 for it.",)),
        ("By J. R. Smith. Next one!", ("By J. R. Smith.", "Next one!")),
        ("One\n\nTwo without an end", ("One", "Two without an end")),
        ("He said \u201cno.\u201d Then left.", ("He said \u201cno.\u201d", "Then left.")),
        ("wrapped\nline goes on. 12 rows.", ("wrapped\nline goes on.", "12 rows.")),
        ('{"a": 1.5, "b": [2, 3]}', ('{"a": 1.5, "b": [2, 3]}',)),
        ("", ()),
        (" \n\n \t", ()),
    ],
)
def test_text_is_cut_into_sentences(text: str, expected: tuple[str, ...]) -> None:
    assert sentences(text) == expected


def test_a_text_without_an_end_is_cut_at_blanks() -> None:
    found = sentences("word " * 1000)
    assert all(len(one) <= MAX_LINE_CHARS for one in found)
    assert " ".join(found) == ("word " * 1000).strip()
    assert [len(one) for one in sentences("x" * 2500)] == [1000, 1000, 500]


def test_a_megabyte_of_any_shape_is_cut_in_linear_time() -> None:
    for piece in ("x", " ", ". A", "\n \n", '."'):
        found = spans(piece * (2**20 // len(piece)))
        assert all(end - start <= MAX_LINE_CHARS for start, end in found)


@given(st.text(st.sampled_from("aA .!?\n\"'1(") | st.characters(), max_size=400))
def test_spans_cover_everything_but_blanks_in_order(text: str) -> None:
    found = spans(text)
    assert "".join("".join(text[a:b].split()) for a, b in found) == "".join(text.split())
    assert all(a < b and text[a:b] == text[a:b].strip() for a, b in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
