"""What a source says about one work, and what it says when there is nothing to say.

Everything a source wrote itself stays boxed; what stands here unboxed is one of our own
words or was matched against a grammar.
"""

from dataclasses import dataclass
from typing import Final

from threegate.artifacts.research_packet import Identifier
from threegate.base.untrusted import Untrusted

# From the least to the most serious; `unknown` is no statement at all.
RETRACTION_ORDER: Final = ("unknown", "none", "corrected", "concern", "retracted")

UNREADABLE_REASONS: Final = (
    "denied",  # 401, 403, 407, 451
    "doctype",  # an XML document that declares parts of its own
    "duplicate-key",
    "encoding",
    "entity",
    "not-a-number",
    "not-json",
    "not-xml",
    "other-kind",  # well-formed, and not an answer to what was asked
    "rate-limited",
    "refused",  # the source calls the request wrong
    "several",  # more than one work
    "status",  # a redirect, a server error, anything else
    "too-deep",
    "too-large",
    "type",  # the media type is not one this source answers with
)


@dataclass(frozen=True, slots=True)
class NotFound:
    """The source answered, and does not know the work."""

    source: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The answer says nothing about a work; `reason` is one of `UNREADABLE_REASONS`."""

    source: str
    reason: str
    detail: str  # our own words

    def __post_init__(self) -> None:
        assert self.reason in UNREADABLE_REASONS, self.reason


@dataclass(frozen=True, slots=True, order=True)
class PartialDate:
    """A date as precise as the source gave it."""

    year: int
    month: int = 0  # 0: not given
    day: int = 0

    @property
    def text(self) -> str:
        """Return the date as a packet spells it."""
        if not self.month:
            return f"{self.year:04}"
        if not self.day:
            return f"{self.year:04}-{self.month:02}"
        return f"{self.year:04}-{self.month:02}-{self.day:02}"


@dataclass(frozen=True, slots=True)
class Author:
    """Somebody, or some body, as the source spells it."""

    name: Untrusted[str]
    organisation: bool = False


@dataclass(frozen=True, slots=True)
class Abstract:
    """A text about the work; the label is the source's, or `abstract`."""

    label: Untrusted[str]
    text: Untrusted[str]


@dataclass(frozen=True, slots=True)
class Link:
    """An address the source offers.  It is data: nobody follows it without the allowlist."""

    url: Untrusted[str]
    kind: str  # landing, pdf, xml, full-text; open-pdf, open-page for open copies


@dataclass(frozen=True, slots=True)
class Notice:
    """One statement that a work was retracted, corrected or doubted."""

    status: str  # one of RETRACTION_ORDER
    source: str  # who was asked
    basis: str  # where it stands in the answer, such as `updated-by` or `title`
    label: Untrusted[str] | None = None  # as the source words it
    said_by: Untrusted[str] | None = None  # whom the source names, such as `retraction-watch`
    identifier: Identifier | None = None  # of the notice, or of the work a notice is about
    date: PartialDate | None = None


@dataclass(frozen=True, slots=True)
class Retraction:
    """The worst of the notices; `none` only from a source that would know."""

    status: str
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A field that was not what it should be, and how often; `what` is our own word."""

    field: str
    what: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Remark:
    """What a reader of the work wrote about it, or marked in it."""

    label: Untrusted[str]
    text: Untrusted[str]
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Metadata:
    """What one source says about one work."""

    source: str
    title: Untrusted[str] | None
    authors: tuple[Author, ...]
    published: PartialDate | None
    licence: Untrusted[str] | None
    identifiers: tuple[Identifier, ...]  # sorted, no two alike
    abstracts: tuple[Abstract, ...]
    container: Untrusted[str] | None
    retraction: Retraction
    notice_of: tuple[Notice, ...]  # this work is itself a notice about these
    links: tuple[Link, ...]
    problems: tuple[Problem, ...]  # sorted
    remarks: tuple[Remark, ...] = ()


Outcome = Metadata | NotFound | Unreadable
