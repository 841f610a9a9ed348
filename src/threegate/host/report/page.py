"""A report as one HTML page that loads nothing and runs nothing.

SECURITY
    Writes foreign text for browsers.  Everything is escaped; a content policy in the page forbids
    every load and every script in case that fails.  Foreign text has its own elements, whose text
    direction cannot affect ours.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from threegate.base.text import visible
from threegate.host.provenance.graph import as_svg
from threegate.host.report.facts import (
    Block,
    Cells,
    Command,
    DrawnPicture,
    Foreign,
    Heading,
    Picture,
    ReportImage,
    ReportLine,
    ReportList,
    Span,
    Title,
)
from threegate.host.report.pdf_file import as_png
from threegate.host.review.characters import in_lines, on_one_line

_STYLE: Final = """
body { font: 1rem/1.55 sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff; overflow-wrap: anywhere; }
h1, h2, h3 { line-height: 1.25; }
h1 { font-size: 1.6rem; }
h2 { font-size: 1.3rem; border-bottom: 1px solid #bbb; margin: 2.5rem 0 1rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
p { margin: .5rem 0; }
ul { padding-left: 1.3rem; margin: .5rem 0; }
li { margin: .15rem 0; }
code, pre.command { font-family: monospace; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0; padding: .5rem .75rem; }
.foreign { font-family: inherit; background: #f4f1e8; unicode-bidi: isolate; }
pre.foreign { border-left: 4px solid #b59b3b; }
pre.fixed { font-family: monospace; font-size: .9rem; line-height: 1.35; }
bdi.foreign { white-space: pre-wrap; padding: 0 .25rem; }
h1 bdi.foreign { display: block; border-left: 4px solid #b59b3b; padding: .5rem .75rem; }
pre.command { background: #eee; }
table.foreign { border-collapse: collapse; border-left: 4px solid #b59b3b; font-size: .9rem; }
table.foreign :is(td, th) { border: 1px solid #d8d0b8; padding: .15rem .5rem; text-align: start; }
img.foreign { display: block; max-width: 100%; height: auto; border-left: 4px solid #b59b3b;
  padding-left: .75rem; }
strong.loud { color: #a00000; }
ul:has(strong.loud) { background: #fdf1f1; border-left: 4px solid #a00000;
  padding: .5rem .75rem .5rem 2rem; }
.picture { overflow-x: auto; width: 94vw; margin-left: calc(50% - 47vw); }
.picture svg { display: block; margin: 0 auto; max-width: 100%; height: auto; }
@media print {
  body { max-width: none; margin: 0; }
  .picture { width: auto; margin: 0; }
}
"""
_NAMESPACE: Final = ' xmlns="http://www.w3.org/2000/svg"'  # needless within a page


def policy_of(blocks: list[Block]) -> str:
    """Return what the page of a report may load: its one style sheet, and its own images."""
    # Images are in the page itself; without one, not even that is let in.
    images = "img-src data:; " if any(isinstance(block, DrawnPicture) for block in blocks) else ""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode("utf-8")).digest()).decode("ascii")
    rest = f"style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; {images}{rest}"


def as_page(blocks: list[Block]) -> bytes:
    """Return a report as an HTML page."""
    title = next(block.text for block in blocks if isinstance(block, Title))
    head = (
        '<!DOCTYPE html>\n<html lang="en" dir="ltr">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy_of(blocks))}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_plain(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    )
    body = "".join(f"{text}\n" for block in blocks for text in _block(block))
    return f"{head}{body}</body>\n</html>\n".encode()


def _block(block: Block) -> Iterator[str]:
    match block:
        case Title(_, foreign):
            yield f"<h1>{_foreign(foreign)}</h1>"
        case Heading(level, text, anchor, foreign):
            name = f' id="{escape(anchor)}"' if anchor else ""
            last = f" {_foreign(foreign)}" if foreign else ""
            yield f"<h{level}{name}>{_plain(text)}{last}</h{level}>"
        case ReportLine():
            yield f"<p>{_line(block)}</p>"
        case ReportList(lines):
            yield f"<ul>{''.join(f'<li>{_line(one)}</li>' for one in lines)}</ul>"
        case Foreign(text, fixed):
            # The line break behind the tag is not part of the text: every reader drops one.
            shown = escape("\n".join(in_lines(text)))
            look = 'class="foreign fixed" dir="ltr"' if fixed else 'class="foreign" dir="auto"'
            yield f"<pre {look}>\n{shown}</pre>"
        case Command(text):
            yield f'<pre class="command">\n{_plain(text)}</pre>'
        case Picture(graph):
            yield f'<div class="picture">{as_svg(graph).replace(_NAMESPACE, "", 1)}</div>'
        case Cells(rows):
            yield f'<table class="foreign">{"".join(_rows(rows))}</table>'
        case DrawnPicture(image, what):
            yield _image(image, what)


def _rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        cells = (f'<{tag} dir="auto">{escape(on_one_line(cell))}</{tag}>' for cell in row)
        yield f"<tr>{''.join(cells)}</tr>"


def _image(image: ReportImage, what: str) -> str:
    data = base64.b64encode(as_png(image)).decode("ascii")
    size = f'width="{image.width}" height="{image.height}"'
    return f'<img class="foreign" {size} alt="{what}" src="data:image/png;base64,{data}">'


def _line(one: ReportLine) -> str:
    return "".join(map(_span, one.spans))


def _span(span: Span) -> str:
    match span.style:
        case "foreign":
            return _foreign(span.text)
        case "mono":
            return f"<code>{_plain(span.text)}</code>"
        case "loud":
            return f'<strong class="loud">{_plain(span.text)}</strong>'
        case "cite":
            return f'<a href="#source-{int(span.text)}">[{int(span.text)}]</a>'
        case "plain":
            return _plain(span.text)


def _foreign(text: str) -> str:
    return f'<bdi class="foreign">{escape(on_one_line(text))}</bdi>'


def _plain(text: str) -> str:
    return escape(visible(text))
