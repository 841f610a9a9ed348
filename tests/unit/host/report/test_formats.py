"""Reports in three formats: whatever a source wrote, it is read as text and as nothing else."""

import base64
import hashlib
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from tests.support.reports import (
    GOLDEN,
    HOSTILE,
    RENDERERS,
    drawn,
    pdf_boxes,
    read_markdown,
    read_page,
    read_pdf,
    saying,
    small,
)
from threegate.host.report.facts import ReportClaim
from threegate.host.report.pdf import Run, broken
from threegate.host.report.pdf_file import Font, encoded
from threegate.host.review.characters import in_lines, on_one_line

TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "ul", "li"}
TAGS |= {"pre", "bdi", "code", "strong", "a", "div", "svg", "defs", "marker", "path", "rect"}
TAGS |= {"text"}
TOKENS = {"heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "text"}
TOKENS |= {"bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"}
TOKENS |= {"fence", "code_inline", "strong_open", "strong_close", "text_special"}
ANY = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200)


def seen(text: str) -> set[str]:
    """Return the two ways a foreign text stands in a report."""
    return {"\n".join(in_lines(text)), on_one_line(text)}


@pytest.mark.parametrize("text", HOSTILE)
# claim TG-C-157
def test_a_page_runs_nothing_and_loads_nothing(text: str) -> None:
    data = drawn(saying(text), "html")
    page = read_page(data)
    assert page.open == [], "every element is closed where it was opened"
    assert page.tags <= TAGS, page.tags - TAGS
    assert b"<script" not in data.lower()
    names = {name for _, name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")} | (names & {"src", "style"})
    links = {value for _, name, value in page.attributes if name == "href"}
    assert links == {"#source-1"}, "control: there is one link, and it stays in the page"
    ours = [value or "" for tag, _, value in page.attributes if tag in ("meta", "a", "path")]
    assert not [value for value in ours if "//" in value or "javascript:" in value]
    policy = re.search(r'content="(default-src[^"]+)"', data.decode())
    assert policy is not None
    assert "default-src &#x27;none&#x27;; style-src &#x27;sha256-" in policy[1]
    assert set(page.foreign) >= seen(text), "control: the text is there, every character of it"


@pytest.mark.parametrize("text", HOSTILE)
def test_another_parser_reads_the_same(text: str) -> None:
    data = drawn(saying(text), "html")
    found = LexborHTMLParser(data.decode()).css("pre.foreign, bdi.foreign")
    assert [one.text() for one in found] == read_page(data).foreign
    assert LexborHTMLParser(data.decode()).css("script, img, iframe, link, object, form") == []


@pytest.mark.parametrize("text", HOSTILE)
# claim TG-C-157
def test_markdown_has_foreign_text_in_code_only(text: str) -> None:
    kinds, code = read_markdown(drawn(saying(text), "md"))
    assert kinds <= TOKENS, kinds - TOKENS
    block = "\n".join(in_lines(text)) + "\n"
    assert code.count(block) >= 3, "question, answer, claim and note, character for character"
    if text.strip():
        assert on_one_line(text) in code


@pytest.mark.parametrize("text", HOSTILE)
# claim TG-C-157
def test_a_pdf_holds_foreign_text_as_digits_only(text: str) -> None:
    data = drawn(saying(text), "pdf")
    assert not re.search(rb"/(JavaScript|JS|URI|Launch|AA|OpenAction|EmbeddedFile|A)\b", data)
    whole = "".join(read_pdf(data))
    assert "Report on an-" in whole
    wanted = "".join(spelled_for_pdf(line) for line in in_lines(text))
    assert bare(wanted) in bare(whole), "every character is there, or its number"


def spelled_for_pdf(line: str) -> str:
    return "".join(c if c.encode("cp1252", "ignore") else f"\\u{{{ord(c):x}}}" for c in line)


def bare(text: str) -> str:
    # A reader of PDF puts in blanks and line breaks of its own.
    return re.sub(r"\s|\ufffe|\x02", "", text)


@pytest.mark.parametrize(
    "text", ["W" * 3000, "i" * 3000, "Some words of it, " * 200, "\u4e2d" * 500]
)
def test_every_letter_of_a_pdf_stands_on_its_page(text: str) -> None:
    boxes = pdf_boxes(drawn(saying(text), "pdf"))
    assert len(boxes) > 6 * min(len(text), 500)
    for left, bottom, right, top in boxes:
        assert 50 <= left <= right <= 545
        assert 20 <= bottom <= top <= 800


@given(st.lists(st.text(alphabet="iW .\u00e4@", min_size=1, max_size=60), min_size=1))
def test_lines_fit_and_nothing_is_lost(words: list[str]) -> None:
    runs = [Run(encoded(text), list(Font)[number % len(Font)]) for number, text in enumerate(words)]
    lines = list(broken(runs, 100))
    assert b"".join(run.text for line in lines for run in line) == b"".join(
        run.text for run in runs
    )
    for line in lines:
        *before, last = line
        assert sum(run.font.width(run.text, run.size) for run in before) + last.width < 100.01


@given(ANY)
@example("`")
@example(" ` ")
@example("\\u{41}")
def test_any_text_is_read_back_as_what_it_is(text: str) -> None:
    report = saying(text)
    page = read_page(drawn(report, "html"))
    assert page.open == []
    assert page.tags <= TAGS
    assert set(page.foreign) >= seen(text)
    kinds, code = read_markdown(drawn(report, "md"))
    assert kinds <= TOKENS
    assert "\n".join(in_lines(text)) + "\n" in code


@given(ANY)
def test_any_text_can_be_drawn(text: str) -> None:
    data = drawn(saying(text), "pdf")
    assert data == drawn(saying(text), "pdf")
    foreign = [bytes.fromhex(one.decode()) for one in re.findall(rb"<([0-9a-f]*)> Tj", data)]
    assert all(min(one, default=32) >= 32 for one in foreign), "no control reaches the file"
    assert len(read_pdf(data)) >= 1


def test_what_hides_or_deceives_is_spelled_out_everywhere() -> None:
    text = "plain \u202e evil, p\u0430ypal, \\u{41}"
    shown = "plain \\u{202e} evil, p\\u{430}ypal, \\u{5c}u{41}"
    assert on_one_line(text) == shown
    for form in ("html", "md"):
        data = drawn(saying(text), form).decode()
        assert shown in data
        assert "\u202e" not in data
        assert "p\u0430ypal" not in data
    assert bare(shown) in bare("".join(read_pdf(drawn(saying(text), "pdf"))))


def test_the_one_style_sheet_is_the_one_the_policy_allows() -> None:
    page = drawn(small(), "html").decode()
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src &#x27;sha256-{digest}&#x27;;" in page
    assert "url(" not in style
    assert "@import" not in style


def test_labels_come_first_and_loud_words_are_loud() -> None:
    page = drawn(small(), "html").decode()
    assert page.index("1 quote found: its quotes") < page.index("Ice broke at 1.2 MPa.")
    assert page.index("RETRACTED") < page.index("Ice broke at 1.2 MPa.")
    assert page.count('<strong class="loud">') == 2
    text = drawn(small(), "md").decode()
    assert "- **RETRACTED: according to crossref**" in text
    assert b"0.65 0 0 rg" in drawn(small(), "pdf"), "in red"


def test_nothing_cited_is_said() -> None:
    report = small(claims=(), sources=(), answer="No sentence.", loud=(), approvals=())
    for form in ("html", "md"):
        text = drawn(report, form).decode()
        assert "No claims: nothing of this answer was checked." in text
        assert "Nothing is cited." in text
        assert "Nothing behind this answer needed an approval." in text
    assert "Nothing is cited." in "".join(read_pdf(drawn(report, "pdf")))


def test_five_hundred_claims_are_all_there() -> None:
    one = small().claims[0]
    claims = tuple(
        ReportClaim(n, f"Claim text number {n}.", one.label, one.stored, one.quotes)
        for n in range(1, 501)
    )
    report = small(claims=claims)
    assert len(set(read_page(drawn(report, "html")).foreign) & {c.text for c in claims}) == 500
    _, code = read_markdown(drawn(report, "md"))
    assert len({c.text + "\n" for c in claims} & set(code)) == 500
    pages = read_pdf(drawn(report, "pdf"))
    whole = "".join(pages)
    assert all(f"number {n}." in whole for n in range(1, 501))
    assert f"page {len(pages)} of {len(pages)}" in pages[-1]


@pytest.mark.parametrize("form", sorted(RENDERERS))
def test_a_small_report_is_what_was_looked_at(form: str) -> None:
    assert drawn(small(), form) == (GOLDEN / f"small.{form}").read_bytes()
