"""arXiv: the Atom feed of `/api/query?id_list=`.

An unknown id gives an empty feed, a malformed one an entry called `Error`; both mean
that there is no such paper.  A real title can be the text `0`.

SECURITY
    Reads an answer of a foreign server.  See `fields` for what falls if this is wrong.
"""

from collections.abc import Sequence
from typing import Final

from threegate.artifacts.limits import MAX_TITLE_CHARS
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources import dates
from threegate.gates.fetch.sources.answers import XML_TYPES, Reader, Stop, other_kind, xml_document
from threegate.gates.fetch.sources.fields import Record
from threegate.gates.fetch.sources.markup import Plain, squeeze
from threegate.gates.fetch.xml import Element

SOURCE: Final = "arxiv"
ATOM: Final = "http://www.w3.org/2005/Atom"
_ERRORS: Final = ("http://arxiv.org/api/errors", "https://arxiv.org/api/errors")
_WITHDRAWN: Final = (
    "withdrawn",
    "paper withdrawn",
    "article withdrawn",
    *(
        f"this {thing} {verb} withdrawn"
        for thing in ("paper", "article", "submission", "manuscript", "version")
        for verb in ("has been", "is", "was", "is being")
    ),
)


def _find(feed: Element) -> Sequence[Element] | Stop:
    if (feed.name, feed.namespace) != ("feed", ATOM):
        return other_kind("no Atom feed")
    entries = list(feed.children("entry"))
    for entry in entries:
        if _text(entry, "id").startswith(_ERRORS):
            if _text(entry, "summary").lower().startswith("incorrect id format"):
                return Stop("not-found")
            return Stop("refused", "the source says it failed")
    return entries


def _text(entry: Element, *path: str) -> str:
    found = entry.first(*path)
    return "" if found is None else found.text()


def _tex(text: str) -> Plain:
    return Plain(squeeze(text.replace("\n", " ")))  # TeX: `<` is less than


def _read(entry: Element, record: Record) -> None:
    title = _text(entry, "title")
    text = record.text("title", title, MAX_TITLE_CHARS, _tex(title))
    record.title = None if text is None else Untrusted(text)
    if text is None:
        record.note("title", "missing")
    for author in entry.children("author"):
        record.add_author(_text(author, "name"))
    record.set_published(dates.from_text(_text(entry, "published")))
    record.add_identifier("arxiv", _text(entry, "id"))
    record.add_identifier("doi", _text(entry, "doi"))
    journal = entry.first("journal_ref")
    record.set_container(None if journal is None else journal.text())
    summary = _text(entry, "summary")
    record.add_abstract(None, summary, _tex(summary))
    for link in entry.children("link"):
        kind = "pdf" if link.attributes.get("type") == "application/pdf" else "landing"
        record.add_link(kind, link.attributes.get("href"))
    for basis in ("comment", "summary"):
        if _text(entry, basis).lower().startswith(_WITHDRAWN):
            record.add_notice("retracted", basis, label="withdrawn")


READER: Final = Reader(SOURCE, XML_TYPES, xml_document, _find, _read, read_errors=(400,))
