"""XML into a small tree: no entities of its own, no outside files, bounded in every way.

The standard library's expat does the reading; docs/decisions/0010-xml-on-expat.md says
why that is enough.

SECURITY
    Reads foreign bytes.  A document type with declarations of its own is refused, so
    nothing can expand (billion laughs, a long default for an attribute of many elements)
    and nothing can point outside (XXE); the mere name of a type is allowed, for scholarly
    sources send one, but nothing is ever loaded for it.  If this
    module is wrong, FETCH's normalizer uses too much memory or a packet quotes text
    that was not in the source; the box it runs in has no file to give away.
"""
# ruff: noqa: A005 - every import here is absolute, so the library's `xml` stays what it is

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from threegate.base.untrusted import Untrusted

MAX_XML_BYTES: Final = 16 * 2**20
MAX_XML_DEPTH: Final = 128
MAX_XML_NODES: Final = 300_000  # elements, attributes and pieces of text
# Other encodings are refused: expat asks Python for a codec of the document's choosing.
_ENCODINGS: Final = ("utf-8", "utf8", "us-ascii", "ascii")
_SEPARATOR: Final = " "  # cannot stand in a name, so a name splits in one way only


class XmlRefused(ValueError):
    """The document is not XML this reader accepts; `reason` is one of our own words."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(slots=True)
class Element:
    """One element: local name, namespace, attributes by local name, and what it holds."""

    name: str
    namespace: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    content: list["Element | str"] = field(default_factory=list)

    def children(self, name: str | None = None) -> Iterator["Element"]:
        """Yield the elements directly inside, all or those called `name`."""
        for item in self.content:
            if isinstance(item, Element) and name in (None, item.name):
                yield item

    def every(self, *path: str) -> Iterator["Element"]:
        """Yield the elements reached by `path`, one name per level."""
        if not path:
            yield self
            return
        for child in self.children(path[0]):
            yield from child.every(*path[1:])

    def first(self, *path: str) -> "Element | None":
        """Return the first element reached by `path`."""
        return next(self.every(*path), None)

    def text(self) -> str:
        """Return the text directly inside, elements left out, white space trimmed."""
        return "".join(item for item in self.content if isinstance(item, str)).strip()


class XmlEvents:
    """Receives what expat finds; every bound is checked before the event is handed on.

    A reader of large documents overrides `opened`, `closed` and `said` and keeps no tree.
    """

    most_bytes, most_nodes = MAX_XML_BYTES, MAX_XML_NODES

    def __init__(self) -> None:
        self._nodes = self._depth = 0

    def opened(self, name: str, namespace: str, attributes: dict[str, str]) -> None:
        """Take the beginning of an element, with its attributes by local name."""

    def closed(self, name: str) -> None:
        """Take the end of an element."""

    def said(self, text: str) -> None:
        """Take a piece of text."""

    def _start(self, name: str, attributes: list[str]) -> None:
        self._count(1 + len(attributes))
        if self._depth >= MAX_XML_DEPTH:
            raise XmlRefused("too-deep", f"elements nested deeper than {MAX_XML_DEPTH}")
        self._depth += 1
        namespace, _, local = name.rpartition(_SEPARATOR)
        self.opened(local, namespace, _by_local_name(attributes) if attributes else {})

    def _end(self, name: str) -> None:
        self._depth -= 1
        self.closed(name.rpartition(_SEPARATOR)[2])

    def _text(self, data: str) -> None:
        self._count(1)
        self.said(data)

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > self.most_nodes:
            raise XmlRefused("too-large", f"more than {self.most_nodes} nodes")


def _by_local_name(attributes: list[str]) -> dict[str, str]:
    pairs = list(zip(attributes[::2], attributes[1::2], strict=True))
    found = {key.rpartition(_SEPARATOR)[2]: value for key, value in pairs}
    if len(found) < len(pairs):  # of two with one local name, the one with a namespace counts
        pairs.sort(key=lambda pair: _SEPARATOR in pair[0])
        found = {key.rpartition(_SEPARATOR)[2]: value for key, value in pairs}
    return found


class _Builder(XmlEvents):
    """Makes a tree."""

    def __init__(self) -> None:
        super().__init__()
        self.root: Element | None = None
        self._open: list[Element] = []

    def opened(self, name: str, namespace: str, attributes: dict[str, str]) -> None:
        made = Element(name, namespace, attributes)
        if self._open:
            self._open[-1].content.append(made)
        else:
            self.root = made
        self._open.append(made)

    def closed(self, _name: str) -> None:
        self._open.pop()

    def said(self, text: str) -> None:
        self._open[-1].content.append(text)


def _declaration(_version: str, encoding: str | None, _standalone: int) -> None:
    if encoding is not None and encoding.lower() not in _ENCODINGS:
        raise XmlRefused("encoding", "an encoding other than UTF-8 is declared")


def _doctype(_name: str, _system: str | None, _public: str | None, own: int) -> None:
    if own:
        raise XmlRefused("doctype", "the document type has declarations of its own")


def _entity_declared(*_declaration: object) -> None:
    raise XmlRefused("entity", "an entity is declared")


def _entity_unknown(*_reference: object) -> None:
    # Leaving it out would change a quoted sentence without a trace.
    raise XmlRefused("entity", "an entity is used that this reader does not know")


def _outside(*_reference: object) -> int:
    raise XmlRefused("entity", "a part outside the document is referred to")


def parse_xml(data: Untrusted[bytes]) -> Element:
    """Return the root element of the document in `data`, or raise `XmlRefused`."""
    builder = _Builder()
    parse_events(data, builder)
    assert builder.root is not None, "expat accepts no document without an element"
    return builder.root


def parse_events(data: Untrusted[bytes], into: XmlEvents) -> None:
    """Hand the elements and texts of the document in `data` to `into`, or raise `XmlRefused`."""
    untrusted = data.open_for_validation()
    if len(untrusted) > into.most_bytes:
        raise XmlRefused("too-large", f"{len(untrusted)} bytes, limit {into.most_bytes}")
    # UTF-16 has a NUL beside every `<`; expat would read it, whatever encoding it is told.
    if untrusted[:2] in (b"\xfe\xff", b"\xff\xfe") or b"\0" in untrusted:
        raise XmlRefused("encoding", "not UTF-8")
    # The encoding is given, so a declaration cannot choose a codec.
    parser = expat.ParserCreate("utf-8", _SEPARATOR)
    parser.buffer_text = True
    parser.ordered_attributes = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.XmlDeclHandler = _declaration
    parser.StartDoctypeDeclHandler = _doctype
    # The rest cannot happen any more, unless expat reports a type in another way one day.
    parser.EntityDeclHandler = _entity_declared
    parser.UnparsedEntityDeclHandler = _entity_declared
    parser.SkippedEntityHandler = _entity_unknown
    parser.ExternalEntityRefHandler = _outside
    parser.StartElementHandler = into._start  # noqa: SLF001 - of a class of this module
    parser.EndElementHandler = into._end  # noqa: SLF001
    parser.CharacterDataHandler = into._text  # noqa: SLF001
    try:
        parser.Parse(untrusted, True)  # noqa: FBT003 - expat takes no keyword
    except expat.ExpatError as exc:
        raise XmlRefused("not-xml", f"not well-formed XML in line {exc.lineno}") from exc
