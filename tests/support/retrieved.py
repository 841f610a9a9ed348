"""Packets as `fetch` stores them, without a network: made from a record and raw bytes."""

import json
from dataclasses import dataclass, replace
from typing import Any

from tests.support.answers import JSON, crossref_work
from tests.support.normalizing import ask, got
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.research_packet import FORMAT, ResearchPacket
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.gate import answer
from threegate.gates.fetch.normalize.messages import PacketMade
from threegate.gates.fetch.normalize.readers.registry import PLAIN
from threegate.handoff.admission import FETCH, admit_packet
from threegate.handoff.store import Store

STRENGTH = "The flexural strength of sea ice was 1.31 MPa."


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A packet, and what it was made from."""

    data: bytes
    record: bytes
    raws: tuple[bytes, ...]

    @property
    def packet(self) -> ResearchPacket:
        return FORMAT.parse(Untrusted(self.data))

    @property
    def id(self) -> str:
        return f"rp-{sha256_hex(self.data)}"


def retrieval(text: str = STRENGTH, **changes: Any) -> Retrieval:
    """Return what a fetch of a work whose abstract is `text` comes to."""
    raw = json.dumps(crossref_work(abstract=f"<jats:p>{text}</jats:p>")).encode()
    record, message = ask([got("crossref", raw, JSON)], **changes)
    made = answer(message, PLAIN)
    assert isinstance(made, PacketMade), made
    return Retrieval(made.packet, record.to_bytes(), (raw,))


def fetched(store: Store, one: Retrieval) -> str:
    """Store a packet as `fetch` does; return its id."""
    blobs = [one.record, *one.raws]
    detail = {"checked": "2026-11-16T04:30:00Z", "plan": "0" * 64, "reference": "", "urls": []}
    packet_id, new = admit_packet(store, Untrusted(one.data), blobs=blobs, op=FETCH, detail=detail)
    assert new
    return packet_id


def edited(packet: ResearchPacket, old: str, new: str, **changes: Any) -> bytes:
    """Return a packet whose texts say something else, with every digest recomputed."""
    texts = [text.open_for_validation().replace(old, new) for text in packet.texts]
    excerpts = [
        replace(one, length=len(text), sha256=sha256_hex(text.encode()))
        for one, text in zip(packet.excerpts, texts, strict=True)
    ]
    boxed = tuple(Untrusted(text) for text in texts)
    return FORMAT.emit(replace(packet, texts=boxed, excerpts=tuple(excerpts), **changes))
