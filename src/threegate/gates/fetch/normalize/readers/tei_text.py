"""TEI, as GROBID and editions write it: header as claims, one part per division.

SECURITY
    Works on the bounded tree that `fetch.xml` makes.
"""

from collections.abc import Iterator
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers.jats_text import separate_cells
from threegate.gates.fetch.normalize.text import Document, Part
from threegate.gates.fetch.sources import dates
from threegate.gates.fetch.sources.fields import Record, joined
from threegate.gates.fetch.sources.markup import plain_element
from threegate.gates.fetch.xml import Element

ROOTS: Final = ("TEI", "TEI.2", "teiCorpus")
# The names that `markup` knows for the same things.
_AS_JATS: Final = {
    "ab": "p",
    "bibl": "p",
    "biblStruct": "p",
    "cell": "td",
    "figDesc": "p",
    "formula": "p",
    "head": "title",
    "item": "li",
    "l": "p",
    "lb": "br",
    "lg": "div",
    "note": "p",
    "row": "tr",
}
_PLACES: Final = (("front", "front matter"), ("body", "text"), ("back", "back matter"))


def read_root(root: Element, answer: KeptAnswer) -> Document:
    """Return the text of a TEI document, division by division."""
    record = Record(answer.source)
    _read_header(root.first("teiHeader") or Element("teiHeader"), record)
    return Document(tuple(_parts(root)), record.finished())


def _read_header(header: Element, record: Record) -> None:
    source = header.first("fileDesc", "sourceDesc", "biblStruct") or Element("biblStruct")
    title = header.first("fileDesc", "titleStmt", "title")
    record.set_title(_said(title) or _said(source.first("analytic", "title")))
    record.set_container(_said(source.first("monogr", "title")))
    authors = list(source.every("analytic", "author"))
    for author in authors or header.every("fileDesc", "titleStmt", "author"):
        name = author.first("persName") or author
        forenames = [_said(part) for part in name.children("forename")]
        full = joined(*forenames, _said(name.first("surname")))
        record.add_author(full or _said(name))
    for date in (
        *header.every("fileDesc", "publicationStmt", "date"),
        *source.every("monogr", "imprint", "date"),
    ):
        record.set_published(dates.from_text(date.attributes.get("when") or date.text()))
    for abstract in header.every("profileDesc", "abstract"):
        record.add_abstract(None, _text(abstract))


def _parts(root: Element) -> Iterator[Part]:
    for text in root.children("text"):
        for name, label in _PLACES:
            for place in text.children(name):
                yield from _divisions(place, label)
    for inner in root.children():
        if inner.name in ROOTS:
            yield from _parts(inner)


def _divisions(holder: Element, label: str) -> Iterator[Part]:
    """Yield a part for what is between divisions, and one or more for each division."""
    loose: list[Element | str] = []
    for item in holder.content:
        if isinstance(item, Element) and item.name.startswith("div"):
            yield from _part(label, loose)
            loose = []
            heading = _said(item.first("head"))
            yield from _divisions(item, heading or label)
        else:
            loose.append(item)
    yield from _part(label, loose)


def _part(label: str, content: list[Element | str]) -> Iterator[Part]:
    text = _text(Element("div", content=content))
    if text:
        yield Part(Untrusted(label.replace("\n", " ")), Untrusted(text))


def _said(element: Element | None) -> str | None:
    return None if element is None else plain_element(element).text or None


def _text(element: Element) -> str:
    _rename(element)
    separate_cells(element)
    return plain_element(element).text


def _rename(element: Element) -> None:
    for child in element.children():
        raised = child.attributes.get("rend", "").startswith("sup") and child.name == "hi"
        child.name = "sup" if raised else _AS_JATS.get(child.name, child.name)
        _rename(child)
