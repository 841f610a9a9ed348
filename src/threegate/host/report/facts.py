"""The content of a report as plain data, and the blocks that every format can draw.

Texts are marked by their author.  `foreign` ones come from sources, models and questions;
everything else is ours, made of fixed words, ids, digests and numbers.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

from threegate.host.provenance.graph import Graph
from threegate.host.provenance.headlines import Headline


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and its value."""

    name: str
    text: str
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class ReportImage:
    """An image that was decoded in a sandbox and re-encoded."""

    width: int
    height: int
    file_width: int  # of the file the run left
    file_height: int
    packed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class QuotePage:
    """The page of a quote as a picture, or why there is none."""

    words: str
    image: ReportImage | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """One quote of a claim, and whether it was found at its place when the report was made."""

    source: int  # number in the list of sources
    artifact: str
    excerpt: int
    offset: int
    length: int
    sha256: str
    text: str  # foreign
    standing: str
    page: int | None = None
    line: str | None = None  # path and line of a text file; foreign
    drawn: QuotePage | None = None


@dataclass(frozen=True, slots=True)
class ReportClaim:
    """One claim; `label` is the lesser of what is stored and what was found again.

    `beside`: one of the nearest sentences, which follow the claims of a model.
    `brought`: it rests on a packet that was brought, not retrieved.
    """

    number: int
    text: str  # foreign
    label: str
    stored: str  # the label in the analysis
    quotes: tuple[Quote, ...]
    beside: bool = False
    brought: bool = False

    @property
    def name(self) -> str:
        """Its name in the report."""
        return f"{'sentence' if self.beside else 'claim'} {self.number}"

    @property
    def sources(self) -> tuple[int, ...]:
        """The numbers of the sources it rests on, each once."""
        return tuple(dict.fromkeys(quote.source for quote in self.quotes))


@dataclass(frozen=True, slots=True)
class Card:
    """A source or an approval: what must be known first, then what is known."""

    headline: Headline
    loud: tuple[str, ...]
    facts: tuple[Fact, ...]  # a reader's first: authors, year, DOI
    digests: tuple[Fact, ...] = ()  # a checker's: id, addresses, digests

    @property
    def id(self) -> str:
        """The id of the source or approval."""
        return self.headline.id


@dataclass(frozen=True, slots=True)
class CheckStep:
    """A command that checks a part of the report, and what it shows."""

    command: str
    shows: str


@dataclass(frozen=True, slots=True)
class Table:
    """The first rows and columns of a table, each cell as text."""

    rows: tuple[tuple[str, ...], ...]  # foreign, all of one length
    more_rows: int
    more_columns: int


@dataclass(frozen=True, slots=True)
class LeftFile:
    """A file that a run left, and what is shown of it."""

    name: str  # foreign
    bytes: int
    sha256: str
    words: str  # how it is shown, or why not; empty: nobody would expect it
    shown: ReportImage | Table | None


@dataclass(frozen=True, slots=True)
class Computed:
    """A result behind the answer that left files."""

    headline: Headline
    files: tuple[LeftFile, ...]


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """The whole content of a report."""

    id: str
    question: str  # foreign
    confidentiality: str
    counts: tuple[tuple[str, int], ...]  # label and number of claims, without the nearest sentences
    loud: tuple[str, ...]
    answer: str | None  # foreign; None where it is its claims and nothing else
    claims: tuple[ReportClaim, ...]
    sources: tuple[Card, ...]  # cited, by number
    made: tuple[Fact, ...]
    left_out: tuple[Fact, ...]
    notes: tuple[str, ...]  # foreign
    trace: Graph
    approvals: tuple[Card, ...]
    checks: tuple[CheckStep, ...]
    computed: tuple[Computed, ...] = ()


# The pieces that every format can draw, and their order.
#
# A piece knows whose words it holds. Formats differ in how they set foreign text apart; none may
# mix it with ours.

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
    """A heading of ours, level 2 or 3; a foreign part is last in it."""

    level: int
    text: str
    anchor: str = ""
    foreign: str = ""


@dataclass(frozen=True, slots=True)
class ReportLine:
    """A paragraph of ours; a foreign part is last in it."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class ReportList:
    """Lines that belong together."""

    lines: tuple[ReportLine, ...]


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
class DrawnPicture:
    """A foreign image, re-encoded; `what` says in our words what it is."""

    image: ReportImage
    what: str = "an image a run left"


Block = (
    Title | Heading | ReportLine | ReportList | Foreign | Command | Picture | Cells | DrawnPicture
)

NOTHING: Final = ReportLine((Span("none"),))


def line(*parts: str | Span) -> ReportLine:
    """Return a paragraph of plain words and spans."""
    return ReportLine(tuple(Span(part) if isinstance(part, str) else part for part in parts))


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
