"""Reports made by hand, ordinary and hostile, and what a reader of each format finds in them.

Usage: python -m tests.support.reports   writes the golden files anew, to be looked at before
they are kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pypdfium2  # type: ignore[import-untyped]
from markdown_it import MarkdownIt

from tests.support.samples import digest
from threegate.host.provenance.graph import Graph, Node
from threegate.host.provenance.headlines import Headline
from threegate.host.report.facts import (
    Block,
    Card,
    CheckStep,
    Fact,
    Quote,
    ReportClaim,
    ReportFacts,
)
from threegate.host.report.layout import lay_out
from threegate.host.report.markdown import as_markdown
from threegate.host.report.page import as_page
from threegate.host.report.pdf import as_pdf
from threegate.host.report.provenance import trace
from threegate.host.report.sources import FOUND

GOLDEN = Path(__file__).resolve().parents[1] / "unit/host/report/golden"
AN, RP, AP = "an-" + digest("analysis"), "rp-" + digest("packet"), "ap-" + digest("ap")
RENDERERS: Mapping[str, Callable[[list[Block]], bytes]] = {
    "html": as_page,
    "md": as_markdown,
    "pdf": as_pdf,
}
# Each would do something where text is taken for more than text.
HOSTILE = (
    "<script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)>",
    "</pre></bdi></code></body><iframe src=//evil.example></iframe>",
    "</style><style>@import url(https://evil.example/x.css)</style>",
    "![x](https://evil.example/x.png) [y](javascript:alert(1)) <https://evil.example/>",
    "```\n# Heading\n````\n- list\n\n<b>bold</b>\n~~~\n",
    "`` ` ``` a ` b",
    "a](#x) **loud** __x__ | cell | $$x$$ www.evil.example me@evil.example",
    "end) Tj ET endstream endobj 9 0 obj << /S /JavaScript /JS (app.alert(1)) >>",
    "\\u{202e} written by hand, \u202e for real, \u200b\u2066\u00ad hidden",
    "p\u0430ypal \u0440\u0430\u0443 \u05d0\u05d1\u05d2 abc \u4e2d\u6587 \U0001f600 caf\u00e9",
    "\x1b]52;c;x\x07 \x00 \x7f \x85 \r\n &lt;b&gt; &#60; &amp;",
    "W" * 5000,
    " ",
    "\n\n  leading and trailing  \n",
    "--- \n===\n> quote\n1. one\n\ttab",
)


def small(**changes: Any) -> ReportFacts:
    """Return a report on one quoted claim and one without a quote."""
    words = "Ice broke at 1.2 MPa."
    quote = Quote(1, RP, 1, 7, 16, digest("broke at 1.2 MPa"), "broke at 1.2 MPa", FOUND)
    claims = (
        ReportClaim(1, words, "quote found", "quote found", (quote,)),
        ReportClaim(2, "Colder ice is tougher.", "unchecked", "unchecked", ()),
    )
    base = ReportFacts(
        id=AN,
        question="How tough is ice?",
        confidentiality="public",
        counts=(
            ("quote found", 1),
            ("number differs", 0),
            ("unchecked", 1),
            ("source retracted", 0),
        ),
        loud=(f"source 1 ({RP[:15]}): RETRACTED: according to crossref",),
        answer=None,
        claims=claims,
        sources=(
            Card(
                Headline(RP, "RETRACTED: Ice", "Ada Example et al., 2024", ("RETRACTED",)),
                ("RETRACTED: according to crossref",),
                (
                    Fact("authors", "Ada Example; Björn Muster", True),
                    Fact("DOI", "10.5555/1", True),
                ),
                (Fact("id", RP), Fact("raw bytes", f"3, sha256 {digest('raw')}")),
            ),
        ),
        made=(Fact("method", "model, written by qwen (embedded)"), Fact("model", "qwen", True)),
        left_out=(Fact("texts read and not selected", "3"),),
        notes=("Selected by words.",),
        trace=trace(_graph("Ice"), claims),
        approvals=(Card(Headline(AP), (), (Fact("approver", "operator", True),)),),
        checks=(CheckStep("threegate audit verify", "the log is whole"),),
    )
    return replace(base, **changes)


def _graph(title: str) -> Graph:
    nodes = {
        AN: Node(AN, "analysis", "accepted", title, ()),
        RP: Node(RP, "research-packet", "accepted", title, (f"from {title}",)),
    }
    return Graph(AN, nodes, frozenset({(RP, AN)}), cut=False)


def saying(text: str) -> ReportFacts:
    """Return a report in which every foreign text is this one."""
    quote = Quote(1, RP, 1, 0, max(1, len(text)), digest("x"), text + ".", FOUND)
    claims = (ReportClaim(1, text, "quote found", "quote found", (quote,)),)
    return small(
        question=text,
        answer=text,
        claims=claims,
        sources=(
            Card(
                Headline(RP, text, text, ("TEST SOURCE",)),
                (),
                (Fact("title", text, True), Fact("authors", text, True)),
            ),
        ),
        made=(Fact("model", text, True),),
        notes=(text,),
        trace=trace(_graph(text), claims),
        approvals=(Card(Headline(AP, text), (), (Fact("approver", text, True),)),),
    )


def drawn(report: ReportFacts, form: str) -> bytes:
    """Return a report in a format."""
    return RENDERERS[form](lay_out(report))


class PageReader(HTMLParser):
    """Collects the tags, attributes and foreign texts of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.foreign: list[str] = []
        self.open: list[str] = []
        self._in_foreign = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in ("img", "meta", "path", "rect"):
            self.open.append(tag)
        classes = (dict(attrs).get("class") or "").split()
        if "foreign" in classes and tag not in ("img", "table"):
            self._in_foreign = True
            self.foreign.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if self._in_foreign and tag == "pre":  # as browsers do
            self.foreign[-1] = self.foreign[-1].removeprefix("\n")
        self._in_foreign = False

    def handle_data(self, data: str) -> None:
        if self._in_foreign:
            self.foreign[-1] += data


def read_page(data: bytes) -> PageReader:
    """Return what a browser's parser finds."""
    reader = PageReader()
    reader.feed(data.decode("utf-8"))
    reader.close()
    return reader


def read_markdown(data: bytes) -> tuple[set[str], list[str]]:
    """Return the kinds of tokens in a Markdown document, and the texts of all code in it."""
    parser = MarkdownIt("gfm-like", {"html": True, "linkify": False}).disable("linkify")
    kinds: set[str] = set()
    code: list[str] = []
    for token in parser.parse(data.decode("utf-8")):
        for one in (token, *(token.children or ())):
            kinds.add(one.type)
            if one.type in ("fence", "code_inline", "code_block"):
                code.append(one.content)
    return kinds, code


def read_pdf(data: bytes) -> list[str]:
    """Return the text of every page, as a PDF reader sees it."""
    document = pypdfium2.PdfDocument(data)
    try:
        return [page.get_textpage().get_text_range() for page in document]
    finally:
        document.close()


def pdf_images(data: bytes) -> int:
    """Return how many images a PDF reader draws."""
    document = pypdfium2.PdfDocument(data)
    kinds = [pypdfium2.raw.FPDF_PAGEOBJ_IMAGE]
    try:
        return sum(1 for page in document for _ in page.get_objects(filter=kinds))
    finally:
        document.close()


def pdf_boxes(data: bytes) -> list[tuple[float, float, float, float]]:
    """Return left, bottom, right and top of every character, as a PDF reader places it."""
    document = pypdfium2.PdfDocument(data)
    try:
        texts = [page.get_textpage() for page in document]
        return [text.get_charbox(n) for text in texts for n in range(text.count_chars())]
    finally:
        document.close()


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name in RENDERERS:
        (GOLDEN / f"small.{name}").write_bytes(drawn(small(), name))
