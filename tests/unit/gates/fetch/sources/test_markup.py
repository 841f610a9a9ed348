"""Markup into text: what is taken away, and what only looks like markup."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources.markup import plain, plain_element
from threegate.gates.fetch.xml import parse_xml


@pytest.mark.parametrize(
    ("marked", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ("0", "0"),
        ("<i>E. coli</i> in H<sub>2</sub>O", "E. coli in H2O"),
        ("10<sup>6</sup> cells", "10^6 cells"),
        ("<jats:p>one</jats:p>\n   <jats:p>two\nthree</jats:p>", "one\ntwo three"),
        ("<p>one<br/>two<BR>three</p>", "one\ntwo\nthree"),
        ("<mml:math><mml:msup><mml:mi>x</mml:mi><mml:mn>2</mml:mn></mml:msup></mml:math>", "x^2"),
        ("<mfrac><mi>a</mi><mrow><mi>b</mi></mrow></mfrac>", "a/b"),
        ("<semantics><mi>a</mi><annotation>tex</annotation></semantics>b", "ab"),
        ("<alternatives><tex-math>$x$</tex-math><mi>x</mi></alternatives>", "x"),
        ("<tex-math>$x$</tex-math>", "$x$"),
        ("a<!-- hidden -->b<![CDATA[<c>]]>", "ab<c>"),
        ("a<script>alert(1)</script>b", "ab"),
        ('<a href="https://h.example/?a>b">x</a>', "x"),
        ("caf&eacute; &amp; t&#233;a&#x21;", "café & téa!"),
        ("AT&T, R&D; &nosuch; &", "AT&T, R&D; &nosuch; &"),
        ("a &copy b", "a &copy b"),
        ("&#0;&#xD800;", "\ufffd\ufffd"),
        ("a\u00a0b", "a\u00a0b"),
    ],
)
def test_markup_becomes_text(marked: str, text: str) -> None:
    assert plain(marked).text == text


@pytest.mark.parametrize(
    "text",
    ["p<q and r>s", "a < b > c", "x <i and j> y", "<unknown>t</unknown>", "<evil:i>x</evil:i>",
     "x <i a=> y", "a <b", "<", "<>", "</>", "<!-- open", "<![CDATA[ open", '<i title="open', "1<2",
     "<i"],
)  # fmt: skip
def test_what_is_no_tag_stays(text: str) -> None:
    assert plain(f"{text}<i></i>").text == text, "control: a tag beside it goes"
    assert plain(text).text == text


@pytest.mark.parametrize(
    ("marked", "text", "met"),
    [
        ("<i>x</i>", "x", ("markup",)),
        ("&lt;i&gt;x&lt;/i&gt;", "x", ("markup-escaped",)),
        ("&amp;lt;jats:p&amp;gt;x", "x", ("escaped-twice", "markup-escaped")),
        ("a &amp;amp; b", "a & b", ("escaped-twice",)),
        ("a &lt; b", "a < b", ()),
    ],
)
def test_escaped_markup_is_met(marked: str, text: str, met: tuple[str, ...]) -> None:
    assert (plain(marked).text, plain(marked).met) == (text, met)


@pytest.mark.parametrize("marked", ["a<!-- b -->", "a<script>b</script>", "a<style>b</style>"])
def test_what_is_left_out_is_met(marked: str) -> None:
    assert plain(marked).text == "a"
    assert plain(marked).met == ("content-dropped", "markup")


def test_an_element_that_never_ends_hides_nothing() -> None:
    assert plain("a<style>b</style>c").text == "ac", "control: one that ends is left out"
    assert plain("a<style>b c").text == "ab c"
    assert plain("<i>a<script>b</i>c").text == "ac", "it ends with the element around it"


@pytest.mark.parametrize(
    "bomb",
    ["<" * 200_000, "<!--" * 50_000, "<i" * 100_000, "<i " + "a=" * 99_000, "<i>" * 66_000,
     '<a b="' * 33_000, "&" * 200_000, "&amp;" * 40_000, "<![CDATA[" * 22_000,
     "<script>" * 25_000, "</i>" * 50_000],
)  # fmt: skip
def test_bombs_end(bomb: str) -> None:
    assert len(plain(bomb).text) <= len(bomb)


def test_text_of_an_xml_element() -> None:
    root = parse_xml(
        Untrusted(b"<t>A <sup>2</sup>\n  B<sec><title>C</title><p>D &lt;i&gt;</p></sec></t>")
    )
    assert plain_element(root).text == "A ^2 B\nC\nD <i>"


@given(st.text(alphabet="<>/!-[]&;#ampltgi \"'=script:CDAT\n", max_size=120))
def test_any_text_becomes_text_on_lines_without_edges(marked: str) -> None:
    text = plain(marked).text
    assert text == plain(marked).text
    assert all(line == line.strip(" ") and line for line in text.split("\n") if text)
