"""Markdown, LaTeX, notebooks and TEI: sections, claims, and what is left out."""

import pytest

from tests.support import documents
from tests.support.documents import claims, parts, read, why_unread
from tests.support.normalization import made, page_of, texts
from threegate.gates.fetch.normalize.readers import latex, markdown, notebook, xml_text

CLAIMS = ("On gates", ["Ada Gate", "Bob Wall"], "2021-03-04")


def test_markdown_is_read_by_its_headings() -> None:
    found = parts(markdown.read, documents.MARKDOWN.encode())
    assert list(found) == ["front matter", "text", "Methods", "Results", "links"]
    assert found["text"] == "Before. See the ice and Gates. [embedded: plot.png]"
    assert "# not a heading <!-- kept -->" in found["Methods"]
    assert found["Results"] == "Results\nIt is `<!--` code."
    assert found["links"] == "Sea ice\nGates\nplot.png"
    assert "tags: [ice, gates]" in found["front matter"]


def test_front_matter_is_a_claim() -> None:
    assert claims(read(markdown.read, documents.MARKDOWN.encode())) == CLAIMS
    assert claims(read(markdown.read, b"text\n\n# Head\n")) == ("Head", [], None)


# claim TG-C-550
def test_comments_of_markdown_are_left_out_and_counted() -> None:
    document = read(markdown.read, documents.MARKDOWN.encode())
    shown = parts(markdown.read, documents.MARKDOWN.encode())["Methods"]
    assert "Seen." in shown
    assert "hidden" not in shown
    assert "a comment" not in shown
    assert document.found == {"hidden-text": 30, "hidden-undecided": 1}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"a <!-- b", "a"),  # no renderer shows what follows
        (b"---\nno end\n\ntext", "---\nno end\n\ntext"),
        (b"---", "---"),
        (b"[[a|b]", "[[a|b]"),
        (b"````\n```\nx\n````\ny", "````\n```\nx\n````\ny"),
        (b"####### seven", "####### seven"),
        (b"#tag", "#tag"),
    ],
)
def test_odd_markdown_stays_text(raw: bytes, shown: str) -> None:
    assert parts(markdown.read, raw)["text"].strip() == shown


def test_latex_is_read_by_its_sections() -> None:
    found = parts(latex.read, documents.LATEX.encode())
    assert list(found) == ["Abstract", "Methods", "Deep er"]
    body = found["Methods"]
    for words in (
        "See [a,b]; 50% of Gödel, Hořava, naïve.",
        "E = mc^2",
        "Inline $a_1$.",
        "Seen. [footnote: A note.]",
        "[not included: chapter2] [https://x.example/a%20b]",
        "a  |  b\n1  |  2",
    ):
        assert words in body
    assert found["Deep er"].endswith("% kept")


def test_the_preamble_of_latex_is_a_claim() -> None:
    assert claims(read(latex.read, documents.LATEX.encode())) == ("On Gates", *CLAIMS[1:])


# claim TG-C-550
def test_text_that_latex_never_prints_is_left_out_and_counted() -> None:
    document = read(latex.read, documents.LATEX.encode())
    text = "".join(parts(latex.read, documents.LATEX.encode()).values())
    for words in ("not shown", "ignore", "never", "after the end", "Nobody", "article"):
        assert words not in text
    assert document.found["hidden-text"] > 50
    assert "Seen." in text, "control: what follows is read"


@pytest.mark.parametrize(
    "raw",
    [
        "\\begin{verbatim}" * 20_000,
        "$" * 50_001,
        "\\[" * 30_000,
        "{" * 100_000,
        "}" * 100_000,
        "\\textcolor{white}{" * 10_000,
        "\\section{" * 20_000,
        "\\iffalse" * 20_000,
        "\\cite[" * 20_000,
        "%" * 100_000,
        "\\" * 100_001,
        "\\def" * 20_000,
        "\\'" * 50_000 + "e",
    ],
)
def test_latex_without_ends_is_read_to_its_end(raw: str) -> None:
    document = read(latex.read, f"{raw}\\end{{document}}after".encode())
    assert document.found["hidden-text"] >= len("after")


def test_a_notebook_is_read_by_its_cells() -> None:
    assert parts(notebook.read, documents.NOTEBOOK) == {
        "cell 1 (notes)": "# On gates\nWe open.",
        "cell 2 (code)": "print(1)",
        "cell 2 (output)": "1\n<Figure>\nE: v",
    }
    assert claims(read(notebook.read, documents.NOTEBOOK)) == ("Gates", ["Ada Gate"], None)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"{", "damaged"),
        (b"[]", "other-kind"),
        (b'{"nbformat":3,"worksheets":[{"cells":[]}]}', "other-kind"),
        (b'{"nbformat":4,"cells":{}}', "other-kind"),
        (b'{"nbformat":4,"nbformat":4,"cells":[]}', "damaged"),
    ],
)
def test_what_is_no_notebook_is_refused(raw: bytes, reason: str) -> None:
    assert why_unread(notebook.read, raw)[0] == reason


def test_values_of_another_type_in_a_notebook_are_left_out() -> None:
    raw = documents.notebook(
        {"cell_type": 7, "source": {"a": 1}, "outputs": "no"},
        {"cell_type": "code", "source": "x", "outputs": [1, {"output_type": [], "data": []}]},
    )
    assert parts(notebook.read, raw) == {"cell 2 (code)": "x"}


def test_tei_is_read_by_its_divisions() -> None:
    assert parts(xml_text.read, documents.TEI) == {
        "text": "Before.",
        "Methods": "Methods\nWe open 10^6.\n12 | 34 |",
        "Inner": "Inner\nDeep.",
        "References": "References\nGate A.",
    }
    labels = [part.label.open_for_display() for part in read(xml_text.read, documents.TEI).parts]
    assert labels == ["text", "Methods", "Inner", "Methods", "References"]
    assert claims(read(xml_text.read, documents.TEI)) == ("On gates", ["Ada Gate"], "2021-03-04")


@pytest.mark.parametrize(
    ("raw", "read_as"),
    [
        (documents.MARKDOWN.encode(), "text/markdown"),
        (documents.LATEX.encode(), "text/x-tex"),
        (documents.NOTEBOOK, "application/x-ipynb+json"),
        (documents.TEI, "application/xml"),
    ],
)
def test_each_becomes_a_packet(raw: bytes, read_as: str) -> None:
    packet = made(page_of(raw, read_as), scheme="url")
    assert packet.media_type == read_as
    assert packet.title.open_for_display().endswith(("ates",))
    assert "".join(texts(packet).values())
