"""One abstract put into two packets that should differ in text and counts only."""

import json
from dataclasses import fields

from tests.support.answers import JSON, crossref_work
from tests.support.normalizing import got, made
from threegate.artifacts.research_packet import ResearchPacket

# What follows from the text itself; everything else must be as it is without it.
OF_THE_TEXT = ("texts", "excerpts", "hazards", "raw_sha256", "raw_bytes", "record_sha256")


def packet_with(abstract: str) -> ResearchPacket:
    """Return the packet of a work with this abstract."""
    body = crossref_work(abstract=abstract, URL="https://doi.org/10.5555/tg.1")
    return made(got("crossref", json.dumps(body).encode(), JSON))


def rest(packet: ResearchPacket) -> dict[str, object]:
    """Return every field that no abstract may change."""
    return {
        item.name: getattr(packet, item.name)
        for item in fields(packet)
        if item.name not in OF_THE_TEXT
    }


def labels(packet: ResearchPacket) -> list[str]:
    """Return what the excerpts are called, each once."""
    return list(dict.fromkeys(item.label.open_for_display() for item in packet.excerpts))
