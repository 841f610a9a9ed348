"""PPTX: the text of each slide in order, and its speaker notes under a label of their own.

Left out and counted as `hidden-text`: hidden slides, hidden shapes, and text of one point or less.
White text stays and is counted as `hidden-undecided`: what it lies on is not known.  Pictures,
charts, masters and layouts are not read.

SECURITY
    Reads hostile bytes through `opc`, without keeping a tree.  Macros, embedded objects and
    references to outside are counted as `active-content`; nothing is run, loaded or followed.
"""

from typing import Final

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.normalize.readers.flow import Flow
from threegate.gates.fetch.normalize.readers.opc import OfficeEvents, Package
from threegate.gates.fetch.normalize.text import Document, Unread
from threegate.gates.fetch.sources.fields import Record

MAX_SLIDES: Final = 5_000
LEAST_SIZE: Final = 100  # hundredths of a point
_FRAME: Final = ("sldNum", "ftr", "dt", "hdr")  # placeholders for what is on every slide
_SHAPES: Final = ("sp", "pic", "graphicFrame", "grpSp", "cxnSp")
_ON: Final = ("1", "true")


def read(raw: Untrusted[bytes], answer: KeptAnswer) -> Document:
    """Return the text of a presentation, or raise `Unread`."""
    package, flow, record = Package(raw), Flow(), Record(answer.source)
    main = package.main()
    root = package.tree(main)
    if root.name != "presentation":
        raise Unread("other-kind", "not a presentation")
    slides = {item.id: item.target for item in package.relations(main) if item.kind == "slide"}
    listed = [item.attributes.get("id", "") for item in root.every("sldIdLst", "sldId")]
    if len(listed) > MAX_SLIDES:
        raise Unread("too-large", f"{len(listed)} slides, limit {MAX_SLIDES}")
    for number, name in enumerate(listed, 1):
        if name in slides:
            _read_slide(package, flow, slides[name], number)
    package.count_active(main, flow)
    package.read_properties(record)
    return Document(flow.parts(), record.finished(), found=flow.found())


def _read_slide(package: Package, flow: Flow, part: str, number: int) -> None:
    flow.begin_part(f"slide {number}")
    slide = _Slide(flow)
    package.walk(part, slide)
    package.count_active(part, flow)
    for notes in package.related(part, "notesSlide"):
        flow.begin_part(f"slide {number} (speaker notes)")
        package.walk(notes, _Slide(flow, hidden=slide.hidden))


class _Slide(OfficeEvents):
    """Reads the text of one slide or of its notes."""

    def __init__(self, flow: Flow, *, hidden: bool = False) -> None:
        super().__init__()
        self.hidden = hidden
        self._flow = flow
        self._shapes: list[bool] = []  # for each shape that is open: whether it is hidden
        self._frame = False  # in a placeholder for what is on every slide
        self._skipped = 0
        self._in_text = self._tiny = False
        self._in_look = 0

    def counts(self, _element: str, attribute: str) -> bool:
        return " " not in attribute  # all that are looked at have no namespace

    def opened(self, name: str, _namespace: str, attributes: dict[str, str]) -> None:
        if self._skipped or name == "Fallback":
            self._skipped += 1
        elif name == "sld":
            self.hidden = self.hidden or attributes.get("show") in ("0", "false")
        elif name in _SHAPES:
            self._shapes.append(bool(self._shapes) and self._shapes[-1])
            self._frame = False
        elif name == "cNvPr" and self._shapes:
            self._shapes[-1] = self._shapes[-1] or attributes.get("hidden") in _ON
        elif name == "ph":
            self._frame = attributes.get("type") in _FRAME
        elif name == "oleObj":
            self._flow.active += 1
        else:
            self._text_opened(name, attributes)

    def _text_opened(self, name: str, attributes: dict[str, str]) -> None:
        flow = self._flow
        if name == "p":
            flow.begin_line()
        elif name == "t":
            self._in_text = True
        elif name == "br":
            flow.write("\n", hidden=self._is_hidden())
        elif name == "tr":
            flow.begin_row()
        elif name == "tc":
            flow.begin_cell()
        elif name == "rPr":
            size = attributes.get("sz", "")
            self._tiny = size.isascii() and size.isdigit() and int(size[:6]) <= LEAST_SIZE
            self._in_look += 1
        elif name == "srgbClr" and self._in_look:
            flow.undecided += attributes.get("val", "").upper() == "FFFFFF"

    def closed(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif name == "p":
            self._flow.end_line()
        elif name == "t":
            self._in_text = False
        elif name == "r":
            self._tiny = False
        elif name == "rPr":
            self._in_look -= 1
        elif name == "tr":
            self._flow.end_row()
        elif name == "tc":
            self._flow.end_cell()
        elif name in _SHAPES:
            self._shapes.pop()
            self._frame = False

    def said(self, text: str) -> None:
        if self.foreign:
            self._flow.hide(text)
        elif self._in_text and not self._skipped and not self._frame:
            self._flow.write(text, hidden=self._is_hidden())

    def _is_hidden(self) -> bool:
        return self.hidden or self._tiny or (bool(self._shapes) and self._shapes[-1])
