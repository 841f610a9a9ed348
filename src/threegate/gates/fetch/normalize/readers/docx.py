"""DOCX: text by its headings, then footnotes, endnotes and comments under labels of their own.

Left out and counted as `hidden-text`: text marked as hidden, deletions and moved text of tracked
changes, text of one point or less, text in the colour of its ground, and text in elements of other
vocabularies, which Word leaves out.  White text in a table or on a page with a colour stays and is
counted as `hidden-undecided`; so are effects of letters, and text with a fallback that says
something else.  Headers and footers are not read.

SECURITY
    Reads hostile bytes through `opc`, without keeping a tree.  Macros, fields, embedded objects and
    references to outside are counted as `active-content`; nothing is run, loaded or followed.
"""

from dataclasses import dataclass, replace
from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers.flow import Flow
from threegate.gates.fetch.normalize.readers.opc import OfficeEvents, Package
from threegate.gates.fetch.normalize.text import Document, Unread
from threegate.gates.fetch.sources.fields import Record

MAX_CODE_CHARS: Final = 100  # of a field's instruction, whose first word counts
MAX_STYLE_DEPTH: Final = 10  # of styles that are based on others
LEAST_HALF_POINTS: Final = 2  # text of this size or less is not seen
_OFF: Final = ("0", "false", "off", "none")
_WHITE: Final = "FFFFFF"
_WHITE_THEMES: Final = ("background1", "light1")  # as good as always
MAX_NEAR: Final = 0x20  # a colour whose parts differ from the ground by less is not seen
LEAST_SCALE: Final = 10  # per cent of the width of letters
_DEFAULTS: Final = "\n"  # of the document; no attribute holds a line break
_GONE: Final = ("del", "moveFrom")  # tracked changes; their text is no longer part of the document
# `Fallback` says the same again for older programs, the others how something looked before.
_FALLBACK: Final = ":Fallback"
_SKIPPED: Final = (_FALLBACK, "rPrChange", "pPrChange", "tblPrChange", "tcPrChange", "trPrChange")
_ACTIVE_FIELDS: Final = frozenset(
    {"DATABASE", "DDE", "DDEAUTO", "IMPORT", "INCLUDEPICTURE", "INCLUDETEXT", "LINK", "MACROBUTTON"}
)
# Word reads names and attributes in these two alone; others say nothing about a run.
_WORD: Final = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_MATHS: Final = (
    "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "http://purl.oclc.org/ooxml/officeDocument/math",
)
_AROUND: Final = ("tr", "tc", "tbl", ":Choice", ":AlternateContent")
_ACTIVE: Final = ("object", "altChunk", "control")
_EFFECTS: Final = (":textFill", ":textOutline")  # letters without ink, or with little
_SIGNS: Final = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_ASIDES: Final = (("footnotes", "footnotes"), ("endnotes", "endnotes"), ("comments", "comments"))


@dataclass(frozen=True, slots=True)
class _Style:
    """What a style, a paragraph or a run says; None leaves it to what it is based on."""

    heading: bool | None = None
    hidden: bool | None = None
    small: bool | None = None
    colour: str | None = None
    ground: str | None = None


_PLAIN: Final = _Style()


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the text of a document, or raise `Unread`."""
    package, flow, record = Package(raw), Flow(), Record(answer.source)
    main = package.main()
    styles = _Styles()
    for part in package.related(main, "styles"):
        package.walk(part, styles)
    known = styles.resolved()
    body = _Body(flow, known)
    package.walk(main, body)
    if not body.is_document:
        raise Unread("other-kind", "not a text document")
    for kind, label in _ASIDES:
        for part in package.related(main, kind):
            flow.begin_aside(label)
            package.walk(part, _Body(flow, known))
            flow.end_aside()
    package.count_active(main, flow)
    for settings in package.related(main, "settings"):
        package.count_active(settings, flow)
    package.read_properties(record)
    return Document(flow.parts(), record.finished(), found=flow.found())


def _changed(style: _Style, name: str, attributes: dict[str, str]) -> _Style:
    """Return a style after one of its properties was read."""
    value = attributes.get("val", "")
    if name == "vanish":
        return replace(style, hidden=value not in _OFF)
    if name == "color":
        themed = attributes.get("themeColor", "") in _WHITE_THEMES
        return replace(style, colour=_WHITE if themed else value.upper())
    if name in ("shd", "highlight"):
        fill = (attributes.get("fill", "") if name == "shd" else value).upper()
        return replace(style, ground="" if fill in ("AUTO", "NONE") else fill)
    if name in ("sz", "w") and value.isascii() and value.isdigit() and len(value) < 5:
        least = LEAST_HALF_POINTS if name == "sz" else LEAST_SCALE
        return replace(style, small=style.small or int(value) <= least)
    if name == "outlineLvl":
        return replace(style, heading=value in tuple("012345678"))
    return style


def _is_near(one: str, other: str) -> bool:
    """Tell whether two colours can hardly be told apart; a name is a colour of its own."""
    try:
        parts = [bytes.fromhex(_WHITE if text == "WHITE" else text) for text in (one, other)]
    except ValueError:
        return one == other
    return all(abs(a - b) < MAX_NEAR for a, b in zip(*parts, strict=False))


class _WordEvents(OfficeEvents):
    """Events of Word's own vocabulary; a name in another one begins with a colon."""

    def counts(self, element: str, attribute: str) -> bool:
        in_word = element.startswith(_WORD)
        return attribute.startswith(_WORD) if in_word else super().counts(element, attribute)

    def _start(self, name: str, attributes: list[str]) -> None:
        super()._start(_named(name), attributes)

    def _end(self, name: str) -> None:
        super()._end(_named(name))


def _named(name: str) -> str:
    """Return the name of an element, with a colon if Word's text has no such element."""
    namespace, _, local = name.rpartition(" ")
    is_own = namespace.startswith(_WORD) or (namespace in _MATHS and local in ("r", "t"))
    return name if is_own else f"{namespace} :{local}"


class _Styles(_WordEvents):
    """Reads which styles are headings, hidden or white."""

    def __init__(self) -> None:
        super().__init__()
        self._styles: dict[str, _Style] = {}
        self._based_on: dict[str, str] = {}
        self._at: str | None = None
        self._default = ""  # the style of paragraphs that name none

    def opened(self, name: str, _namespace: str, attributes: dict[str, str]) -> None:
        if name == "style":
            self._at = attributes.get("styleId", "")
            self._styles[self._at] = _PLAIN
            if attributes.get("type") == "paragraph" and attributes.get("default") in ("1", "true"):
                self._default = self._at
        elif name == "rPrDefault":
            self._at = _DEFAULTS
            self._styles[self._at] = _PLAIN
        elif self._at is not None:
            value = attributes.get("val", "")
            if name == "basedOn":
                self._based_on[self._at] = value
            elif name == "name":
                heading = value.lower().startswith(("heading ", "title"))
                self._styles[self._at] = replace(self._styles[self._at], heading=heading or None)
            else:
                self._styles[self._at] = _changed(self._styles[self._at], name, attributes)

    def closed(self, name: str) -> None:
        if name in ("style", "rPrDefault"):
            self._at = None

    def resolved(self) -> dict[str, _Style]:
        """Return the styles with what they take from their bases; `""` is the default."""
        found = {name: self._resolved(name) for name in self._styles}
        default = found.get(self._default, _PLAIN)
        return {_DEFAULTS: _PLAIN, **found, "": default}

    def _resolved(self, name: str) -> _Style:
        found, at = self._styles[name], self._based_on.get(name, "")
        for _ in range(MAX_STYLE_DEPTH):
            base = self._styles.get(at)
            if base is None:
                break
            found = _joined(found, base)
            at = self._based_on.get(at, "")
        return found


def _joined(one: _Style, other: _Style) -> _Style:
    """Return a style; what `one` does not say, `other` says."""
    return _Style(
        other.heading if one.heading is None else one.heading,
        other.hidden if one.hidden is None else one.hidden,
        other.small if one.small is None else one.small,
        other.colour if one.colour is None else one.colour,
        other.ground if one.ground is None else one.ground,
    )


class _Body(_WordEvents):
    """Reads the text of a part."""

    def __init__(self, flow: Flow, styles: dict[str, _Style]) -> None:
        super().__init__()
        self.is_document = False
        self._flow, self._styles = flow, styles
        self._paragraphs: list[_Style] = []
        self._runs: list[_Style] = []  # a text box in a run has runs of its own
        self._into = ""  # `t`, `delText` or `instrText`, while text is to come
        self._code = ""
        self._in_mark = False  # `pPr` holds properties of the paragraph's mark
        self._gone = self._skipped = 0  # how many such elements are open
        self._ground = False
        self._tables: list[_Style] = []
        self._choice: list[str] = []  # texts of which a program shows one
        self._fallback: list[str] = []
        self._choices = 0  # that are open

    def opened(self, name: str, _namespace: str, attributes: dict[str, str]) -> None:
        if self._skipped or name in _SKIPPED:
            self._skipped += 1
        elif name == "p":
            self._flow.begin_line()
            self._paragraphs.append(self._styles.get("", _PLAIN))
        elif name == "r":
            self._runs.append(_PLAIN)
        elif name in ("t", "delText", "instrText"):
            self._into = name
        elif name == "pPr":
            self._in_mark = True
        elif name in _SIGNS and self._runs:
            self._flow.write(_SIGNS[name])
        elif name in _GONE:
            self._gone += 1
        elif name in _AROUND:
            self._begin(name)
        else:
            self._property(name, attributes)

    def _begin(self, name: str) -> None:
        if name == "tr":
            self._flow.begin_row()
        elif name == "tc":
            self._flow.begin_cell()
        elif name == "tbl":
            self._tables.append(_PLAIN)
        elif name == ":Choice":
            self._choices += 1

    def _end_around(self, name: str) -> None:
        if name == "tr":
            self._flow.end_row()
        elif name == "tc":
            self._flow.end_cell()
        elif name == "tbl":
            self._tables.pop()
        elif name == ":Choice":
            self._choices -= 1
        elif not self._choices:
            self._flow.undecided += _differ(self._choice, self._fallback)
            self._choice, self._fallback = [], []

    def _property(self, name: str, attributes: dict[str, str]) -> None:
        flow = self._flow
        if name == "pStyle" and self._paragraphs:
            self._paragraphs[-1] = self._styles.get(attributes.get("val", ""), _PLAIN)
        elif name == "rStyle" and self._runs:
            style = self._styles.get(attributes.get("val", ""), _PLAIN)
            self._runs[-1] = _joined(self._runs[-1], style)
        elif name in ("footnoteReference", "endnoteReference", "commentReference"):
            flow.write(f"[{name[0]}{attributes.get('id', '')}]")
        elif name == "tblStyle" and self._tables:
            self._tables[-1] = self._styles.get(attributes.get("val", ""), _PLAIN)
        elif name in ("fldSimple", "fldChar"):
            self._code += attributes.get("instr", "")
            self._field()
        elif name in _ACTIVE or name in _EFFECTS:
            flow.active += name in _ACTIVE
            flow.undecided += name in _EFFECTS
        elif name in ("background", "document"):
            self._ground = self._ground or name == "background"
            self.is_document = self.is_document or name == "document"
        elif self._in_mark and self._paragraphs and name in ("shd", "outlineLvl"):
            self._paragraphs[-1] = _changed(self._paragraphs[-1], name, attributes)
        elif self._runs and not self._in_mark:
            self._runs[-1] = _changed(self._runs[-1], name, attributes)

    def closed(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif name == "p":
            self._flow.end_line(heading=bool(self._paragraphs.pop().heading))
        elif name == "r":
            self._runs.pop()
        elif name == "pPr":
            self._in_mark = False
        elif name in _AROUND:
            self._end_around(name)
        elif name in _GONE:
            self._gone -= 1
        self._into = ""

    def said(self, text: str) -> None:
        if self._skipped:
            self._fallback.append(text)
            return
        if self._choices:
            self._choice.append(text)
        if self.foreign:
            self._flow.hide(text)
            return
        if not self._into:
            return
        if self._into == "instrText":
            self._code = (self._code + text)[:MAX_CODE_CHARS]
        elif self._gone or self._into == "delText":
            self._flow.hide(text)
        else:
            self._flow.write(text, hidden=self._is_hidden())

    def _is_hidden(self) -> bool:
        look = self._runs[-1] if self._runs else _PLAIN
        for around in (*self._paragraphs[-1:], *self._tables[-1:], self._styles[_DEFAULTS]):
            look = _joined(look, around)
        if look.hidden or look.small:
            return True
        if not look.colour or not _is_near(look.colour, look.ground or _WHITE):
            return False
        if not look.ground and (self._ground or self._flow.in_table):
            self._flow.undecided += 1
            return False
        return True

    def _field(self) -> None:
        """Judge the instruction of a field, which may come in pieces."""
        words = self._code.split(maxsplit=1)
        self._flow.active += bool(words) and words[0].upper() in _ACTIVE_FIELDS
        self._code = ""


def _differ(choice: list[str], fallback: list[str]) -> bool:
    """Tell whether a fallback says something else than what it stands for."""
    first, other = ("".join("".join(texts).split()) for texts in (choice, fallback))
    return bool(other) and first != other
