"""What a reader makes of a document: parts of text in order, and what it left out.

A reader is a function `read(raw: Untrusted[bytes], answer: Answer) -> Document`.  It raises
`Unread` and nothing else.  It need not bound, compose or escape its texts: that is done for
all of them in one place afterwards.  It is a pure function: no clock, no locale, no order of
a set.

SECURITY
    Everything a document says stays boxed here.  What stands unboxed is one of our own words
    or a number.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from threegate.artifacts.research_packet import HAZARDS
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import KeptAnswer
from threegate.gates.fetch.sources.metadata import Metadata

UNREAD_REASONS: Final = (
    "damaged",  # it begins like one of its kind and cannot be read as one
    "empty",  # read, and there is no text in it
    "encoding",
    "encrypted",
    "other-kind",  # no reader for this type in this box
    "scan",  # pages without text, which may be pictures of text
    "too-large",  # too many bytes, pages, nodes, levels
)


class Unread(Exception):
    """The document cannot be read; `reason` is one of `UNREAD_REASONS`, `detail` our own words."""

    def __init__(self, reason: str, detail: str) -> None:
        assert reason in UNREAD_REASONS, reason
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a document with a name: a page, a section, or all of it.

    `label` may be the document's own heading, so it is boxed.
    """

    label: Untrusted[str]
    text: Untrusted[str]
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """What a reader found.

    `about` is what the document says of itself (use `sources.fields.Record` to build it).  It
    counts where no registry was heard; `registered` marks one that came as a registry's own
    record, such as the front matter of JATS, and counts as an answer of that registry.
    `found` counts hazards by a packet's own names: `hidden-text`, `hidden-undecided`, `recognised`,
    `truncated`, and `active-content` (macros, embedded objects, references to outside that an
    office program would load).
    """

    parts: tuple[Part, ...]
    about: Metadata | None = None
    registered: bool = False
    found: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert all(name in HAZARDS and count > 0 for name, count in self.found.items())


Read = Callable[[Untrusted[bytes], KeptAnswer], Document]
