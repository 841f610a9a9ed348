"""Retrieval records of answers written or recorded for tests, and the packets made of them."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tests.support.boxes import said
from tests.support.origins import answers as answers_json
from tests.support.origins import works
from tests.support.pages import ARTICLE, page
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.research_packet import FORMAT, ResearchPacket
from threegate.artifacts.sources import LOCAL_SOURCES
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.gate import answer
from threegate.gates.fetch.normalize.gate_pdf import READERS as PDF_READERS
from threegate.gates.fetch.normalize.messages import (
    KeptAnswer,
    Miss,
    Normalize,
    PacketMade,
    PacketNotMade,
    RetrievalRecord,
    parse_made,
)
from threegate.gates.fetch.normalize.readers.registry import PLAIN
from threegate.gates.fetch.normalize.text import Read
from threegate.gates.fetch.sources.metadata import Metadata, Outcome
from threegate.handoff.admission import FETCH
from threegate.handoff.packet_admission import admit_packet
from threegate.handoff.store import Store
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import FETCH_NORMALIZE, Profile
from threegate.sandbox.session import run_gate
from threegate.sandbox.supervise import Ended

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
    local = source in LOCAL_SOURCES
    entry = KeptAnswer(
        source=source,
        role=role,
        reference=REFERENCE,
        url="file:works/tg.1" if local else f"https://{HOSTS[source]}/works/tg.1",
        hops=(),
        status=200,
        media_type=read_as,
        read_as=read_as,
        retrieved="2026-11-16T04:30:00Z",
        sha256=hashlib.sha256(raw).hexdigest(),
        bytes=len(raw),
        trust_anchor="none" if local else "system",
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
        replaces=None,
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


# -- Answers of scholarly sources, written for this project: small, and none of them real.

JSON = "application/json"
XML = "application/xml"


def raw(value: object) -> Untrusted[bytes]:
    """Return JSON bytes for a value, or the bytes themselves."""
    return Untrusted(value if isinstance(value, bytes) else json.dumps(value).encode("utf-8"))


def work(outcome: Outcome) -> Metadata:
    """Return the work an outcome must be."""
    assert isinstance(outcome, Metadata), outcome
    return outcome


def shown(text: Untrusted[str] | None) -> str | None:
    """Open a box."""
    return None if text is None else text.open_for_display()


def names(found: Metadata) -> list[tuple[str, str]]:
    """Return the identifiers as pairs."""
    return [(name.scheme, name.value.open_for_display()) for name in found.identifiers]


def problems(found: Metadata) -> set[tuple[str, str]]:
    """Return what was wrong, without counts."""
    return {(problem.field, problem.what) for problem in found.problems}


def crossref_work(**fields: Any) -> dict[str, Any]:
    """Return a Crossref answer about one work; `fields` replace or add."""
    message = {
        "DOI": "10.5555/TG.1",
        "title": ["On gates"],
        "author": [{"given": "Ada", "family": "Gate", "sequence": "first"}],
        "issued": {"date-parts": [[2021, 3, 4]]},
        "container-title": ["Journal of Gates"],
        "ISSN": ["1234-567X"],
        "relation": {},
        **fields,
    }
    return {"status": "ok", "message-type": "work", "message": message}


# -- A retrieval record with everything in it: two answers, a redirect, a miss, a request.

DOI = f"doi:{works.ARTICLE.doi}"
TIME = "2026-11-15T12:00:00Z"
RAWS = (answers_json.crossref(works.ARTICLE), answers_json.openalex(works.ARTICLE))


def recorded_answer(source: str, host: str, raw: bytes) -> KeptAnswer:
    return KeptAnswer(
        source=source,
        role="metadata",
        reference=DOI,
        url=f"https://{host}/works/1",
        hops=((f"https://{host}/works/0", 301),),
        status=200,
        media_type="application/json",
        read_as="application/json",
        retrieved=TIME,
        sha256=sha256_hex(raw),
        bytes=len(raw),
        trust_anchor="system",
    )


RECORD = RetrievalRecord(
    reference=DOI,
    scheme="doi",
    want="metadata",
    request="fr-" + "1" * 64,
    replaces=None,
    confidentiality="internal",
    answers=(
        recorded_answer("crossref", "api.crossref.org", RAWS[0]),
        recorded_answer("openalex", "api.openalex.org", RAWS[1]),
    ),
    misses=(Miss("europepmc", DOI, "timed-out", "no answer in time"),),
)


# -- Packets as `fetch` stores them, without a network: made from a record and raw bytes.

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


def pdf_retrieval(raw: bytes, **changes: Any) -> Retrieval:
    """Return what a fetch of a PDF comes to."""
    record, message = ask([page_of(raw, "application/pdf")], want="full-text", **changes)
    made = answer(message, PDF_READERS)
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


# -- One abstract put into two packets that should differ in text and counts only.

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


# -- The real normalize box: one message in, one answer out.

PAYLOAD = "threegate.gates.fetch.normalize.gate:serve"


@dataclass(frozen=True, slots=True)
class Boxed:
    """What a box answered, if it did, and how it ended."""

    answer: PacketMade | PacketNotMade | None
    ended: Ended
    seconds: float


def boxed(
    message: Normalize,
    profile: Profile = FETCH_NORMALIZE,
    payload: str = PAYLOAD,
    given: Mapping[str, str] | None = None,
) -> Boxed:
    """Give one message to a fresh box."""
    begin = time.monotonic()
    answer = run_gate(find_machine(), Start(profile, payload, given or {}), message.to_bytes())
    data = said(answer)
    found = parse_made(Untrusted(data)) if data else None
    return Boxed(found, answer.ended, time.monotonic() - begin)


# -- Pages made to use up whoever reads them.


def _fonts(count: int) -> str:
    """Open formatting elements are opened again in every paragraph: count * count elements."""
    opened = "".join(f"<font color='#{number:06x}'>" for number in range(count))
    return "<p>" + opened + "<p>x" * count


def _laughs() -> bytes:
    entities = "".join(
        f'<!ENTITY l{number} "{f"&l{number - 1};" * 10}">' for number in range(1, 12)
    )
    return (
        '<?xml version="1.0"?><!DOCTYPE html [<!ENTITY l0 "haha">' + entities + "]>"
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body>'
        f"{ARTICLE}<p>&l11;</p></body></html>"
    ).encode()


# Refused before it is parsed.
REFUSED = {
    "deep": b"<div>" * 1_000_000,
    "deep and balanced": b"<div>" * 100_000 + b"x" + b"</div>" * 100_000,
    "wide": b"<br>" * 1_000_000,
    "attributes": b"<p " + b" ".join(b"a%d=1" % number for number in range(1_200_000)) + b">x",
    "large": b"<p>" + b"x" * 11 * 2**20,
}
# Read, because nothing in it grows.
READ = {
    "laughing XHTML": _laughs(),
    "many rules": page("", head="<style>" + ".a{display:none}" * 60_000 + "</style>"),
    "many selectors": page("", head="<style>" + "a,b c,d>e" * 20_000 + "{display:none}</style>"),
    "an endless style": page(f'<p style="{"color:red;" * 200_000}">x</p>'),
    "an open comment": page("<!--" + "x" * 2**20),
    "many entities": page("&amp;" * 100_000),
    "one long word": page("<p>" + "x" * 2**20),
}
# Past what is counted beforehand: the box's own limits decide, and may be generous.
UNBOUNDED = {
    "deep behind its own back": b"<div><object></div></object>" * 40_000,
    "formatting again and again": _fonts(3000).encode(),
    "tables in tables": b"<table><tr><td>" * 240 + b"<table>x" * 20_000,
    "anchors": b"<a href=x>" * 60_000 + b"x",
}
