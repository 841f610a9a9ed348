"""Composed text: the same as the library's, piece by piece, whatever is sent."""

import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.fetch.normalize import composition
from threegate.gates.fetch.normalize.composition import composed

PIECES = ("a", "é", "e\u0301", "한", "\u1100\u1161\u11a8", "\u09c7\u09be", "北", "\u0316", "ﬁ", " ")


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
@given(st.lists(st.sampled_from(PIECES), max_size=60))
def test_pieces_give_what_the_whole_gives(form: Literal["NFC", "NFKC"], found: list[str]) -> None:
    text = "".join(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "PIECE_CHARS", 16)
        runs = list(composition._pieces(text))
        assert "".join(runs) == text
        if all(composition._begins(run[0]) for run in runs[1:]):
            assert composed(text, form) == unicodedata.normalize(form, text)


def test_every_character_that_joins_what_stands_before_it_is_known() -> None:
    """As of this Python's Unicode: a starter that is the second half of a composition."""
    for point in range(0x110000):
        whole = chr(point)
        halves = unicodedata.decomposition(whole).split()
        if len(halves) != 2 or halves[0].startswith("<"):
            continue
        if unicodedata.normalize("NFC", whole) == whole:
            assert not composition._begins(chr(int(halves[1], 16))), halves


def test_half_a_million_marks_in_turn_are_composed() -> None:
    text = "a" + "\u0300\u0316" * 200_000  # hours, if each had to pass all before it
    assert len(composed(text)) == len(composed(composed(text), "NFKC"))
