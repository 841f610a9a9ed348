"""A report as Markdown: foreign text appears only inside code.

Its images are separate files next to it, re-encoded from points, with names that we chose.  Inside
code nothing is markup, in any dialect: no link, no image, no HTML, no automatic link.  A fence is
longer than any row of backticks in its text, so the text cannot end it.

SECURITY
    Writes foreign text for programs that load images and run HTML.  If this module is wrong,
    opening a report does what a source wants.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

from threegate.base.text import visible
from threegate.host.provenance.graph import as_text
from threegate.host.report.facts import (
    Block,
    Cells,
    Command,
    DrawnPicture,
    Foreign,
    Heading,
    Picture,
    ReportLine,
    ReportList,
    Span,
    Title,
)
from threegate.host.report.pdf_file import as_png
from threegate.host.review.characters import in_columns, in_lines, on_one_line

_ACTIVE: Final = re.compile(r"[\\`*_\[\]<>&#|~!]")
_TICKS: Final = re.compile("`+")


def as_markdown(blocks: list[Block], beside: Sequence[str] = ()) -> bytes:
    """Return a report as Markdown; `beside` names the files its images are written to, in order.

    Without them the images are only spoken of.
    """
    names = iter(beside)
    return "".join(f"{text}\n\n" for one in blocks for text in _block(one, names)).encode("utf-8")


def images_beside(blocks: list[Block], name: str) -> dict[str, bytes]:
    """Return the images of a report called `name` as files of their own, in order."""
    stem = name.removesuffix(".md")
    drawn = [block.image for block in blocks if isinstance(block, DrawnPicture)]
    return {f"{stem}-{number}.png": as_png(image) for number, image in enumerate(drawn, 1)}


def _block(block: Block, beside: Iterator[str]) -> Iterator[str]:
    match block:
        case Title(_, foreign):
            yield f"# {code_span(on_one_line(foreign))}"
        case Heading(level, text, _, foreign):
            last = f" {code_span(on_one_line(foreign))}" if foreign else ""
            yield f"{'#' * level} {_plain(text)}{last}"
        case ReportLine():
            yield _line(block)
        case ReportList(lines):
            yield "\n".join(f"- {_line(one)}" for one in lines)
        case Foreign(text):
            yield _fenced(in_lines(text))
        case Command(text):
            yield _fenced([visible(text)])
        case Picture(graph):
            yield _fenced(as_text(graph).split("\n"))
        case Cells(rows):
            yield _fenced(in_columns(rows))
        case DrawnPicture(_, what):
            yield _image(next(beside, None), what)


def _image(name: str | None, what: str) -> str:
    if name is None:
        return "The image is not in here: it is with `--output FILE`, `--format html` or pdf."
    # Percent signs for everything: what an operator calls a file is not markup either.
    return f"![{what}](./{quote(name, safe='')})"


def _line(one: ReportLine) -> str:
    return "".join(map(_span, one.spans))


def _span(span: Span) -> str:
    match span.style:
        case "foreign":
            return code_span(on_one_line(span.text))
        case "mono":
            return code_span(visible(span.text))
        case "loud":
            return f"**{_plain(span.text)}**"
        case "cite":
            return f"\\[{int(span.text)}\\]"
        case "plain":
            return _plain(span.text)


def _plain(text: str) -> str:
    return _ACTIVE.sub(r"\\\g<0>", visible(text))


def code_span(text: str) -> str:
    """Return one line as code."""
    if not text.strip():
        return "(empty)"
    ticks = "`" * (_longest(text) + 1)
    # Every reader takes away one blank on each side, if there is one on both.
    ends = text[0] + text[-1]
    pad = " " if "`" in ends or ends == "  " else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _fenced(lines: list[str]) -> str:
    fence = "`" * max(3, _longest("\n".join(lines)) + 1)
    return "\n".join([f"{fence}text", *lines, fence])


def _longest(text: str) -> int:
    return max((len(found) for found in _TICKS.findall(text)), default=0)
