"""Results of a fetch as lines for people and values for scripts: reports, search results, progress.

SECURITY
    Opens text of hostile sources for display; `Output` spells out every character.  Warnings come
    before anything a source says.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from threegate.artifacts.ids import short
from threegate.artifacts.research_packet import ResearchPacket
from threegate.host.fetch.candidates import (
    Here,
    candidate_document,
    candidates,
    listed,
    nothing_here,
)
from threegate.host.fetch.items import FetchMoment, FetchReport
from threegate.host.output import counted
from threegate.host.provenance.headlines import cautions, packet_headline
from threegate.host.workspace.packets import RETRIEVED_HERE

STATUSES = ("made", "already", "refused", "failed")
_TOLD = {"made": "made", "already": "already here"}


def lines(report: FetchReport, here: Here = nothing_here) -> Iterator[str]:
    """Yield one line, with gaps, hazards and hints below it."""
    reference = report.target.reference
    if report.packet is not None and report.packet_id is not None:
        found = packet_headline(
            report.packet_id, report.packet, cautions(report.packet, RETRIEVED_HERE)
        )
        warned = f" {', '.join(found.marks)}" if found.marks else ""
        head = f"{_TOLD[report.status]} {short(report.packet_id)} {reference}{warned}"
        # In quotes and last: a title cannot imitate a mark of ours.
        yield f'{head}: "{found.text}"'
        yield from (f"  {text}" for text in listed(report.packet, here))
        yield from (f"  {text}" for text in (*_below(report.packet), *report.notes))
        return
    error = report.error
    assert error is not None, "without a packet there is a reason"
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


def document(report: FetchReport, here: Here = nothing_here) -> dict[str, Any]:
    """Return the same for scripts."""
    packet, error = report.packet, report.error
    found: dict[str, Any] = {
        "reference": report.target.reference,
        "status": report.status,
        "packet": report.packet_id,
        "request": report.target.request_id,
        "hosts": list(report.hosts),
        "cautions": [] if packet is None else list(cautions(packet, RETRIEVED_HERE)),
        "retraction": None if packet is None else packet.retraction,
        "gaps": [] if packet is None else [_gap(item) for item in packet.gaps],
        "hazards": {} if packet is None else {item.name: item.count for item in packet.hazards},
        "candidates": []
        if packet is None
        else [candidate_document(one, here) for one in candidates(packet)],
        "notes": list(report.notes),
        "error": None,
        "quarantine": report.kept,
    }
    if error is not None:
        found["error"] = {"code": error.code, "reason": error.message, "hint": error.hint}
    return found


def _gap(gap: Any) -> dict[str, str]:
    reference = gap.reference.open_for_display()
    return {"source": gap.source, "reference": reference, "reason": gap.reason}


def totals(reports: list[FetchReport], asked: int) -> str:
    """Return one line of totals."""
    counts = [(word, sum(item.status == word for item in reports)) for word in STATUSES]
    parts = [f"{count} {_TOLD.get(word, word)}" for word, count in counts if count]
    left = asked - len(reports)
    parts += [f"{left} not finished"] if left else []
    return f"{counted(asked, 'reference')}: {', '.join(parts) or 'nothing done'}"


MOST_SHOWN: Final = 10
LONG_SECONDS: Final = 10.0


class FetchProgress:
    """Draws the present activity of all items."""

    def __init__(
        self,
        draw: Callable[[Sequence[str]], None],
        total: int = 0,
        *,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`note` prints long waits where nothing is drawn."""
        self.total, self._draw, self._note = total, draw, note
        self._now: dict[int, str] = {}
        self._ended: dict[str, int] = {}

    def moment(self, moment: FetchMoment) -> None:
        """Show the activity of an item."""
        self._now[moment.number] = f"  {moment.reference}: {moment.words}"
        self._draw(self.lines())
        if moment.wait_seconds >= LONG_SECONDS:
            self._note(f"{moment.reference}: {moment.words}")

    def ended(self, report: FetchReport) -> None:
        """Show the end of an item."""
        self._now.pop(report.number, None)
        self._ended[report.status] = self._ended.get(report.status, 0) + 1
        self._draw(self.lines())

    def lines(self) -> list[str]:
        """Return the lines to draw: the total first, then items, the oldest first."""
        counts = ", ".join(f"{count} {status}" for status, count in self._ended.items())
        done = sum(self._ended.values())
        head = f"fetching: {done} of {self.total}" + (f" ({counts})" if counts else "")
        shown = [self._now[number] for number in sorted(self._now)[:MOST_SHOWN]]
        more = len(self._now) - len(shown)
        return [head, *shown, *([f"  and {more} more"] if more else [])]
