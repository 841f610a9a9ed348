"""Results of an import as lines for people and values for scripts."""

from collections.abc import Iterator
from typing import Any, Final

from threegate.artifacts.ids import short
from threegate.host.importing.batch import (
    ALREADY,
    GONE,
    HOLDS_KEY,
    MADE,
    SKIPPED,
    ImportReport,
)
from threegate.host.provenance.headlines import packet_headline

_WORDS: Final = {
    MADE: "imported",
    ALREADY: "already here",
    GONE: "gone; its packet stays:",
}


def lines(report: ImportReport) -> Iterator[str]:
    """Yield one line, with the title, hazards and hints below it; foreign text comes last."""
    if report.status == SKIPPED:
        return
    if report.error is not None:
        kept = f" {report.sha256[:12]}" if report.sha256 else ""
        yield f"refused {report.error.code}{kept} {report.reference}: {report.error.message}"
        if report.error.hint:
            yield f"  hint: {report.error.hint}"
        return
    assert report.packet_id is not None
    replaces = f", replaces {short(report.replaces)}" if report.replaces else ""
    yield f"{_WORDS[report.status]} {short(report.packet_id)}{replaces} {report.reference}"
    if report.packet is not None:
        if report.packet.hazards:
            found = ", ".join(f"{one.count} x {one.name}" for one in report.packet.hazards)
            yield f"  found in it: {found}"
            if HOLDS_KEY in {one.name for one in report.packet.hazards}:
                yield "  the packet is confidential, because it seems to hold a secret"
        for gap in report.packet.gaps:
            yield f"  without its {gap.source}: {gap.reason}"
        if report.packet.title.open_for_display():
            yield f"  {packet_headline(report.packet_id, report.packet, ()).text}"


def document(report: ImportReport) -> dict[str, Any]:
    """Return the report as a value for scripts."""
    error, packet = report.error, report.packet
    return {
        "file": report.reference,
        "status": report.status,
        "id": report.packet_id,
        "replaces": report.replaces,
        "title": None if packet is None else packet.title.open_for_display(),
        "hazards": {} if packet is None else {one.name: one.count for one in packet.hazards},
        "sha256": report.sha256,
        "code": None if error is None else error.code,
        "reason": None if error is None else error.message,
        "hint": None if error is None else error.hint,
    }
