"""Packages of Office Open XML: parts, relationships between them, and properties.

SECURITY
    Reads hostile bytes through `archive` and `fetch.xml`.  A relationship to something outside is
    counted and never followed.
"""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.readers.archive import Archive
from threegate.gates.fetch.normalize.readers.flow import Flow
from threegate.gates.fetch.normalize.text import Unread
from threegate.gates.fetch.sources import dates
from threegate.gates.fetch.sources.fields import Record
from threegate.gates.fetch.xml import Element, XmlEvents, XmlRefused, parse_events, parse_xml

MAX_PART_NODES: Final = 5_000_000  # a book has one million; no tree is kept
MAX_PART_BYTES: Final = 64 * 2**20
_UNREAD: Final = {"encoding": "encoding", "too-deep": "too-large", "too-large": "too-large"}
# How the namespaces begin that office programs know.
VOCABULARIES: Final = (
    "http://schemas.openxmlformats.org/",
    "http://schemas.microsoft.com/office/",
    "http://purl.oclc.org/ooxml/",
    "urn:schemas-microsoft-com:",
    "urn:oasis:names:tc:opendocument:",
    "urn:org:documentfoundation:names:",
    "http://openoffice.org/",
    "http://purl.org/dc/",
    "http://www.w3.org/",
)
_FOREIGN: Final = ":foreign"
# Relationships to content that runs or is loaded when an office program opens the file.
_ACTIVE: Final = frozenset(
    {
        "vbaProject",
        "oleObject",
        "package",
        "control",
        "aFChunk",
        "attachedTemplate",
        "activeXControl",
    }
)


class OfficeEvents(XmlEvents):
    """Events of a part that may be large.

    Office programs leave out elements and attributes of vocabularies that they do not know, so
    text in them is not seen.  Such an element, and all in it, is called `:foreign` here.
    """

    most_bytes, most_nodes = MAX_PART_BYTES, MAX_PART_NODES

    def __init__(self) -> None:
        super().__init__()
        self.foreign = 0  # how many such elements are open

    def counts(self, _element: str, attribute: str) -> bool:
        """Tell whether an attribute counts; both names are with their namespace."""
        return " " not in attribute or attribute.startswith(VOCABULARIES)

    def _start(self, name: str, attributes: list[str]) -> None:
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        kept = [text for pair in pairs if self.counts(name, pair[0]) for text in pair]
        if self.foreign or not name.startswith(VOCABULARIES):
            self.foreign += 1
            name = _FOREIGN
        super()._start(name, kept)

    def _end(self, name: str) -> None:
        super()._end(_FOREIGN if self.foreign else name)
        self.foreign -= bool(self.foreign)


@dataclass(frozen=True, slots=True)
class Relation:
    """One relationship of a part: its kind by the last word, and the part that it names."""

    id: str
    kind: str
    target: str
    outside: bool


def tree(raw: Untrusted[bytes]) -> Element:
    """Return a small XML part as a tree, or raise `Unread`."""
    try:
        return parse_xml(raw)
    except XmlRefused as exc:
        raise Unread(_UNREAD.get(exc.reason, "damaged"), str(exc)) from exc


def walk(raw: Untrusted[bytes], into: XmlEvents) -> None:
    """Hand the events of an XML part to `into`, or raise `Unread`."""
    try:
        parse_events(raw, into)
    except XmlRefused as exc:
        raise Unread(_UNREAD.get(exc.reason, "damaged"), str(exc)) from exc


class Package:
    """An Office Open XML file."""

    def __init__(self, raw: Untrusted[bytes]) -> None:
        self._archive = Archive(raw)
        self._names = frozenset(self._archive.names())

    def main(self) -> str:
        """Return the name of the part that is the document."""
        for relation in self.relations(""):
            if relation.kind == "officeDocument":
                return relation.target
        raise Unread("damaged", "no part of it is the document")

    def relations(self, part: str) -> list[Relation]:
        """Return the relationships of a part; `""` is the package itself."""
        folder, name = posixpath.split(part)
        listed = posixpath.join(folder, "_rels", f"{name}.rels")
        if listed not in self._names:
            return []
        root = tree(self._archive.read(listed))
        return [_relation(folder, item.attributes) for item in root.children("Relationship")]

    def related(self, part: str, kind: str) -> Iterator[str]:
        """Yield the parts that `part` names as `kind` and that are here."""
        for relation in self.relations(part):
            if relation.kind == kind and not relation.outside and relation.target in self._names:
                yield relation.target

    def walk(self, part: str, into: XmlEvents) -> None:
        """Hand the events of a part to `into`."""
        walk(self._archive.read(part), into)

    def tree(self, part: str) -> Element:
        """Return a small part as a tree."""
        return tree(self._archive.read(part))

    def count_active(self, part: str, flow: Flow) -> None:
        """Count what an office program would run or load for a part."""
        for relation in self.relations(part):
            outside = relation.outside and relation.kind != "hyperlink"
            flow.active += outside or relation.kind in _ACTIVE

    def read_properties(self, record: Record) -> None:
        """Copy title, authors and date of the file into `record`: claims of its author."""
        for part in self.related("", "core-properties"):
            root = self.tree(part)
            read_dublin_core(root, record)
            created = root.first("created")
            if created is not None:
                record.set_published(dates.from_text(created.text()))


def read_dublin_core(root: Element, record: Record) -> None:
    """Copy the title and authors that elements of Dublin Core name."""
    title = root.first("title")
    if title is not None and title.text():
        record.set_title(title.text())
    for name in root.children("creator"):
        if name.text():
            record.add_author(name.text())


def _relation(folder: str, attributes: dict[str, str]) -> Relation:
    target = attributes.get("Target", "")
    outside = attributes.get("TargetMode", "") == "External"
    if not outside:
        target = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
    kind = attributes.get("Type", "").rpartition("/")[2]
    return Relation(attributes.get("Id", ""), kind, target, outside)
