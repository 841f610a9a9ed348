"""A retrieval record and its raw bytes become one research packet: a pure function.

The main answer of a packet is its document, else the record of the source that comes first
in `sources.merge.PRECEDENCE`, else the first list of candidates.  Every further answer of the
record is listed in `also`, used or not, so that its raw bytes stay tied to the packet.

SECURITY
    Runs in a box with foreign bytes.  What it states about the retrieval is copied from the
    record, and the host compares it with its own; what it says about a work is what the
    sources say.  If this module is wrong, a packet misquotes its sources.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts import limits
from threegate.artifacts.research_packet import (
    FORMAT,
    Also,
    FieldSource,
    Hop,
    ResearchPacket,
)
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize import excerpts
from threegate.gates.fetch.normalize.answers import Heard, gaps_of_unread, hear, merged
from threegate.gates.fetch.normalize.fields import shown, spelled_name
from threegate.gates.fetch.normalize.hazards import Findings
from threegate.gates.fetch.normalize.messages import SCAN, KeptAnswer, RetrievalRecord
from threegate.gates.fetch.normalize.parts import parts_of_candidates, parts_of_work
from threegate.gates.fetch.normalize.passages import count_passages
from threegate.gates.fetch.normalize.text import Part, Read, Unread
from threegate.gates.fetch.sources.merge import Merged, merge_lists
from threegate.gates.fetch.sources.metadata import Unreadable

NOT_FOUND: Final = "TG-NRM-003"
UNREADABLE: Final = "TG-NRM-004"
OTHER_WORK: Final = "TG-NRM-006"
_HAZARD_OF_PROBLEM: Final = {
    "content-dropped": "hidden-text",
    "cut": "truncated",
    "surrogate": "control",
}


class NothingMade(Exception):
    """There is nothing to make a packet of; `code` and our own words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class _Material:
    """All that a packet is made of."""

    record: RetrievalRecord
    record_sha256: str
    heard: Heard
    main: KeptAnswer
    work: Merged
    parts: tuple[Part, ...]


def make_packet(
    record: RetrievalRecord,
    record_sha256: str,
    raws: tuple[Untrusted[bytes], ...],
    readers: Mapping[str, Read],
) -> bytes:
    """Return the packet of a record, or raise `NothingMade`."""
    heard = hear(record, raws, readers)
    work = merged(record, heard)
    main = _main(record, heard)
    parts = (*parts_of_work(work), *_of_documents(heard), *parts_of_candidates(_candidates(heard)))
    material = _Material(record, record_sha256, heard, main, work, parts)
    budget = limits.MAX_PACKET_BYTES
    while True:
        packet = FORMAT.emit(_packet(material, budget))
        if len(packet) <= limits.MAX_PACKET_BYTES:
            return packet
        budget -= len(packet) - limits.MAX_PACKET_BYTES


def _packet(material: _Material, budget: int) -> ResearchPacket:
    """Return a packet whose excerpts fit into `budget` bytes."""
    heard, work, found = material.heard, material.work, Findings()
    _count_problems(heard, found)
    fields = shown(work, found)
    cut = excerpts.cut(material.parts, budget, found)
    found.add("injection-like", count_passages((fields.title, *fields.authors, *cut.texts)))
    title = (
        material.record.reference[: limits.MAX_TITLE_CHARS] if heard.candidates else fields.title
    )
    return ResearchPacket(
        **_retrieval(material),
        title=Untrusted(title),
        authors=tuple(map(Untrusted, fields.authors)),
        container=fields.container,
        published=None if work.published is None else work.published.text,
        licence=fields.licence,
        identifiers=fields.identifiers,
        metadata_from=tuple(FieldSource(item.field, item.source) for item in work.origins),
        retraction=work.retraction.status,
        notices=fields.notices,
        hazards=found.hazards(),
        gaps=(*work.gaps, *gaps_of_unread(heard)),
        excerpts=cut.excerpts,
        integrity="external",
        texts=tuple(map(Untrusted, cut.texts)),
    )


def _retrieval(material: _Material) -> dict[str, Any]:
    """Return the fields that the host knows too."""
    record, main = material.record, material.main
    return {
        "source": main.source,
        "reference": Untrusted(record.reference),
        "request": record.request,
        "replaces": record.replaces,
        "url": main.url,
        "hops": tuple(Hop(url, status) for url, status in main.hops),
        "retrieved": main.retrieved,
        "media_type": main.read_as,
        "raw_sha256": main.sha256,
        "raw_bytes": main.bytes,
        "trust_anchor": main.trust_anchor,
        "record_sha256": material.record_sha256,
        "also": tuple(_also(answer) for answer in record.answers if answer is not main),
        "confidentiality": record.confidentiality,
    }


def _also(answer: KeptAnswer) -> Also:
    return Also(
        answer.source,
        answer.url,
        answer.retrieved,
        answer.sha256,
        answer.bytes,
        answer.trust_anchor,
    )


def _main(record: RetrievalRecord, heard: Heard) -> KeptAnswer:
    """Return the answer a packet is about, or raise `NothingMade`."""
    for answer, _ in (*heard.documents, *heard.metadata(), *heard.candidates):
        return answer
    for answer, other in heard.others:
        names = [quote(spelled_name(name)) for name in other.identifiers[:3]]
        said = f"{answer.source} answered about another work: {', '.join(names)}"
        raise NothingMade(OTHER_WORK, said)
    for answer, why in (*heard.unread, *heard.works):
        if isinstance(why, Unread | Unreadable):
            code = SCAN if why.reason == "scan" else UNREADABLE
            raise NothingMade(code, f"{answer.source}: {why.detail or why.reason}")
    raise NothingMade(NOT_FOUND, f"no source knows it: {_tally(record, heard)}")


def _tally(record: RetrievalRecord, heard: Heard) -> str:
    silent = {(answer.source, "not-found") for answer, _ in (*heard.works, *heard.unread)}
    silent |= {(miss.source, miss.reason) for miss in record.misses}
    said = ", ".join(f"{source} {reason}" for source, reason in sorted(silent))
    return said or "nobody was asked"


def _of_documents(heard: Heard) -> list[Part]:
    return [part for _, document in heard.documents for part in document.parts]


def _candidates(heard: Heard) -> tuple[Merged, ...]:
    return merge_lists(work for _, works in heard.candidates for work in works)


def _count_problems(heard: Heard, found: Findings) -> None:
    """Count what readers and parsers met before the text was a text."""
    for _, work in heard.metadata():
        for problem in work.problems:
            hazard = _HAZARD_OF_PROBLEM.get(problem.what)
            if hazard is not None:
                found.add(hazard, problem.count)
    for _, document in heard.documents:
        for name, count in document.found.items():
            found.add(name, count)
