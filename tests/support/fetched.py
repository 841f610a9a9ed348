"""What a fetch on the test internet left: packets by reference, and what the far side saw."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.support.internet_place import Place, PlaceCli
from threegate.artifacts import registry
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base.untrusted import Untrusted

Event = dict[str, Any]


def packets(cli: PlaceCli) -> dict[str, ResearchPacket]:
    """Return the newest accepted packet of every reference."""
    found = [packet for _, packet in _accepted(cli)]
    found.sort(key=lambda packet: packet.retrieved)
    return {packet.reference.open_for_display(): packet for packet in found}


def packet_ids(cli: PlaceCli) -> dict[str, str]:
    """Return the id of the newest accepted packet of every reference."""
    found = sorted(_accepted(cli), key=lambda item: item[1].retrieved)
    return {packet.reference.open_for_display(): name for name, packet in found}


def _accepted(cli: PlaceCli) -> Iterator[tuple[str, ResearchPacket]]:
    assert cli.workspace is not None
    for path in sorted((cli.workspace / "handoff/packets/accepted").rglob("rp-*.md")):
        packet = registry.parse(Untrusted(path.read_bytes()))
        assert isinstance(packet, ResearchPacket)
        yield path.stem, packet


def text_of(packet: ResearchPacket) -> str:
    return "\n".join(text.open_for_display() for text in packet.texts)


def hazards_of(packet: ResearchPacket) -> dict[str, int]:
    return {hazard.name: hazard.count for hazard in packet.hazards}


def gaps_of(packet: ResearchPacket) -> dict[str, str]:
    return {gap.source: gap.reason for gap in packet.gaps}


def requests(events: Iterable[Event], host: str, part: str = "") -> list[Event]:
    """Return the requests a host got, whose line holds `part`."""
    return [
        event
        for event in events
        if event["event"] == "request" and event["host"] == host and part in event["line"]
    ]


def answers(events: Iterable[Event], host: str, part: str = "") -> list[int]:
    """Return the statuses a host answered with."""
    return [
        event["status"]
        for event in events
        if event["event"] == "answer" and event["host"] == host and part in event["line"]
    ]


def names_met(events: Iterable[Event]) -> set[str]:
    """Return every name that was looked up or greeted."""
    return {event["name"] for event in events if event["event"] in ("dns", "hello")}


def anchor_of(place: Place) -> str:
    return hashlib.sha256(place.ca.read_bytes()).hexdigest()


def tree(*tops: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of change of every file below these directories."""
    found = {}
    for top in tops:
        for path in top.rglob("*"):
            if path.is_file() and not path.is_symlink():
                state = path.stat()
                found[str(path)] = (state.st_size, state.st_mtime_ns)
    return found
