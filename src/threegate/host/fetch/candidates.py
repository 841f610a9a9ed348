"""Candidates of a list (a search, references, cited-by): read from its packet, shown and chosen.

SECURITY
    Opens text of hostile sources for display; `Output` spells out every character.  The reference
    of a candidate, which is fetched if it is chosen, is never that text: it is the spelling of a
    reference that the grammar parsed.  A choice is a number, and the reference is read from the
    packet, so a title cannot name another one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts.ids import short
from threegate.artifacts.limits import MAX_EXCERPTS
from threegate.artifacts.references import SCHEMES, Reference, parse_reference
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.errors import UsageError
from threegate.base.text import quote
from threegate.host.provenance.headlines import unmarked
from threegate.host.workspace.index import Index
from threegate.host.workspace.packets import normalized_name

_LABEL: Final = "candidate "
_FIELDS: Final = ("title", "authors", "published", "retraction")
_RANGE: Final = re.compile(r"([1-9][0-9]{0,3})(?:-([1-9][0-9]{0,3}))?")


@dataclass(frozen=True, slots=True)
class SearchCandidate:
    """One entry of a list."""

    number: int
    names: tuple[Reference, ...]  # the best first; empty if the source gives no usable identifier
    title: str  # foreign
    authors: str  # foreign
    published: str  # foreign
    retraction: str  # foreign

    @property
    def reference(self) -> Reference | None:
        """The identifier to fetch it by."""
        return self.names[0] if self.names else None

    @property
    def headline(self) -> str:
        """The title without a retraction notice, which is shown separately."""
        return unmarked(self.title) if self.retraction == "retracted" else self.title

    @property
    def byline(self) -> str:
        """The first authors and the year; empty if neither is given."""
        names = self.authors.split("; ")
        authors = f"{names[0]} et al." if len(names) > 2 else "; ".join(names)
        return ", ".join(part for part in (authors, self.published[:4]) if part)


@dataclass(frozen=True, slots=True)
class PacketHere:
    """A packet of the same work in this workspace."""

    packet_id: str
    retracted: bool  # according to this or another packet of the work


Here = Callable[[SearchCandidate], PacketHere | None]


def nothing_here(_candidate: SearchCandidate) -> None:
    """Look nowhere: what is here is not asked."""


def packets_here(index: Index) -> Here:
    """Return a lookup of packets of the same work in the workspace."""

    def found(candidate: SearchCandidate) -> PacketHere | None:
        names = [normalized_name(name.scheme, name.value) for name in candidate.names]
        packets = index.same_work(names)
        return PacketHere(min(packets), any(packets.values())) if packets else None

    return found


def candidates(packet: ResearchPacket) -> Iterator[SearchCandidate]:
    """Yield the entries of a list, in order."""
    found = zip(packet.excerpts, packet.texts, strict=True)
    for number, (excerpt, text) in enumerate(found, 1):
        if excerpt.label.open_for_validation().startswith(_LABEL):
            lines = text.open_for_display().split("\n")
            fields = dict(line.split(": ", 1) for line in reversed(lines) if ": " in line)
            yield SearchCandidate(
                number, _names(lines), *(fields.get(name, "") for name in _FIELDS)
            )


def _names(lines: Iterable[str]) -> tuple[Reference, ...]:
    """Return the identifiers among the lines of an entry, the best first."""
    found: list[Reference] = []
    for line in lines:
        try:
            # Excerpts escape `<` before a letter, and some old DOIs contain it.
            found.append(parse_reference(line.replace("%3C", "<")))
        except ValueError:
            continue
    usable = (one for one in found if one.scheme != "url")
    return tuple(sorted(usable, key=lambda one: SCHEMES.index(one.scheme)))


def listed(packet: ResearchPacket, here: Here = nothing_here) -> Iterator[str]:
    """Yield one line per entry; the foreign part comes last."""
    for one in candidates(packet):
        name = "no reference" if one.reference is None else one.reference.text
        status = f"{one.retraction.upper()}: " if one.retraction else ""
        byline = f" ({one.byline})" if one.byline else ""
        yield f"{one.number}. {name}{_held(here(one))}  {status}{one.headline}{byline}"


def _held(known: PacketHere | None) -> str:
    if known is None:
        return ""
    retracted = ", which says RETRACTED" if known.retracted else ""
    return f" (already here {short(known.packet_id)}{retracted})"


def candidate_document(one: SearchCandidate, here: Here) -> dict[str, str | int | None]:
    """Return the same for scripts."""
    reference = None if one.reference is None else one.reference.text
    said = {name: getattr(one, name) or None for name in _FIELDS}
    known = here(one)
    packet = None if known is None else known.packet_id
    return {"number": one.number, "reference": reference, "here": packet, **said}


def read_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers that `1,3-5` names, or raise `UsageError`."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (0, -1) if match is None else (int(match[1]), int(match[2] or match[1]))
        if not first <= last <= MAX_EXCERPTS:
            hint = "--get takes numbers of the list with commas between, such as 1,3-5"
            raise UsageError(f"{quote(text)} is not a choice from a list", hint=hint)
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)


def chosen(entries: Iterable[SearchCandidate], numbers: Sequence[int]) -> tuple[Reference, ...]:
    """Return the references of the chosen entries, each once, or raise `UsageError`."""
    named: dict[int, Any] = {one.number: one.reference for one in entries}
    found: dict[Reference, None] = {}
    for number in numbers:
        if number not in named:
            raise UsageError(
                f"the list has no number {number}; its last is {max(named, default=0)}"
            )
        if named[number] is None:
            raise UsageError(f"number {number} has no identifier that can be fetched")
        found[named[number]] = None
    return tuple(found)
