"""Cells: no row is wider than the terminal, and no character is lost between two."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.host.review.parts import StyledSpan, plain
from threegate.host.review.terminal.cells import (
    breaks,
    broken,
    cells,
    cut,
    marked,
    pad,
    part,
    spelling,
    width,
)

TEXT = st.text(
    st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from("漢字e\u0301😀אب\tα")
)


@given(TEXT, st.integers(2, 90))
def test_rows_hold_every_character_once_and_fit(text: str, room: int) -> None:
    rows = list(breaks(text, room))
    assert "".join(text[start:end] for start, end in rows) == text
    assert all(width(text[start:end]) <= room for start, end in rows)
    assert all(end > start for start, end in rows) or text == ""


@given(TEXT, st.integers(0, 90))
def test_cut_and_padded_text_fits(text: str, room: int) -> None:
    assert width(cut(text, room)) <= room
    assert width(pad(text, room)) == room
    assert cut(text, room) == text or width(text) > room


@given(TEXT, st.integers(2, 60))
def test_broken_words_fit(text: str, room: int) -> None:
    rows = broken(text, room)
    assert all(width(row) <= room for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")


def test_words_are_broken_at_blanks() -> None:
    assert broken("one two three", 8) == ["one two", "three"]
    assert broken("abcdefgh", 3) == ["abc", "def", "gh"]


@pytest.mark.parametrize("character", ["漢", "😀", "Ａ", "α", "§", "☃"])  # α: wide in old locales
def test_what_any_terminal_draws_wide_counts_as_wide(character: str) -> None:
    assert cells(character) == 2


def test_a_mark_that_some_terminals_draw_beside_its_letter_has_its_own_cell() -> None:
    assert unicodedata.combining("\u0301"), "control"
    assert width("e\u0301") >= 2


def test_parts_keep_their_style() -> None:
    line = (StyledSpan("abc", "keyword"), StyledSpan("def"), StyledSpan("ghi", "string"))
    assert part(line, 2, 7) == (
        StyledSpan("c", "keyword"),
        StyledSpan("def"),
        StyledSpan("g", "string"),
    )
    assert part(line, 0, 0) == ()


@given(st.text("ab", max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_marking_changes_styles_and_nothing_else(text: str, one: int, two: int) -> None:
    start, end = sorted((min(one, len(text)), min(two, len(text))))
    line = (StyledSpan(text[:5], "keyword"), StyledSpan(text[5:]))
    found = marked(line, [(start, end)], "match")
    assert plain(found) == text
    assert "".join(span.text for span in found if span.style == "match") == text[start:end]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "iso8859-1"])
def test_text_is_measured_as_it_is_sent(encoding: str) -> None:
    spell = spelling(encoding)
    shown = spell("\x1b[2J漢")
    assert shown.startswith("\\u{1b}[2J")
    assert spell(shown) == shown
    assert shown.endswith("\u6f22" if encoding == "utf-8" else "\\u{6f22}")
    assert shown.encode(encoding).decode(encoding) == shown
