"""What a report says of each source an answer cites: a bibliography with digests.

SECURITY
    Opens titles and names of hostile sources for display.  Addresses and names of works are
    shown and never linked.
"""

from collections.abc import Iterator
from typing import Final

from threegate.artifacts.analysis import Analysis
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_result import ToolResult
from threegate.handoff.store import Store
from threegate.host.asking.labelling import Retracted
from threegate.host.bibliography.works import work_of
from threegate.host.cautions import cautions
from threegate.host.kinds import KINDS
from threegate.host.places import is_forgotten, place_of, read_anywhere
from threegate.host.reporting.facts import Card, Fact
from threegate.untrusted import Untrusted

MOST_AUTHORS: Final = 20
RETRACTED_ELSEWHERE: Final = "RETRACTED: another packet of the same work says so"
WITHDRAWN: Final = "WITHDRAWN: it lies in quarantine here, with the reason"
FORGOTTEN: Final = "FORGOTTEN: its bytes were removed here; a signed tombstone says when"
NOT_HERE: Final = "NOT HERE: this workspace does not have it"


def card_of(store: Store, artifact_id: str, retracted: Retracted) -> Card:
    """Return what is said of a source."""
    artifact = read_anywhere(store, artifact_id)
    loud = [*_loud(store, artifact_id, artifact)]
    if isinstance(artifact, ResearchPacket):
        loud += cautions(artifact)
        if artifact.retraction != "retracted" and retracted(artifact_id, 1):
            loud.append(RETRACTED_ELSEWHERE)
    elif artifact is not None and retracted(artifact_id, 0):
        loud.append("RETRACTED: it goes back to a packet that was retracted")
    return Card(artifact_id, tuple(loud), tuple(_facts(artifact_id, artifact)))


def _loud(store: Store, artifact_id: str, artifact: Artifact | None) -> Iterator[str]:
    if artifact is None:
        yield FORGOTTEN if is_forgotten(store, artifact_id) else NOT_HERE
    elif store.locate(artifact_id) is None and place_of(store, artifact_id) is not None:
        yield WITHDRAWN


def _facts(artifact_id: str, artifact: Artifact | None) -> Iterator[Fact]:
    if isinstance(artifact, ResearchPacket):
        yield from _packet(artifact_id, artifact)
    elif isinstance(artifact, ToolResult):
        yield from _result(artifact)
    elif isinstance(artifact, Analysis):
        yield Fact("kind", "an earlier analysis, read back as any other source")
        yield Fact("question", _line(artifact.question), foreign=True)
        yield Fact("stored", artifact.created)
    else:
        yield Fact("kind", KINDS[prefix_of(artifact_id)])


def _packet(artifact_id: str, packet: ResearchPacket) -> Iterator[Fact]:
    work = work_of(artifact_id, packet)
    names = [_line(name) for name in packet.authors]
    yield Fact("title", _line(packet.title) or _line(packet.reference), foreign=True)
    if names:
        more = f" and {len(names) - MOST_AUTHORS} more" if len(names) > MOST_AUTHORS else ""
        yield Fact("authors", "; ".join(names[:MOST_AUTHORS]) + more, foreign=True)
    if packet.container is not None:
        yield Fact("in", _line(packet.container), foreign=True)
    if packet.published is not None:
        yield Fact("published", packet.published)
    for scheme, reference in work.names.items():
        yield Fact(scheme, reference.value, foreign=True)
    yield Fact("asked for", _line(packet.reference), foreign=True)
    yield Fact("address", packet.url, foreign=True)
    yield Fact("retrieved", f"{packet.retrieved}, by {packet.source}")
    yield Fact("raw bytes", f"{packet.raw_bytes}, sha256 {packet.raw_sha256}")
    for also in packet.also:
        yield Fact("and", f"{also.source}, {also.retrieved}, sha256 {also.sha256}")
    yield Fact("standing", _standing(packet))
    for notice in packet.notices:
        said = [_line(one) for one in (notice.label, notice.notice) if one is not None]
        yield Fact(f"{notice.status} by {notice.source}", ", ".join(said) or "-", foreign=True)
    if packet.hazards:
        shown = ", ".join(f"{one.count} x {one.name}" for one in packet.hazards)
        yield Fact("found in it", shown)


def _standing(packet: ResearchPacket) -> str:
    if packet.retraction == "unknown":
        return "not known: nobody could be asked whether it was retracted"
    return "no retraction known at retrieval" if packet.retraction == "none" else packet.retraction


def _result(result: ToolResult) -> Iterator[Fact]:
    yield Fact("kind", f"tool result, ended {result.exit}, lane {result.backend}")
    yield Fact("request", result.request)
    yield Fact("started", result.started)
    yield Fact("outcome", f"sha256 {result.outcome_sha256}")


def _line(text: Untrusted[str]) -> str:
    return " ".join(text.open_for_display().split())
