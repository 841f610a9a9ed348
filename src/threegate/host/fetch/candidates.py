"""What a search found, as a list to choose from: each with a reference to give to `fetch`.

SECURITY
    Opens text of hostile sources for display.  What can be pasted into a command is not that
    text: it is the spelling of a reference that the grammar read in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.references import SCHEMES, SEARCH_PREFIX, Reference, parse_reference
from threegate.artifacts.research_packet import ResearchPacket
from threegate.host.provenance.headlines import unmarked

_LABEL: Final = "candidate "


@dataclass(frozen=True, slots=True)
class Candidate:
    """One work that a search found."""

    number: int
    reference: Reference | None  # None where the source gives no name that can be asked for
    title: str  # foreign
    published: str  # foreign
    retraction: str  # foreign

    @property
    def headline(self) -> str:
        """The title as it is shown beside the retraction, which it does not repeat."""
        return unmarked(self.title) if self.retraction == "retracted" else self.title


def is_search(packet: ResearchPacket) -> bool:
    """Tell whether a packet answers a search, whatever that found."""
    return packet.reference.open_for_validation().startswith(SEARCH_PREFIX)


def candidates(packet: ResearchPacket) -> Iterator[Candidate]:
    """Yield what stands in the packet of a search, in its order."""
    found = zip(packet.excerpts, packet.texts, strict=True)
    for number, (excerpt, text) in enumerate(found, 1):
        if excerpt.label.open_for_validation().startswith(_LABEL):
            lines = text.open_for_display().split("\n")
            fields = dict(line.split(": ", 1) for line in reversed(lines) if ": " in line)
            named = [fields.get(name, "") for name in ("title", "published", "retraction")]
            yield Candidate(number, _best(lines), *named)


def _best(lines: list[str]) -> Reference | None:
    """Return the name that says most, of those the source gives on lines of their own."""
    found: list[Reference] = []
    for line in lines:
        try:
            # Excerpts have no `<` before a letter, and DOIs of a certain age have one.
            found.append(parse_reference(line.replace("%3C", "<")))
        except ValueError:
            continue
    found = [one for one in found if one.scheme != "url"]
    return min(found, key=lambda one: SCHEMES.index(one.scheme), default=None)


def listed(packet: ResearchPacket) -> Iterator[str]:
    """Yield one line for each; the foreign part stands last."""
    for one in candidates(packet):
        name = "no reference" if one.reference is None else one.reference.text
        stands = f"{one.retraction.upper()}: " if one.retraction else ""
        year = f" ({one.published[:4]})" if one.published else ""
        yield f"{one.number}. {name}  {stands}{one.headline}{year}"
