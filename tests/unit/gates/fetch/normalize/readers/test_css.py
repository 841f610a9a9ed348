"""Declarations, lengths, colours, selectors and sheets as a page spells them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.fetch.normalize.readers.colours import paint
from threegate.gates.fetch.normalize.readers.css import (
    declarations,
    length,
    readings,
    tokens,
    words,
)
from threegate.gates.fetch.normalize.readers.selectors import Matcher, Trail, parse_selector
from threegate.gates.fetch.normalize.readers.stylesheets import Sheet, read_sheets
from threegate.gates.fetch.normalize.readers.surroundings import Surroundings, look


def test_the_winning_declaration_of_each_property() -> None:
    found = declarations("Color:RED; color: blue; top:1px !important; top:2px; broken; :x; y:")
    assert found == {"color": ("blue", False), "top": ("1px", True)}


@pytest.mark.parametrize(
    "block",
    [
        "display:none;--x:{;display:block}",
        "display:none;--x:(;display:block;)",
        "display:none;content:';display:block'",
        "content:'/*';display:none;/*';display:block*/",
        "background:url(/*);display:none;background:url(*/)",
    ],
)
def test_nothing_inside_a_bracket_or_string_is_a_declaration(block: str) -> None:
    assert declarations(block)["display"] == ("none", False)
    assert declarations(f"{block};display:block")["display"][0] == "block", "control"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("-10px", -10.0),
        (".5em", 8.0),
        ("3pt", 4.0),
        ("1e2px", 100.0),
        ("5%", 50.0),
        ("calc(1px + 2px * 3)", 7.0),
        ("clamp(1px, 5px, 3px)", 3.0),
        ("calc(0px * (1 + 1))", 0.0),
        ("auto", None),
        ("5zz", None),
        ("calc(1px / 0)", None),
        ("calc(1px", 1.0),  # what is open at the end ends there
        ("var(--x)", None),
        ("", None),
    ],
)
def test_lengths(text: str, value: float | None) -> None:
    assert length(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("#fff", (255, 255, 255)),
        ("#123456", (18, 52, 86)),
        ("#12345678", (18, 52, 86)),
        ("rgb(1, 2, 3)", (1, 2, 3)),
        ("rgba(100% 0% 0% / 50%)", (255, 0, 0)),
        ("rgb(300,-5,0)", (255, 0, 0)),
        ("rebeccapurple", (102, 51, 153)),
        ("hsl(120 100% 25%)", (0, 128, 0)),
        ("hwb(120 0% 50%)", (0, 128, 0)),
        ("lab(29.69% 44.888% -29.04%)", (128, 0, 128)),
        ("lch(100 0 0)", (255, 255, 255)),
        ("oklab(1 0 0)", (255, 255, 255)),
        ("oklch(40.1% 0.123 21.57)", (125, 36, 41)),
        ("color(srgb 1 0 0)", (255, 0, 0)),
        ("color(srgb-linear 1 1 1)", (255, 255, 255)),
        ("color(display-p3 1 1 1)", (255, 255, 255)),
        ("color(xyz-d50 0.9643 1 0.8251)", (255, 255, 255)),
        ("color(xyz 0.9505 1 1.089)", (255, 255, 255)),
        ("rgb(1,2)", None),
        ("rgb(a,b,c)", None),
        ("#12", None),
        ("canvas", None),
        ("color-mix(in srgb, white, white)", None),
        ("rgb(from white r g b)", None),
        ("light-dark(white, black)", None),
    ],
)
# claim TG-C-422
def test_colours(text: str, value: tuple[int, int, int] | None) -> None:
    found = paint(text)
    assert (found and found.colour) == value


def test_a_variable_has_each_of_its_values() -> None:
    found = declarations("color: var(--a); top: var(--b, 3px); left: var(--c)")
    made = readings(found, {"--a": {"red", "blue"}})
    assert [one["color"][0] for one in made] == ["blue", "red"]
    assert {one["top"][0] for one in made} == {"3px"}
    assert {one["left"][0] for one in made} == {"var(--c)"}, "nobody sets it"


def test_rules_of_a_sheet_are_read_with_what_stands_around_them() -> None:
    sheet = """@charset "x"; a, b { top: 0 } @media print { c { top: 0 } }
    @media screen { d { top: 0 } } @supports (x: y) { e { top: 0 } } f { content: "}" }
    g { top: 0; &.h { top: 1px } @media (x) { top: 2px } } i {"""
    rules = read_sheets(iter([Sheet(sheet)])).rules
    shown = ["".join(part.join + "".join(part.needs) for part in r.selector.parts) for r in rules]
    assert list(zip(shown, (rule.conditional for rule in rules), strict=True)) == [
        *(("a", False), ("b", False), ("d", False), ("e", True), ("f", False)),
        *(("g", False), (".hg", False), ("g", True)),
    ]


def test_a_selector_goes_by_what_is_around_and_before() -> None:
    texts = ("div > p", "div p", "ul + p", "ul ~ p", "p.a", "p.b", "p:not(.a)", "p[x=y]")
    selectors = [parse_selector(tokens(text)) for text in texts]
    matcher = Matcher(selectors)
    outer = matcher.match({"div"}, Trail(), 0, 0)
    trail = Trail(outer, outer)
    before = matcher.match({"ul"}, trail, 0, 0)
    found = matcher.match({"p", ".a"}, trail, before, before)
    assert [texts[n] for n in matcher.selectors(matcher.ends(found))] == [*texts[:5], texts[6]]
    assert [one.sure for one in selectors] == [True] * 6 + [False] * 2
    assert parse_selector(tokens("p:hover")).inert
    with pytest.raises(ValueError, match="not a selector"):
        parse_selector(tokens("a|b"))


# claim TG-C-421
def test_a_selector_of_many_parts_costs_no_more_steps_than_parts() -> None:
    """An engine that goes back takes 200**4 steps here."""
    selector = parse_selector(tokens(".zz " + "div.a " * 30 + "p"))
    matcher, trail = Matcher([selector]), Trail()
    for _ in range(200):
        found = matcher.match({"div", ".a"}, trail, 0, 0)
        trail = Trail(trail.around | found, found)
    assert matcher.work == 0
    control = parse_selector(tokens("div.a " * 30 + "p"))
    matcher, trail = Matcher([control]), Trail()
    for _ in range(200):
        found = matcher.match({"div", ".a"}, trail, 0, 0)
        trail = Trail(trail.around | found, found)
    assert matcher.selectors(matcher.ends(matcher.match({"p"}, trail, 0, 0))) == [0], "control"
    assert matcher.work <= 200 * 30


@given(st.text(max_size=200))
def test_any_text_is_a_block_and_a_sheet(text: str) -> None:
    look(declarations(text), Surroundings())
    for name in ("display", "font", "transform", "clip-path", "clip", "color", "margin", "opacity"):
        look(declarations(f"{name}:{text}"), Surroundings())
    for name in ("background", "zoom", "scale", "overflow", "position", "filter", "box-shadow"):
        look(declarations(f"{name}:{text};left:{text};width:{text}"), Surroundings())
    read_sheets(iter([Sheet(text), Sheet(f"a{{{text}}}"), Sheet(f"{text}{{top:0}}")]))
    words(text)
