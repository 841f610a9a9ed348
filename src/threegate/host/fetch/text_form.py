"""What became of a wish, in lines for people and in values for scripts.

SECURITY
    Opens titles and gaps of packets for display; `Output` spells out every character.  What
    a reader must know first stands before anything the source says.
"""

from collections.abc import Iterator
from typing import Any

from threegate.artifacts.ids import short
from threegate.artifacts.research_packet import ResearchPacket
from threegate.host.fetch.candidates import Candidate, candidates, listed
from threegate.host.fetch.ports import Report
from threegate.host.output import counted
from threegate.host.provenance.cautions import cautions
from threegate.host.provenance.headlines import packet_headline
from threegate.host.workspace.origin import RETRIEVED_HERE

STATUSES = ("made", "already", "refused", "failed")
_TOLD = {"made": "made", "already": "already here"}


def lines(report: Report) -> Iterator[str]:
    """Yield one line, and what is missing, flagged or to be done below it."""
    reference = report.wish.reference
    if report.packet is not None and report.packet_id is not None:
        found = packet_headline(
            report.packet_id, report.packet, cautions(report.packet, RETRIEVED_HERE)
        )
        warned = f" {', '.join(found.marks)}" if found.marks else ""
        head = f"{_TOLD[report.status]} {short(report.packet_id)} {reference}{warned}"
        # In quotes and last: a title that begins like a mark of ours is still a title.
        yield f'{head}: "{found.text}"'
        yield from (f"  {text}" for text in listed(report.packet))
        yield from (f"  {text}" for text in _below(report.packet))
        return
    error = report.error
    assert error is not None, "what is no packet has a reason"
    yield f"{report.status} {error.code} {reference}: {error.message}"
    if report.kept is not None:
        yield f"  kept in quarantine: `threegate quarantine show {report.kept[:12]}`"
    if error.hint:
        yield f"  hint: {error.hint}"


def _below(packet: ResearchPacket) -> Iterator[str]:
    if packet.gaps:
        yield "missing: " + ", ".join(f"{gap.source} {gap.reason}" for gap in packet.gaps)
    if packet.hazards:
        yield "found: " + ", ".join(f"{item.name} {item.count}" for item in packet.hazards)


def document(report: Report) -> dict[str, Any]:
    """Return the same for scripts."""
    packet, error = report.packet, report.error
    found: dict[str, Any] = {
        "reference": report.wish.reference,
        "status": report.status,
        "packet": report.packet_id,
        "request": report.wish.request_id,
        "hosts": list(report.hosts),
        "cautions": [] if packet is None else list(cautions(packet, RETRIEVED_HERE)),
        "retraction": None if packet is None else packet.retraction,
        "gaps": [] if packet is None else [_gap(item) for item in packet.gaps],
        "hazards": {} if packet is None else {item.name: item.count for item in packet.hazards},
        "candidates": [] if packet is None else [_candidate(one) for one in candidates(packet)],
        "error": None,
        "quarantine": report.kept,
    }
    if error is not None:
        found["error"] = {"code": error.code, "reason": error.message, "hint": error.hint}
    return found


def _candidate(one: Candidate) -> dict[str, str | None]:
    reference = None if one.reference is None else one.reference.text
    said = {"title": one.title, "published": one.published, "retraction": one.retraction}
    return {"reference": reference, **{name: text or None for name, text in said.items()}}


def _gap(gap: Any) -> dict[str, str]:
    reference = gap.reference.open_for_display()
    return {"source": gap.source, "reference": reference, "reason": gap.reason}


def totals(reports: list[Report], asked: int) -> str:
    """Return one line for all of them."""
    counts = [(word, sum(item.status == word for item in reports)) for word in STATUSES]
    parts = [f"{count} {_TOLD.get(word, word)}" for word, count in counts if count]
    left = asked - len(reports)
    parts += [f"{left} not finished"] if left else []
    return f"{counted(asked, 'reference')}: {', '.join(parts) or 'nothing done'}"
