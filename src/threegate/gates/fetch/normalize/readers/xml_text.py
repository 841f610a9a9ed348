"""XML: JATS by its sections, TEI by its divisions, a feed by its entries, the rest by lines.

SECURITY
    Reads foreign bytes through `fetch.xml`, which loads nothing and expands nothing.
"""

from collections.abc import Iterator
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers import jats_text, tei_text
from threegate.gates.fetch.normalize.text import Document, Part, Unread
from threegate.gates.fetch.sources import jats
from threegate.gates.fetch.sources.arxiv import ATOM
from threegate.gates.fetch.sources.markup import plain
from threegate.gates.fetch.xml import Element, XmlRefused, parse_xml

_LABEL: Final = Untrusted("text")
_UNREAD: Final = {"encoding": "encoding", "too-deep": "too-large", "too-large": "too-large"}


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the document as text, or raise `Unread`."""
    try:
        root = parse_xml(raw)
    except XmlRefused as exc:
        raise Unread(_UNREAD.get(exc.reason, "damaged"), str(exc)) from exc
    if root.name in jats.ROOTS:
        return jats_text.read_root(root, answer)
    if root.name in tei_text.ROOTS:
        return tei_text.read_root(root, answer)
    if (root.name, root.namespace) == ("feed", ATOM):
        return Document(tuple(_entries(root)))
    return Document((Part(_LABEL, Untrusted("\n".join(_lines(root)))),))


def _entries(feed: Element) -> Iterator[Part]:
    """Yield the feed's own words, then one part per entry."""
    yield Part(Untrusted("feed"), Untrusted("\n".join(_said(feed, "title", "subtitle"))))
    for number, entry in enumerate(feed.children("entry"), 1):
        text = "\n".join(_said(entry, "title", "published", "summary", "content"))
        yield Part(Untrusted(f"entry {number}"), Untrusted(text))


def _said(element: Element, *names: str) -> Iterator[str]:
    for name in names:
        for child in element.children(name):
            # Escaped HTML, XHTML elements, or neither: the text of all three.
            text = plain("\n".join(_lines(child))).text
            if text:
                yield text


def _lines(element: Element) -> Iterator[str]:
    """Yield the text of an element and of all inside it, one line per run."""
    for item in element.content:
        if isinstance(item, Element):
            yield from _lines(item)
        else:
            text = item.strip()
            if text:
                yield text
