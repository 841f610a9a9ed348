"""Results of a fetch as lines for people and values for scripts: reports, search results, progress.

SECURITY
    Opens text of hostile sources for display; `Output` spells out every character.  Warnings come
    before anything a source says.  The reference printed for a search result, which users paste
    into commands, is never that text: it is the spelling of a reference that the grammar parsed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts.ids import short
from threegate.artifacts.references import SCHEMES, Reference, parse_reference
from threegate.artifacts.research_packet import ResearchPacket
from threegate.host.fetch.items import FetchMoment, FetchReport
from threegate.host.output import counted
from threegate.host.provenance.headlines import cautions, packet_headline, unmarked
from threegate.host.workspace.packets import RETRIEVED_HERE

_LABEL: Final = "candidate "


@dataclass(frozen=True, slots=True)
class SearchCandidate:
    """One search result."""

    number: int
    reference: Reference | None  # None if the source gives no usable identifier
    title: str  # foreign
    published: str  # foreign
    retraction: str  # foreign

    @property
    def headline(self) -> str:
        """The title without a retraction notice, which is shown separately."""
        return unmarked(self.title) if self.retraction == "retracted" else self.title


def candidates(packet: ResearchPacket) -> Iterator[SearchCandidate]:
    """Yield the results in the packet of a search, in order."""
    found = zip(packet.excerpts, packet.texts, strict=True)
    for number, (excerpt, text) in enumerate(found, 1):
        if excerpt.label.open_for_validation().startswith(_LABEL):
            lines = text.open_for_display().split("\n")
            fields = dict(line.split(": ", 1) for line in reversed(lines) if ": " in line)
            named = [fields.get(name, "") for name in ("title", "published", "retraction")]
            yield SearchCandidate(number, _best(lines), *named)


def _best(lines: list[str]) -> Reference | None:
    """Return the best identifier among the lines of a result."""
    found: list[Reference] = []
    for line in lines:
        try:
            # Excerpts escape `<` before a letter, and some old DOIs contain it.
            found.append(parse_reference(line.replace("%3C", "<")))
        except ValueError:
            continue
    found = [one for one in found if one.scheme != "url"]
    return min(found, key=lambda one: SCHEMES.index(one.scheme), default=None)


def listed(packet: ResearchPacket) -> Iterator[str]:
    """Yield one line per result; the foreign part comes last."""
    for one in candidates(packet):
        name = "no reference" if one.reference is None else one.reference.text
        status = f"{one.retraction.upper()}: " if one.retraction else ""
        year = f" ({one.published[:4]})" if one.published else ""
        yield f"{one.number}. {name}  {status}{one.headline}{year}"


STATUSES = ("made", "already", "refused", "failed")
_TOLD = {"made": "made", "already": "already here"}


def lines(report: FetchReport) -> Iterator[str]:
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
        yield from (f"  {text}" for text in listed(report.packet))
        yield from (f"  {text}" for text in _below(report.packet))
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


def document(report: FetchReport) -> dict[str, Any]:
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
        "candidates": [] if packet is None else [_candidate(one) for one in candidates(packet)],
        "error": None,
        "quarantine": report.kept,
    }
    if error is not None:
        found["error"] = {"code": error.code, "reason": error.message, "hint": error.hint}
    return found


def _candidate(one: SearchCandidate) -> dict[str, str | None]:
    reference = None if one.reference is None else one.reference.text
    said = {"title": one.title, "published": one.published, "retraction": one.retraction}
    return {"reference": reference, **{name: text or None for name, text in said.items()}}


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
