"""Pages: bounds before parsing, main text by heading, what it says of itself, no other error."""

import subprocess
import sys
from unittest.mock import patch

import pytest
import trafilatura
from hypothesis import given
from hypothesis import strategies as st

from tests.support.boxes import repository
from tests.support.pages import ARTICLE, SENTENCE, answer, page
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.readers import html, html_bounds, main_text
from threegate.gates.fetch.normalize.text import Document, Unread


def read(raw: bytes) -> Document:
    return html.read(Untrusted(raw), answer())


def parts(raw: bytes) -> list[tuple[str, str]]:
    found = read(raw).parts
    return [(p.label.open_for_validation(), p.text.open_for_validation()) for p in found]


def refused(raw: bytes) -> tuple[str, str]:
    with pytest.raises(Unread) as caught:
        read(raw)
    return caught.value.reason, caught.value.detail


def test_headings_name_the_parts_and_stay_in_the_text() -> None:
    raw = page(f"<h2>Method <i>one</i></h2>{ARTICLE}<h2>Results</h2>").replace(b"number", b"n.")
    found = parts(raw)
    assert [label for label, _ in found] == ["Heading", "Method one", "Results"]
    assert found[1][1].startswith("Method one\n")
    assert SENTENCE.format(3).replace("number", "n.") in found[1][1]


def test_the_frame_of_a_page_is_left_out() -> None:
    raw = page("<nav><a href='/'>Home</a><a href='/x'>Imprint</a></nav>")
    assert not any("Imprint" in text for _, text in parts(raw))


def test_a_page_without_an_article_is_read_as_it_is() -> None:
    assert parts(b"<ul><li>one<li>two</ul>") == [("text", "one\ntwo")]


def test_a_page_whose_main_text_is_next_to_nothing_is_read_whole() -> None:
    rows = "".join(f"<div><span>Result {n}</span><b>by Gate, A.</b></div>" for n in range(50))
    with patch.object(main_text, "main_text", return_value=main_text.main_text(page("").decode())):
        assert "Result 7" not in parts(page(rows))[0][1], "control: enough was found"
    with patch.object(main_text, "sections", return_value=iter([("", "Skip to main content")])):
        found = parts(page(rows))
    assert "Result 7\nby Gate, A.\nResult 8" in found[0][1]


def test_what_trafilatura_cannot_read_is_read_without_it() -> None:
    with patch.object(main_text, "main_text", side_effect=RecursionError):
        assert "sentence number 3" in parts(page(""))[0][1]


def test_a_page_without_text_is_refused() -> None:
    assert refused(b"") == ("empty", "no visible text on the page")
    reason, detail = refused(b"<p hidden>secret</p>")
    assert (reason, detail) == ("empty", "no visible text on the page; 6 characters are hidden")


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"x" * (html.MAX_HTML_BYTES + 1), "bytes"),
        (b"<br>" * (html_bounds.MAX_HTML_TAGS + 1), "tags"),
        ((b"<p" + b" a" * 900 + b">") * (html_bounds.MAX_ATTRIBUTES // 900 + 1), "attributes"),
        (b"<p>" + b"<b a>" * 200 + b"<p>x" * 6000, "elements"),
        (b"<div>" * (html_bounds.MAX_HTML_DEPTH + 1), "nested"),
        (b"<div><b></b></i>" * (html_bounds.MAX_HTML_DEPTH + 1), "nested"),
    ],
)
# claim TG-C-120
def test_too_much_of_anything_is_refused_before_it_is_parsed(raw: bytes, what: str) -> None:
    with patch.object(html, "LexborHTMLParser", side_effect=AssertionError("parsed")):
        reason, detail = refused(raw)
    assert reason == "too-large"
    assert what in detail


def attributes(count: int, form: str) -> str:
    return "".join(form.format(number) for number in range(count))


@pytest.mark.parametrize("form", [" a{}=1", " a{}", "/a{}", " a{}='>'", ' a{}="<p>"'])
@pytest.mark.parametrize(
    "before",
    [
        *("<p", '<p "', "<svg><script>i<n", "<textarea><script></textarea><p", "</p><p"),
        *('<!-- <p a=" --><p', "<title><!--</title><p", "<svg><style><p", "<p b='\"' c"),
    ],
)
# claim TG-C-420
def test_a_tag_with_too_many_attributes_is_refused(before: str, form: str) -> None:
    limit = html_bounds.MAX_TAG_ATTRIBUTES
    html_bounds.check_bounds(f"{before}{attributes(limit - 20, form)}>x")  # control
    with pytest.raises(Unread) as caught:
        html_bounds.check_bounds(f"{before}{attributes(limit + 20, form)}>x")
    detail = f"more than {limit} attributes in one tag"
    assert (caught.value.reason, caught.value.detail) == ("too-large", detail)


@pytest.mark.parametrize("around", ["<script>{}</script>", "<!--{}-->", "<textarea>{}</textarea>"])
# claim TG-C-420
def test_text_that_only_looks_like_a_long_tag_is_read(around: str) -> None:
    words = "i<n && " + "word " * (html_bounds.MAX_TAG_ATTRIBUTES + 500)
    assert "sentence number 3" in parts(page(around.format(words)))[0][1]
    with pytest.raises(Unread, match="attributes in one tag"):
        read(page(f"{words}>"))  # control: outside it is a tag


def test_as_much_as_is_allowed_is_read() -> None:
    assert parts(b"<div>" * (html_bounds.MAX_HTML_DEPTH - 1) + b"text") == [("text", "text")]
    assert parts(b"<p>a" * 2000)[0][1].count("a") == 2000


def test_a_page_says_of_itself_what_the_world_may_read() -> None:
    head = (
        '<meta name="citation_author" content="Gate, Ada"><meta name="citation_author" content="B">'
        '<meta name="citation_doi" content="10.5555/12345678">'
        '<meta name="citation_publication_date" content="2024/03/05">'
    )
    about = read(page("", head=head, title="On  gates\n")).about
    assert about is not None
    assert about.title == Untrusted("On gates")
    assert [author.name.open_for_validation() for author in about.authors] == ["Gate, Ada", "B"]
    assert [(i.scheme, i.value.open_for_validation()) for i in about.identifiers] == [
        ("doi", "10.5555/12345678")
    ]
    assert about.published is not None
    assert about.published.text == "2024-03-05"


def test_a_page_without_a_title_is_named_by_its_heading() -> None:
    about = read(page("", title=" ")).about
    assert about is not None
    assert about.title == Untrusted("Heading")


@pytest.mark.parametrize(
    "inner",
    [
        "",
        "<h2>Two</h2><ul><li>one</li><li>two <b>bold</b></li></ul><blockquote>q</blockquote>",
        "<table><tr><th>a</th><td>b</td></tr></table><pre>code here</pre>",
        "<p>short</p>",
    ],
)
def test_our_copy_finds_what_trafilatura_finds(inner: str) -> None:
    text = page(inner).decode()
    body = main_text.main_text(text)
    ours = "\n".join(section for _, section in main_text.sections(body))
    theirs = trafilatura.extract(text, fast=True, include_comments=False)
    assert theirs is not None
    assert ours.split() == theirs.split()


def test_the_reader_loads_no_network_no_clock_and_no_settings() -> None:
    """Where the whole of trafilatura would: the control."""
    code = (
        "import sys; sys.path.insert(0, 'src'); {}; "
        "print(sorted({{'babel', 'dateparser', 'htmldate', 'justext', 'socket', 'ssl', 'tld', "
        "'trafilatura', 'urllib3'}} & set(sys.modules)))"
    )
    for statement, loaded in (
        ("import threegate.gates.fetch.normalize.readers.html", "[]\n"),
        ("import trafilatura", "['babel', 'htmldate'"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code.format(statement)],
            cwd=repository(),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stdout.startswith(loaded)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_document_or_unread(raw: bytes) -> None:
    for data in (raw, b"<p>text " + raw, b"<style>" + raw + b"</style><p style='" + raw + b"'>x"):
        try:
            found = read(data)
        except Unread:
            continue
        assert found.parts
        assert found == read(data)


_PIECES = (
    "<p>", "</p>", "<div ", "style='", "display:none", ";", "'>", "<style>", ".a{", "}", "</style>",
    "<table>", "<td>", "</div>", "<b>", "</i>", "<svg>", "<template>", "class=a ", "text ", "<li>",
    "<details>", "font-size:0", "<!--", "-->", "<body hidden>", "<html>", "&amp;", "<h1>", "\0",
)  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=60))
def test_any_markup_is_a_document_or_unread(pieces: list[str]) -> None:
    try:
        assert read("".join(pieces).encode()).parts
    except Unread as exc:
        assert exc.reason in ("empty", "too-large")
