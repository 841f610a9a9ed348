"""JATS full text: one part per section of the body, then the back matter.

The front matter is read by `sources.jats` and counts as an answer of the registry.

SECURITY
    Works on the bounded tree that `fetch.xml` makes.
"""

from collections.abc import Iterator
from typing import Final

from threegate.artifacts.sources import LOCAL_SOURCES
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.text import Document, Part, Unread
from threegate.gates.fetch.sources import jats
from threegate.gates.fetch.sources.answers import Stop
from threegate.gates.fetch.sources.fields import Record
from threegate.gates.fetch.sources.markup import plain_element
from threegate.gates.fetch.xml import Element

_CELLS: Final = ("td", "th")


def read_root(root: Element, answer: KeptAnswer) -> Document:
    """Return the one article in the tree, or raise `Unread`."""
    articles = jats.find(root)
    if isinstance(articles, Stop) or len(articles) != 1:
        raise Unread("other-kind", "not one article")
    article = articles[0]
    record = Record(answer.source)
    jats.read(article, record)
    registered = answer.source not in LOCAL_SOURCES  # a file on disk is anybody's claim
    return Document(tuple(_parts(article)), record.finished(), registered=registered)


def _parts(article: Element) -> Iterator[Part]:
    body = article.first("body")
    if body is not None:
        yield from _sections(body, "text")
    back = article.first("back")
    if back is not None:
        yield from _sections(back, "back matter")


def _sections(holder: Element, name: str) -> Iterator[Part]:
    """Yield each section with its title; what stands between sections keeps its place."""
    loose: list[Element | str] = []
    for item in holder.content:
        if isinstance(item, Element) and item.name in ("sec", "ack", "ref-list", "app-group"):
            yield from _part(name, Element(holder.name, content=loose))
            loose = []
            title = item.first("title")
            heading = item.name if title is None else plain_element(title).text
            yield from _part(f"{name}: {heading}", item)
        else:
            loose.append(item)
    yield from _part(name, Element(holder.name, content=loose))


def _part(label: str, element: Element) -> Iterator[Part]:
    separate_cells(element)
    text = plain_element(element).text
    if text:
        yield Part(Untrusted(label.replace("\n", " ")), Untrusted(text))


def separate_cells(element: Element) -> None:
    """Put a bar after each cell of a table: without one, two numbers become one."""
    for child in element.children():
        separate_cells(child)
        if child.name in _CELLS:
            child.content.append(" | ")
