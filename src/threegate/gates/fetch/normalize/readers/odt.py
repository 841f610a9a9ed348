"""ODT: text by its headings, then notes and comments under labels of their own.

Left out and counted as `hidden-text`: text whose style or section is not displayed, hidden
fields, and deletions of tracked changes.  White text stays and is counted as `hidden-undecided`:
what it lies on is not known.  Headers and footers are not read.

SECURITY
    Reads hostile bytes through `archive` and `fetch.xml`, without keeping a tree.  Scripts,
    embedded objects and references to outside are counted as `active-content`; nothing is run or
    loaded.
"""

from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers.archive import Archive
from threegate.gates.fetch.normalize.readers.flow import Flow
from threegate.gates.fetch.normalize.readers.opc import OfficeEvents, read_dublin_core, tree, walk
from threegate.gates.fetch.normalize.text import Document, Unread
from threegate.gates.fetch.sources import dates
from threegate.gates.fetch.sources.fields import Record

MAX_SPACES: Final = 100  # that one element stands for
MAX_STYLE_DEPTH: Final = 10
_ASIDES: Final = {"note-body": "notes", "annotation": "comments"}
_LEFT_OUT: Final = ("note-citation", "creator", "date", "title", "desc")
_ACTIVE: Final = (
    "script",
    "object",
    "object-ole",
    "applet",
    "plugin",
    "dde-source",
    "event-listener",
)
_OUTSIDE: Final = ("http:", "https:", "file:", "ftp:", "//", "/", "..")
_LOADED: Final = ("image", "section-source", "object")  # what an office program would load
_TEXT: Final = ":xmlns:text:"
_OF_TEXT: Final = ("p", "h", "span", "a", "s", "tab", "line-break", "section", "note-body")
_SPACES: Final = {  # the namespace of each attribute that is looked at
    **dict.fromkeys(("style-name", "display", "is-hidden", "string-value", "c"), _TEXT),
    **dict.fromkeys(("name", "parent-style-name"), ":xmlns:style:"),
    "color": ":xmlns:xsl-fo-compatible:",
    "href": "/xlink",
}
_SIGNS: Final = {"tab": " ", "line-break": "\n"}


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the text of a document, or raise `Unread`."""
    archive, flow, record = Archive(raw), Flow(), Record(answer.source)
    names = frozenset(archive.names())
    if "META-INF/manifest.xml" in names:
        for entry in tree(archive.read("META-INF/manifest.xml")).children("file-entry"):
            if entry.first("encryption-data") is not None:
                raise Unread("encrypted", "the document has a password")
    styles = _Styles()
    if "styles.xml" in names:
        walk(archive.read("styles.xml"), styles)
    content = archive.read("content.xml")
    walk(content, styles)
    body = _Body(flow, styles)
    walk(content, body)
    if not body.is_document:
        raise Unread("other-kind", "not a text document")
    flow.active += sum(name.startswith(("Basic/", "Scripts/")) for name in names)
    if "meta.xml" in names:
        _read_properties(archive.read("meta.xml"), record)
    return Document(flow.parts(), record.finished(), found=flow.found())


def _read_properties(raw: Untrusted[bytes], record: Record) -> None:
    meta = tree(raw).first("meta")
    if meta is None:
        return
    read_dublin_core(meta, record)
    created = meta.first("creation-date") or meta.first("date")
    if created is not None:
        record.set_published(dates.from_text(created.text()))


class _OdtEvents(OfficeEvents):
    """Events of OpenDocument; a name of text in another namespace begins with a colon."""

    def counts(self, element: str, attribute: str) -> bool:
        namespace, _, local = attribute.rpartition(" ")
        wanted = _SPACES.get(local)
        return super().counts(element, attribute) if wanted is None else wanted in namespace

    def _start(self, name: str, attributes: list[str]) -> None:
        super()._start(_named(name), attributes)

    def _end(self, name: str) -> None:
        super()._end(_named(name))


def _named(name: str) -> str:
    namespace, _, local = name.rpartition(" ")
    return f"{namespace} :{local}" if local in _OF_TEXT and _TEXT not in namespace else name


class _Styles(_OdtEvents):
    """Reads which styles are not displayed, or white."""

    def __init__(self) -> None:
        super().__init__()
        self._displayed: dict[str, bool] = {}
        self._white: dict[str, bool] = {}
        self._parents: dict[str, str] = {}
        self._at: str | None = None

    def opened(self, name: str, _namespace: str, attributes: dict[str, str]) -> None:
        if name == "style":
            self._at = attributes.get("name", "")
            self._parents[self._at] = attributes.get("parent-style-name", "")
        elif name == "text-properties" and self._at is not None:
            if "display" in attributes:
                self._displayed[self._at] = attributes["display"] != "none"
            if "color" in attributes:
                self._white[self._at] = attributes["color"].lower() == "#ffffff"

    def closed(self, name: str) -> None:
        if name == "style":
            self._at = None

    def is_hidden(self, style: str) -> bool:
        """Tell whether text of a style is not displayed."""
        return not self._said(self._displayed, style, default=True)

    def is_white(self, style: str) -> bool:
        """Tell whether text of a style is white."""
        return self._said(self._white, style, default=False)

    def _said(self, where: dict[str, bool], style: str, *, default: bool) -> bool:
        for _ in range(MAX_STYLE_DEPTH):
            if style in where:
                return where[style]
            style = self._parents.get(style, "")
        return default


class _Body(_OdtEvents):
    """Reads the text of the content."""

    def __init__(self, flow: Flow, styles: _Styles) -> None:
        super().__init__()
        self.is_document = False
        self._flow, self._styles = flow, styles
        self._hidden: list[bool] = [False]  # for each element that is open
        self._shown = 0  # paragraphs and headings that are open
        self._left_out = 0
        self._names: list[str] = []

    def opened(self, name: str, _namespace: str, attributes: dict[str, str]) -> None:
        self._names.append(name)
        self._hidden.append(self._hidden[-1] or self._hides(name, attributes))
        if self._left_out or (name in _LEFT_OUT and self._shown):
            self._left_out += 1
            return
        flow = self._flow
        if name == "text" and self._names[-2:-1] == ["body"]:
            self.is_document = True
        elif name in ("p", "h"):
            flow.begin_line()
            self._shown += 1
        elif name in _SIGNS and self._shown:
            flow.write(_SIGNS[name])
        elif name == "s" and self._shown:
            count = attributes.get("c", "1")
            flow.write(
                " " * min(MAX_SPACES, int(count) if count.isdecimal() and len(count) < 5 else 1)
            )
        elif name == "table-row":
            flow.begin_row()
        elif name in ("table-cell", "covered-table-cell"):
            flow.begin_cell()
        elif name in _ASIDES:
            flow.begin_aside(_ASIDES[name])
        else:
            self._count_active(name, attributes)

    def _hides(self, name: str, attributes: dict[str, str]) -> bool:
        if name == "tracked-changes" or (
            name == "section" and attributes.get("display", "true") != "true"
        ):
            return True
        if name in ("hidden-text", "hidden-paragraph"):
            self._flow.hide(attributes.get("string-value", ""))
            return attributes.get("is-hidden", "true") == "true"
        style = attributes.get("style-name", "")
        if style and name in ("p", "h", "span", "a"):
            self._flow.undecided += self._styles.is_white(style)
            return self._styles.is_hidden(style)
        return False

    def _count_active(self, name: str, attributes: dict[str, str]) -> None:
        outside = name in _LOADED and attributes.get("href", "").lower().startswith(_OUTSIDE)
        self._flow.active += outside or name in _ACTIVE

    def closed(self, name: str) -> None:
        self._names.pop()
        self._hidden.pop()
        if self._left_out:
            self._left_out -= 1
            return
        flow = self._flow
        if name in ("p", "h"):
            self._shown -= 1
            flow.end_line(heading=name == "h")
        elif name == "table-row":
            flow.end_row()
        elif name in ("table-cell", "covered-table-cell"):
            flow.end_cell()
        elif name in _ASIDES:
            flow.end_aside()

    def said(self, text: str) -> None:
        if self.foreign:
            self._flow.hide(text)
        elif self._shown and not self._left_out:
            # White space is written as elements; line ends in the file mean nothing.
            self._flow.write(text.replace("\n", " "), hidden=self._hidden[-1])
