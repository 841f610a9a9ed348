"""The headline of an artifact: the words a reader knows it by, for lists, answers and reports.

A packet is `Title (First Author et al., 2021)`, a request its purpose, a result the purpose of
its request, an analysis its question.  The id follows a headline; it does not replace it.

SECURITY
    Opens titles, names, purposes and questions that strangers wrote.  `title`, `by` and `text`
    are foreign and on one line; every view spells them out and sets them apart (last in the
    line, behind a gutter, or in an element of their own).  `marks` and `note` are our words.
    Everything comes from the artifact's checked file, never from the index.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.approval import Approval
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_result import ToolResult
from threegate.host.workspace.packets import RAW_FORGOTTEN, Origins, PacketOrigin

# Cautions about a packet, shown before its own words: is it retracted, and where is it from.
#
# Only our own words and digests; no text of a source.

RETRACTED: Final = "RETRACTED"
TEST_SOURCE: Final = "TEST SOURCE"
BROUGHT: Final = "BROUGHT"
BYTES_FORGOTTEN: Final = "RAW BYTES FORGOTTEN"
_STANDING: Final = {
    "retracted": RETRACTED,
    "concern": "EXPRESSION OF CONCERN",
    "corrected": "CORRECTED",
}


def cautions(packet: ResearchPacket, origin: PacketOrigin) -> tuple[str, ...]:
    """Return what a reader must know first, the worst first; most packets have none."""
    return (*_standing(packet, origin), *_origin(origin), *_anchors(packet))


def words(warned: tuple[str, ...]) -> tuple[str, ...]:
    """Return cautions in a word or two each, none of them twice."""
    return tuple(dict.fromkeys(text.partition(":")[0] for text in warned))


def _origin(origin: PacketOrigin) -> tuple[str, ...]:
    if origin.name == RAW_FORGOTTEN:
        return (f"{BYTES_FORGOTTEN}: {origin.words}",)
    if not origin.is_brought:
        return ()
    agrees = "; it agrees with the record and raw bytes that came with it"
    more = agrees if origin.consistent else ""
    return (f"{BROUGHT}: somebody admitted this file; it was not retrieved here{more}",)


def _standing(packet: ResearchPacket, origin: PacketOrigin) -> tuple[str, ...]:
    word = _STANDING.get(packet.retraction)
    if word is None:
        return ()
    if origin.is_brought:  # no source was asked here
        return (f"{word}: according to the packet itself",)
    sources = sorted({notice.source for notice in packet.notices})
    return (f"{word}: according to {', '.join(sources) or 'its source'}",)


def _anchors(packet: ResearchPacket) -> tuple[str, ...]:
    """Whoever holds another authority's key can be any host: it is no source of the web."""
    used = {packet.trust_anchor, *(also.trust_anchor for also in packet.also)} - {"system"}
    return tuple(
        f"{TEST_SOURCE}: its certificate was checked against {anchor[:12]}, not against the "
        "authorities of this system"
        for anchor in sorted(used)
    )


TITLE_CHARS: Final = 160
NAME_CHARS: Final = 60
ABSENT: Final = "is not here any more"
# Publishers put the word into the title; next to our own mark it would say the same twice.
_SAID_ALREADY: Final = re.compile(
    r"\A(?:[\[(]?\s*retracted(?: article| paper)?\s*(?:[\])]\s*:?|:)\s*)+", re.IGNORECASE
)

Read = Callable[[str], Artifact | None]
Warned = Callable[[str, ResearchPacket], tuple[str, ...]]  # cautions about a packet, worst first


@dataclass(frozen=True, slots=True)
class Lookup:
    """How a view learns of artifacts: their content, and the origin and cautions of packets."""

    read: Read
    origins: Origins
    warned: Warned


@dataclass(frozen=True, slots=True)
class Headline:
    """What one artifact is called; `marks` must be shown wherever `text` is."""

    id: str
    title: str = ""  # foreign, whole
    by: str = ""  # foreign: first author and year
    marks: tuple[str, ...] = ()  # ours: what must be known first
    note: str = ""  # ours: how a run ended, that it is gone, or another packet of its work

    @property
    def text(self) -> str:
        """The headline itself: foreign text on one line, cut."""
        title = unmarked(self.title) if RETRACTED in self.marks else self.title
        return f"{_cut(title, TITLE_CHARS)} ({self.by})" if self.by else _cut(title, TITLE_CHARS)

    @property
    def is_whole(self) -> bool:
        """Tell whether `text` holds the whole title."""
        return len(self.title) <= TITLE_CHARS

    @property
    def ours(self) -> tuple[str, ...]:
        """Our own words about it, marks first."""
        return (*self.marks, self.note) if self.note else self.marks


def headline_of(artifact_id: str, look: Lookup) -> Headline:
    """Return the headline of an artifact that `look` reads, or says is gone."""
    return headline_for(artifact_id, look.read(artifact_id), look)


def headline_for(artifact_id: str, artifact: Artifact | None, look: Lookup) -> Headline:
    """Return the headline of an artifact that was read already."""
    if artifact is None:
        return Headline(artifact_id, note=ABSENT)
    if isinstance(artifact, ResearchPacket):
        return packet_headline(artifact_id, artifact, look.warned(artifact_id, artifact))
    if isinstance(artifact, Analysis):
        return Headline(artifact_id, _line(artifact.question.open_for_display()))
    if isinstance(artifact, ToolResult):
        request = headline_of(artifact.request, look)
        return Headline(artifact_id, request.title, note=f"ended {artifact.exit}")
    if isinstance(artifact, Approval):
        return Headline(artifact_id, headline_of(artifact.request, look).title)
    return Headline(artifact_id, _line(artifact.purpose.open_for_display()))


def packet_headline(packet_id: str, packet: ResearchPacket, warned: tuple[str, ...]) -> Headline:
    """Return the headline of a packet; without a title it is what was asked for."""
    title = _line(packet.title.open_for_display()) or _line(packet.reference.open_for_display())
    return Headline(packet_id, title, _by(packet), words(warned))


def own_words(read: Read, origins: Origins) -> Lookup:
    """Return a lookup without an index: it says of a packet only what the packet says."""
    return Lookup(read, origins, lambda one, packet: cautions(packet, origins(one)))


def unmarked(title: str) -> str:
    """Return a title without its own `RETRACTED`, unless it says nothing else."""
    return _SAID_ALREADY.sub("", title) or title


def page_of(artifact_id: str, number: int, read: Read) -> int | None:
    """Return the page of the numbered text of a packet, where the source has pages."""
    packet = read(artifact_id)
    if not isinstance(packet, ResearchPacket) or not 0 < number <= len(packet.excerpts):
        return None
    return packet.excerpts[number - 1].page


def _by(packet: ResearchPacket) -> str:
    year = (packet.published or "").partition("-")[0]
    names = [name for name in (_line(one.open_for_display()) for one in packet.authors[:1]) if name]
    if names:
        # `Family, Given` is cited by family; any other order is not ours to guess.
        first = _cut(names[0].partition(",")[0].strip() or names[0], NAME_CHARS)
        names = [f"{first} et al." if len(packet.authors) > 1 else first]
    return ", ".join([*names, year] if year else names)


def _line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
