"""A quote among the characters of a page, whatever the layout did to its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.page_drawer.words import MAX_PLACES, find_words


def found(page: str, words: str) -> tuple[list[str], bool]:
    places, whole = find_words(page, words)
    return [page[start:end] for start, end in places], whole


@pytest.mark.parametrize(
    ("page", "words", "marked"),
    [
        ("Sea ice\r\nbreaks.", "ice breaks", "ice\r\nbreaks"),
        ("It is tough-\r\ner than steel.", "tougher than", "tough-\r\ner than"),
        ("It is tough\x02er than steel.", "tougher than", "tough\x02er than"),
        ("It is tough\ufffeer than steel.", "tough-\ner than", "tough\ufffeer than"),
        ("a su\xadper-cooled melt", "supercooled melt", "su\xadper-cooled melt"),
        ("e\ufb03cient \ufb02ow", "efficient flow", "e\ufb03cient \ufb02ow"),
        ("the ﬁrst", "THE FIRST", "the ﬁrst"),
        (
            "Universite\u0301 de Lie\u0300ge",
            "Université de Liège",
            "Universite\u0301 de Lie\u0300ge",
        ),
        ("Universit´e de", "Université de", "Universit´e de"),
        ("“ice” – it’s", '"ice" - it\'s', "ice” – it’s"),
        ("海冰 的\n强度", "海冰的强度", "海冰 的\n强度"),
        ("x = 𝑎 + b", "x = a + b", "x = 𝑎 + b"),
        ("x = 𝑎 + b", r"x = \u{d835}\u{dc4e} + b", "x = 𝑎 + b"),
        ("a\u202eb if c<d", r"a\u{202e}b if c&lt;d", "a\u202eb if c<d"),
    ],
)
def test_a_quote_is_found_across_what_layout_does(page: str, words: str, marked: str) -> None:
    assert found(f"Before it. {page} After it.", words) == ([marked], True)


def test_words_of_their_own_are_preferred_to_parts_of_words() -> None:
    assert found("The price of ice, and ice.", "ice") == (["ice", "ice"], True)
    assert found("The price rose.", "ice") == (["ice"], True), "better than nothing"


def test_a_number_is_not_another_number() -> None:
    assert found("It was 35 MPa.", "3.5 MPa") == ([], False)
    assert found("It was 3.5 MPa.", "3.5 MPa") == (["3.5 MPa"], True), "control"
    assert found("It was 3,500.", "3,500") == (["3,500"], True)


def test_a_quote_that_a_footnote_interrupts_is_found_in_pieces() -> None:
    page = (
        "The strength of the ice depends on 1 See the annex. its temperature and on its salinity."
    )
    words = "The strength of the ice depends on its temperature and on its salinity."
    assert found(page, words) == (
        ["The strength of the ice depends on", "its temperature and on its salinity"],
        True,
    )


def test_cells_of_a_table_are_found_in_the_order_in_which_they_are_drawn() -> None:
    page = "Site Station Fram Station Bering Strength 1.31 MPa 1.52 MPa Source: our own."
    words = "Site | Strength\nStation Fram | 1.31 MPa\nStation Bering | 1.52 MPa"
    marked, whole = found(page, words)
    assert whole
    assert marked == ["Site", "Strength", "Station Fram", "1.31 MPa", "Station Bering", "1.52 MPa"]


def test_a_short_line_is_found_near_its_neighbours_and_not_elsewhere() -> None:
    far = "Another sentence altogether. " * 20
    page = f"Yes, ice. {far}Ice (see below) The strength of ice was high. {far}"
    places, whole = find_words(page, "Ice\nThe strength of ice was high")
    assert whole
    assert [page[slice(*one)] for one in places] == ["Ice", "The strength of ice was high"]
    assert places[0][0] == page.index("Ice (see below)")


def test_of_a_quote_that_goes_on_elsewhere_a_part_is_found() -> None:
    page = "Header 12. The strength of the ice depends on"
    words = "The strength of the ice depends on its temperature."
    assert found(page, words) == (["The strength of the ice depends on"], False)


@pytest.mark.parametrize(
    "words", ["", " ", "...", "-\n", "zebra", "a few words that are elsewhere"]
)
def test_words_that_are_not_there_are_not_found(words: str) -> None:
    assert found("The strength of sea ice.", "sea ice") == (["sea ice"], True), "control"
    assert found("The strength of sea ice.", words) == ([], False)


def test_no_more_than_so_many_places_are_marked() -> None:
    assert len(find_words("ice " * 1000, "ice")[0]) == MAX_PLACES


@given(st.text(max_size=80), st.text(max_size=30), st.text(max_size=80))
def test_a_text_is_found_in_a_page_that_holds_it(before: str, words: str, after: str) -> None:
    page = f"{before} {words} {after}"
    places, whole = find_words(page, words)
    assert all(0 <= start < end <= len(page) for start, end in places)
    assert whole == bool(places)
    assert whole or not any(one.isalnum() for one in words)
