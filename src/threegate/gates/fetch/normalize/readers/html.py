"""HTML: the main text of a page, in sections by heading, without what nobody sees.

SECURITY
    Reads hostile bytes with lexbor, libxml2 and trafilatura, in the box of `fetch-html`.  The
    limits of `html_bounds` are checked before anything is parsed.  A page that gets round
    them meets the limits of the box.  If this module is
    wrong, a packet quotes text that was not seen on the page; the box has nothing to give away.
"""

from typing import Final

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers import main_text
from threegate.gates.fetch.normalize.readers.charset import decoded
from threegate.gates.fetch.normalize.readers.elements import outermost
from threegate.gates.fetch.normalize.readers.hidden_html import remove_hidden
from threegate.gates.fetch.normalize.readers.html_bounds import check_bounds
from threegate.gates.fetch.normalize.text import Document, Part, Unread
from threegate.gates.fetch.sources import dates
from threegate.gates.fetch.sources.fields import Record
from threegate.gates.fetch.sources.metadata import Metadata

MAX_HTML_BYTES: Final = 10 * 2**20
MIN_MAIN_CHARS: Final = 250  # a main text shorter than this is looked at again
LOST_RATIO: Final = 4  # how much more there must be on the page to be taken instead


def read(raw: Untrusted[bytes], _answer: KeptAnswer) -> Document:
    """Return the text of a page, one part per heading; raise `Unread`."""
    untrusted = raw.open_for_validation()
    if len(untrusted) > MAX_HTML_BYTES:
        raise Unread("too-large", f"{len(untrusted)} bytes, limit {MAX_HTML_BYTES}")
    text = decoded(untrusted)
    check_bounds(text)
    try:
        page = LexborHTMLParser(text)
    except SelectolaxError as exc:
        raise Unread("damaged", "the page cannot be parsed") from exc
    about = _about(page)
    removed = remove_hidden(page)
    _remove_frame(page)
    parts = _parts(page)
    if not parts:
        detail = f"; {removed.hidden} characters are hidden" if removed.hidden else ""
        raise Unread("empty", f"no visible text on the page{detail}")
    counts = {"hidden-text": removed.hidden, "hidden-undecided": removed.undecided}
    return Document(parts, about, found={name: n for name, n in counts.items() if n})


def _about(page: LexborHTMLParser) -> Metadata:
    """Return what the page says of itself; anybody can write anything there."""
    record = Record("url")
    title = page.css_first("title")
    heading = page.css_first("h1") if title is None or not title.text().strip() else title
    record.set_title(" ".join(heading.text().split()) if heading is not None else None)
    for meta in page.css('meta[name^="citation_" i]'):
        name, value = _attribute(meta.attributes, "name").lower(), meta.attributes.get("content")
        if name == "citation_author" and value:
            record.add_author(value)
        elif name == "citation_doi":
            record.add_identifier("doi", value)
        elif name in ("citation_publication_date", "citation_date") and value:
            record.set_published(dates.from_text(value.replace("/", "-")))
    return record.finished()


def _attribute(attributes: dict[str, str | None], name: str) -> str:
    return attributes.get(name) or ""


def _remove_frame(page: LexborHTMLParser) -> None:
    """Take out what trafilatura would not read either, unless there is nothing else.

    It does so later, with the tree copied twice by then.
    """
    frame = {node.mem_id: node for node in page.css("aside, footer")}
    inside = {node.mem_id for outer in frame.values() for node in outer.css("p")}
    if frame and len(page.css("p")) > len(inside):
        for node in outermost(frame):
            node.decompose()


def _parts(page: LexborHTMLParser) -> tuple[Part, ...]:
    made: list[Part] = []
    whole = page.html or ""
    try:
        body = main_text.main_text(whole)
        if body is not None:
            for heading, text in main_text.sections(body):
                made.append(Part(Untrusted(heading or "text"), Untrusted(text)))
    except main_text.FAILURES:
        made.clear()  # read without it, below
    found = sum(len(part.text.open_for_validation()) for part in made)
    if found < MIN_MAIN_CHARS and page.body is not None:
        lines = page.body.text(separator="\n", strip=True)
        if len(lines) > LOST_RATIO * found:  # a list of results is no article, and is a page too
            made = [Part(Untrusted("text"), Untrusted(lines))]
    return tuple(made)
