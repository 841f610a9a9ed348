"""Frames: exactly as large as the terminal, whatever the text, and the facts are on them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.host.review.terminal.test_press import A, listed, pressed, seen, showing
from threegate.host.review.approval import TermBounds
from threegate.host.review.parts import StyledLine, StyledSpan, plain
from threegate.host.review.terminal.cells import width
from threegate.host.review.terminal.pager import document
from threegate.host.review.terminal.press import press
from threegate.host.review.terminal.screen import Key
from threegate.host.review.terminal.state import (
    OpenedSheet,
    ReviewQueue,
    State,
    TermsChoice,
    WaitingRequest,
    drawn,
    opened,
    refreshed,
    resized,
)
from threegate.host.review.terminal.views import age, frame, lifetime

HOSTILE = st.text(st.sampled_from("a漢😀e\u0301א\u05b0 |>\u3000"), max_size=300)
TERMS = TermsChoice(1, 3600, TermBounds(3600, 10, 86_400))


def described(state: State) -> str:
    return "\n".join(plain(row) for row in frame(state))


def state_of(text: str, columns: int, rows: int) -> State:
    item = WaitingRequest(A, "held", "core", 7260, 2, text)
    state = refreshed(State(columns, rows), ReviewQueue((item,), 1), {})
    gutter, again = StyledSpan("   1 | "), StyledSpan("     : ")
    found = document([StyledLine((StyledSpan(text, "string"),), gutter, again, "code")])
    return drawn(
        opened(state, OpenedSheet(A, found, TERMS, ("a notice",), ("Network: none.",) * 9))
    )


@given(HOSTILE, st.integers(1, 120), st.integers(1, 40), st.sampled_from(["", "a", "d", "?", "/"]))
def test_every_frame_fits_its_terminal(text: str, columns: int, rows: int, key: str) -> None:
    state = state_of(text, columns, rows)
    for one in (replace(state, said=text), state, press(state, Key(key, key))[0]):
        found = frame(one)
        assert len(found) == rows
        assert all(width(plain(row)) <= columns for row in found)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_list_says_what_a_reviewer_chooses_by(columns: int) -> None:
    state = pressed(state_of("Mean of three", columns, 24), "escape")[0]
    shown = described(state)
    for word in (A[:8], "held", "core", "2 h", "2 flags", "Mean of three", "> "):
        assert word in shown


def test_the_purpose_stands_last_in_its_row() -> None:
    for columns in (40, 80):
        state = pressed(state_of("\u05d0\u05d1 held", columns, 24), "escape")[0]
        row = next(row for row in frame(state) if "\u05d0" in plain(row))
        assert row[-1].text == "\u05d0\u05d1 held"


def test_a_sheet_says_what_was_not_seen() -> None:
    assert "79 lines not seen yet" in described(showing())
    assert "all seen" in described(seen())


def test_the_question_names_request_uses_and_lifetime() -> None:
    for columns in (40, 80):
        state = drawn(resized(state_of("Mean of three", columns, 24), columns, 24))
        asked, _ = pressed(state, "a")
        joined = "".join(plain(row).strip() for row in frame(asked))
        for word in (A, "uses      1", "lifetime  1 h", "at most 10", "a notice", "Mean of three"):
            assert word in joined, word


def test_a_long_line_goes_on_behind_its_own_gutter() -> None:
    rows = described(state_of("x" * 100, 40, 24)).split("\n")
    assert rows[1] == "   1 | " + "x" * 33
    assert rows[2] == "     : " + "x" * 33


def test_a_typed_line_longer_than_the_screen_shows_its_end() -> None:
    state, _ = pressed(showing(), "d", *("a" * 100), "z")
    assert "az_" in described(state)


def test_hits_are_marked() -> None:
    state, _ = pressed(showing(), "/", *"line 7", "enter")
    assert ("line 7", "match") in {(s.text, s.style) for row in frame(state) for s in row}


def test_the_title_names_the_section_that_is_on_top() -> None:
    assert described(state_of("x", 80, 24)).split("\n")[0].rstrip().endswith("code")


def test_too_small_a_terminal_is_told_so() -> None:
    assert "larger" in described(state_of("x", 30, 3))
    assert frame(state_of("x", 4, 2))[0][0].text == "l..."


def test_nothing_waits() -> None:
    assert "nothing waits" in described(refreshed(State(80, 24), ReviewQueue((), 0), {}))
    assert "requests waiting for review: 3" in described(listed())


def test_a_list_that_is_not_all_says_so() -> None:
    state = replace(listed(), total=5000)
    assert "requests waiting for review: 3, the oldest of 5000" in described(state)


def test_a_question_longer_than_the_screen_says_that_it_goes_on() -> None:
    asked, _ = pressed(state_of("x", 80, 14), "a")
    assert "as the sheet says" in described(asked)
    asked, _ = pressed(state_of("x", 80, 40), "a")
    assert "as the sheet says" not in described(asked)
    assert "Network: none." in described(asked)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "now"), (59, "59 s"), (60, "1 min"), (7199, "1 h"), (90_000, "1 d")]
)
def test_ages(seconds: int, shown: str) -> None:
    assert age(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(77, "77 s"), (5400, "90 min"), (3600, "1 h"), (172_800, "2 d")]
)
def test_lifetimes_are_exact(seconds: int, shown: str) -> None:
    assert lifetime(seconds) == shown
