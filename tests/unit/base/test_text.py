"""Which characters may stand in an artifact, and that foreign text is shown, never obeyed."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.text import (
    FORBIDDEN,
    FORBIDDEN_RANGES,
    QUOTE_CHARS,
    first_forbidden,
    kind_of_forbidden,
    quote,
    visible,
    visible_lines,
)

TEXTS = st.text(
    st.characters(codec="utf-8") | st.sampled_from("\u202e\u200b\x1b\0\r\n\t\U000e0041")
)


@given(TEXTS)
def test_the_fast_search_finds_what_the_slow_one_finds(text: str) -> None:
    slow = FORBIDDEN.search(text)
    assert first_forbidden(text.encode("utf-8")) == (slow.group() if slow else None)


@given(TEXTS)
def test_shown_text_holds_nothing_that_acts_or_hides(text: str) -> None:
    for shown in (visible(text), quote(text)):
        assert not FORBIDDEN.search(shown)
        assert not set("\n\t\u200c\u200d\ufe0f") & set(shown)
    assert not FORBIDDEN.search(visible_lines(text))
    assert visible_lines(text).count("\n") == text.count("\n")


def test_escape_sequence_is_spelled_out() -> None:
    assert visible("a\x1b[2Jb") == r"a\u{1b}[2Jb"
    assert quote("\u202etxt.exe") == r'"\u{202e}txt.exe"'


def test_quote_is_cut() -> None:
    assert quote("x" * QUOTE_CHARS) == '"' + "x" * QUOTE_CHARS + '"'
    assert quote("x" * (QUOTE_CHARS + 1)).endswith('…"')
    assert len(quote("\0" * 10_000)) < 8 * QUOTE_CHARS


def test_ranges_are_in_order_and_do_not_overlap() -> None:
    edges = [edge for low, high, _ in FORBIDDEN_RANGES for edge in (low, high)]
    assert edges == sorted(edges)


@pytest.mark.parametrize("category", ["Cc", "Cf", "Cs", "Zl", "Zp"])
def test_whole_categories_are_forbidden_but_for_those_that_scripts_need(category: str) -> None:
    found = {chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) == category}
    allowed = {c for c in found if not FORBIDDEN.match(c)}
    # Format characters that are seen: signs around numbers in Arabic, Kaithi and hieroglyphs.
    visible_ones = {c for c in allowed if unicodedata.category(c) == "Cf" and ord(c) not in JOINERS}
    names = ("ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN")
    assert all(unicodedata.name(c).startswith(names) for c in visible_ones)
    assert allowed - visible_ones <= {"\t", "\n", *map(chr, JOINERS)}


JOINERS = (0x200C, 0x200D)


@pytest.mark.parametrize(
    ("character", "kind"),
    [("\0", "control"), ("\u202e", "bidi"), ("\u200b", "invisible"), ("a", "allowed")],
)
def test_kinds(character: str, kind: str) -> None:
    assert kind_of_forbidden(character) == kind
