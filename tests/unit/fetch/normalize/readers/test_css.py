"""Declarations, lengths and colours as a page spells them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.fetch.normalize.readers.css import (
    background,
    colour,
    declarations,
    look,
    pixels,
)
from threegate.fetch.normalize.readers.stylesheets import read_sheets


def test_the_winning_declaration_of_each_property() -> None:
    found = declarations("Color:RED; color: blue; top:1px !important; top:2px; broken; :x; y:")
    assert found == {"color": ("blue", False), "top": ("1px", True)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("-10px", -10.0),
        (".5em", 8.0),
        ("3pt", 4.0),
        ("1e2px", 100.0),
        ("auto", None),
        ("5%", None),
        ("5zz", None),
        ("", None),
    ],
)
def test_lengths(text: str, value: float | None) -> None:
    assert pixels(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("#fff", (255, 255, 255)),
        ("#123456", (18, 52, 86)),
        ("#12345678", (18, 52, 86)),
        ("rgb(1, 2, 3)", (1, 2, 3)),
        ("rgba(100% 0% 0% / 50%)", (255, 0, 0)),
        ("rgb(300,-5,0)", (255, 0, 0)),
        ("white", (255, 255, 255)),
        ("rgb(1,2)", None),
        ("rgb(a,b,c)", None),
        ("#12", None),
        ("rebeccapurple", None),
    ],
)
def test_colours(text: str, value: tuple[int, int, int] | None) -> None:
    assert colour(text) == value


def test_a_background_is_found_among_other_words() -> None:
    assert background(declarations("background: url(x) no-repeat #000")) == (0, 0, 0)
    assert background(declarations("background: none")) is None


def test_rules_of_a_sheet_are_read_with_what_stands_around_them() -> None:
    sheet = """@charset "x"; a, b { top: 0 } @media print { c { top: 0 } }
    @media screen { d { top: 0 } } @supports (x: y) { e { top: 0 } } f { content: "}" } g {"""
    rules = read_sheets(iter([sheet])).rules
    assert [(rule.selector, rule.conditional) for rule in rules] == [
        ("a", False),
        ("b", False),
        ("d", False),
        ("e", True),
        ("f", False),
    ]


@given(st.text(max_size=200))
def test_any_text_is_a_block_and_a_sheet(text: str) -> None:
    look(declarations(text))
    for name in ("display", "font", "transform", "clip-path", "clip", "color", "margin", "opacity"):
        look(declarations(f"{name}:{text}"))
    read_sheets(iter([text, f"a{{{text}}}"]))
