"""Retrieval records of answers written or recorded for tests, and the packets made of them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from threegate.artifacts.research_packet import FORMAT, ResearchPacket
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.gate import answer
from threegate.gates.fetch.normalize.messages import (
    KeptAnswer,
    Miss,
    Normalize,
    PacketMade,
    PacketNotMade,
    RetrievalRecord,
)
from threegate.gates.fetch.normalize.readers.registry import PLAIN
from threegate.gates.fetch.normalize.text import Read

REFERENCE = "doi:10.5555/tg.1"
HOSTS = {
    "arxiv": "export.arxiv.org",
    "crossref": "api.crossref.org",
    "datacite": "api.datacite.org",
    "europepmc": "www.ebi.ac.uk",
    "openalex": "api.openalex.org",
    "pubmed": "eutils.ncbi.nlm.nih.gov",
    "semanticscholar": "api.semanticscholar.org",
    "unpaywall": "api.unpaywall.org",
    "url": "www.example.org",
}


@dataclass(frozen=True, slots=True)
class Got:
    """An answer with its bytes."""

    answer: KeptAnswer
    raw: bytes


def got(source: str, raw: bytes, read_as: str, *, role: str = "metadata", **changes: Any) -> Got:
    """Return an answer of `source`; `changes` replace fields of its entry in the record."""
    entry = KeptAnswer(
        source=source,
        role=role,
        reference=REFERENCE,
        url=f"https://{HOSTS[source]}/works/tg.1",
        hops=(),
        status=200,
        media_type=read_as,
        read_as=read_as,
        retrieved="2026-11-16T04:30:00Z",
        sha256=hashlib.sha256(raw).hexdigest(),
        bytes=len(raw),
        trust_anchor="system",
    )
    return Got(replace(entry, **changes), raw)


def page_of(raw: bytes, read_as: str = "text/plain") -> Got:
    """Return a page that somebody gave the URL of."""
    return got("url", raw, read_as, role="document")


def ask(
    answers: Sequence[Got], *, misses: Sequence[Miss] = (), **changes: Any
) -> tuple[RetrievalRecord, Normalize]:
    """Return the record of `answers` and the message a box is given."""
    record = RetrievalRecord(
        reference=REFERENCE,
        scheme="doi",
        want="metadata",
        request=None,
        confidentiality="public",
        answers=tuple(item.answer for item in answers),
        misses=tuple(misses),
    )
    record = replace(record, **changes)
    return record, Normalize(record.to_bytes(), tuple(item.raw for item in answers))


def made(*answers: Got, readers: Mapping[str, Read] = PLAIN, **changes: Any) -> ResearchPacket:
    """Return the packet of `answers`, parsed."""
    found = answer(ask(answers, **changes)[1], readers)
    assert isinstance(found, PacketMade), found
    return FORMAT.parse(Untrusted(found.packet))


def not_made(*answers: Got, **changes: Any) -> PacketNotMade:
    """Return why there is no packet of `answers`."""
    found = answer(ask(answers, **changes)[1], PLAIN)
    assert isinstance(found, PacketNotMade), found
    return found


def texts(packet: ResearchPacket) -> dict[str, str]:
    """Return the excerpts by label."""
    labels = [excerpt.label.open_for_display() for excerpt in packet.excerpts]
    opened = [text.open_for_display() for text in packet.texts]
    return dict(zip(labels, opened, strict=True))


def hazards(packet: ResearchPacket) -> dict[str, int]:
    """Return what was counted."""
    return {hazard.name: hazard.count for hazard in packet.hazards}
