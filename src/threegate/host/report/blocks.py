"""The pieces every format can draw, and the order they stand in.

A piece knows whose its words are.  Formats differ in how they set foreign text apart; none
may mix it with ours.
"""

from dataclasses import dataclass
from typing import Final, Literal

from threegate.host.provenance.graph import Graph
from threegate.host.report.facts import Image

Style = Literal["plain", "foreign", "loud", "mono", "cite"]


@dataclass(frozen=True, slots=True)
class Span:
    """Words on one line; of a `cite` only the number of the source."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Title:
    """The headline of a report, which is foreign; `text` is ours, for windows and footers."""

    text: str
    foreign: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of ours, level 2 or 3; a foreign part stands last in it."""

    level: int
    text: str
    anchor: str = ""
    foreign: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A paragraph of ours; a foreign part stands last in it."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """Lines that belong together."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Foreign:
    """Foreign text of any length, set apart; `fixed`: its columns line up, as on a terminal."""

    text: str
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """Lines to be typed."""

    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph whose labels are spelled out already."""

    graph: Graph


@dataclass(frozen=True, slots=True)
class Cells:
    """A foreign table, row by row."""

    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A foreign image, packed anew."""

    image: Image


Block = Title | Heading | Line | Listed | Foreign | Command | Picture | Cells | Drawn

NOTHING: Final = Line((Span("none"),))


def line(*parts: str | Span) -> Line:
    """Return a paragraph of plain words and spans."""
    return Line(tuple(Span(part) if isinstance(part, str) else part for part in parts))


def loud(text: str) -> Span:
    """Return words of ours that nobody may overlook."""
    return Span(text, "loud")


def mono(text: str) -> Span:
    """Return an id, a digest or a command."""
    return Span(text, "mono")


def foreign(text: str) -> Span:
    """Return words that are not ours."""
    return Span(text, "foreign")


def cite(number: int) -> Span:
    """Return the mark that leads to a source."""
    return Span(str(number), "cite")
