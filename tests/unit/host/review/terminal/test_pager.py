"""The pager: everything can be reached, and only what was drawn counts as seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.host.review.parts import StyledLine, StyledSpan, plain
from threegate.host.review.terminal.cells import width
from threegate.host.review.terminal.pager import (
    PagerView,
    Unseen,
    at_place,
    document,
    hits,
    layout,
    looked,
    row_at,
    scrolled,
    shown,
    sought,
    unseen,
)

LINES = st.lists(st.text("ab漢 ", max_size=60), min_size=1, max_size=40)
SIZES = st.tuples(st.integers(12, 60), st.integers(1, 20))


def view_of(*texts: str, gutter: str = "") -> PagerView:
    head, again = StyledSpan(gutter), StyledSpan(gutter)
    return PagerView(document(StyledLine((StyledSpan(text),), head, again) for text in texts))


def texts_of(view: PagerView, columns: int, rows: int) -> list[str]:
    lines = view.document.lines
    return [plain(lines[p.line].spans)[p.start : p.end] for p in shown(view, columns, rows)]


def to_the_end(view: PagerView, columns: int, rows: int) -> PagerView:
    while True:
        view = looked(view, columns, rows)
        moved = scrolled(view, columns, rows, rows)
        if moved == view:
            return view
        view = moved


@given(LINES, SIZES)
def test_page_by_page_everything_is_seen(texts: list[str], size: tuple[int, int]) -> None:
    view = to_the_end(view_of(*texts, gutter="  | "), *size)
    assert unseen(view) is None


@given(LINES, SIZES, SIZES)
def test_a_change_of_size_on_the_way_loses_nothing(
    texts: list[str], first: tuple[int, int], second: tuple[int, int]
) -> None:
    view = looked(view_of(*texts), *first)
    view = scrolled(view, *first, by=first[1])
    view = to_the_end(at_place(view, *second, place=view.top), *second)
    assert unseen(view) is None


@given(LINES, SIZES)
def test_rows_fit_beside_their_gutter(texts: list[str], size: tuple[int, int]) -> None:
    view = view_of(*texts, gutter="  | ")
    assert all(width(text) <= size[0] - 4 for text in texts_of(view, size[0], 1000))


def test_a_jump_to_the_end_leaves_the_middle_unseen() -> None:
    view = looked(view_of(*(f"line {n}" for n in range(100))), 80, 10)
    assert unseen(view) == Unseen(90, view.document.starts[10])
    view = looked(at_place(view, 80, 10, view.document.end), 80, 10)
    assert unseen(view) == Unseen(80, view.document.starts[10])
    view = at_place(view, 80, 10, view.document.starts[10])
    assert texts_of(view, 80, 10)[0] == "line 10", "what is named can be gone to"
    assert unseen(to_the_end(view, 80, 10)) is None


# claim TG-C-110
def test_half_a_long_line_is_not_the_line() -> None:
    hidden = "x" * 300 + "evil()"
    view = looked(view_of(hidden), 20, 5)
    assert unseen(view) == Unseen(1, 100)
    assert "evil()" not in "".join(texts_of(view, 20, 5)), "control"


def test_ten_thousand_columns_are_rows_not_something_beside_the_screen() -> None:
    view = view_of("a" * 10_000)
    assert len(layout(view.document, 80)) == 125


def test_an_empty_document_is_seen_at_once() -> None:
    view = looked(view_of(), 80, 10)
    assert unseen(view) is None
    assert texts_of(view, 80, 10) == [""]


def test_scrolling_stops_at_both_ends() -> None:
    view = view_of(*map(str, range(30)))
    assert row_at(scrolled(view, 80, 10, -5), 80) == 0
    assert row_at(scrolled(view, 80, 10, 500), 80) == 20
    assert row_at(scrolled(view, 80, 100, 5), 80) == 0, "a screen larger than the text"


def test_the_place_survives_a_narrower_terminal() -> None:
    view = view_of(*(f"{n} " + "x" * 70 for n in range(30)))
    view = scrolled(view, 80, 10, 12)
    assert texts_of(view, 80, 1)[0].startswith("12 ")
    assert texts_of(view, 40, 1)[0].startswith("12 ")


def test_a_gutter_wider_than_the_terminal_still_leaves_room_for_text() -> None:
    view = view_of("abcdefghijklmnop", gutter="very wide gutter | ")
    assert "".join(texts_of(view, 10, 100)) == "abcdefghijklmnop"


def test_search_goes_round_in_both_directions() -> None:
    view = view_of("one", "two", "three", "Two", *"abcdefghijkl")
    view = PagerView(view.document, needle="TWO")
    places = []
    for back in (False, False, False, True):
        found = sought(view, 80, 3, back=back)
        assert found is not None
        places.append(texts_of(found, 80, 1)[0])
        view = found
    assert places == ["two", "Two", "two", "Two"]
    assert sought(PagerView(view.document, needle="nowhere"), 80, 3) is None


@pytest.mark.parametrize(
    ("text", "needle", "found"),
    [
        ("abAB", "ab", [(0, 2), (2, 4)]),
        ("aaa", "aa", [(0, 2)]),
        ("abc", "", []),
        ("\u0130x", "x", [(1, 2)]),  # its lower case is longer than itself
    ],
)
def test_hits(text: str, needle: str, found: list[tuple[int, int]]) -> None:
    assert hits(text, needle) == found


def test_what_a_document_holds_is_spelled_before_it_is_measured() -> None:
    view = view_of("\x1b[2J\u202e")
    assert texts_of(view, 80, 1) == ["\\u{1b}[2J\\u{202e}"]
