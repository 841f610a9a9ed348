"""Lookup of imported documents: registries are asked, and their answers join the packet.

The identifier that a document names is fetched like any other reference, by the rules of policy.
If the registry's record describes the document, the packet is made again from the file and the
registry's answers: metadata and retraction status are then those of the registry.  The new packet
replaces the old one.

SECURITY
    What a file claims decides which identifier is asked for, so a hostile file can make this
    command ask a listed registry for any identifier.  Nothing else of the file leaves.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Final

from threegate.artifacts.ids import make_id
from threegate.artifacts.references import Reference
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.sources import LOCAL_SOURCES
from threegate.base.errors import ArtifactRejected, ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import MAX_ANSWERS, RetrievalRecord, parse_record
from threegate.handoff import states
from threegate.handoff.admission import IMPORT
from threegate.handoff.packet_admission import admit_packet
from threegate.host.fetch.normalize_pool import Answered, Makers, Stopped, Told, job_for
from threegate.host.fetch.remake import kept_raw
from threegate.host.fetch.session import fetch
from threegate.host.fetch.storage import parse_packet
from threegate.host.fetch.targets import hold, must_be_held, read_enrich, target_for
from threegate.host.importing.identity import describes, proposals
from threegate.host.settings import Settings
from threegate.host.workspace.fetched import FetchCache
from threegate.host.workspace.packets import IMPORTED, Origins
from threegate.host.workspace.workspace import Workspace
from threegate.sandbox.machine import find_machine

JOINED: Final = "joined"  # the registry describes the document
KNOWN: Final = "known"  # a registry was asked before
UNNAMED: Final = "unnamed"  # the document names no identifier
NOT_BELIEVED: Final = "not-believed"  # the identifier is that of another work
CONFIDENTIAL: Final = "confidential"  # nobody is asked about it
FAILED: Final = "failed"
HELD: Final = "held"  # policy asks for an approval first
_MAX_AGE_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class LookupReport:
    """The result for one packet."""

    packet_id: str
    status: str
    reference: str = ""  # the identifier that was asked for
    title: str = ""  # of the work that has it; foreign
    new_id: str | None = None
    packet: ResearchPacket | None = field(default=None, repr=False)
    held: tuple[str, ...] = ()
    error: ThreeGateError | None = None


def lookup(
    ws: Workspace, settings: Settings, packet_id: str, *, origins: Origins, stop: Callable[[], bool]
) -> LookupReport:
    """Ask the registries about one imported packet; raise `ArtifactRejected` for another kind."""
    document = ws.store.read(packet_id)
    # A joined packet is stored as imported, so one that was brought would lose its mark.
    is_imported = origins(packet_id).name == IMPORTED
    if not isinstance(document, ResearchPacket) or not is_imported:
        raise ArtifactRejected(f"{packet_id} was not imported from a file")
    if any(one.source not in LOCAL_SOURCES for one in document.also):
        return LookupReport(packet_id, KNOWN)
    if document.confidentiality == "confidential":  # its identifier says what is being read
        return LookupReport(packet_id, CONFIDENTIAL)
    found = proposals(document)
    if not found:
        return LookupReport(packet_id, UNNAMED)
    if must_be_held(ws):
        level = document.confidentiality
        held = hold(ws, found[:1], want="metadata", confidentiality=level)
        return LookupReport(packet_id, HELD, found[0].text, held=tuple(held))
    worst: LookupReport | None = None
    for reference in found:
        report = _try(ws, settings, (packet_id, document), reference, stop)
        if report.status == JOINED:
            return report
        worst = worst or report
    assert worst is not None
    return worst


def _try(
    ws: Workspace,
    settings: Settings,
    named: tuple[str, ResearchPacket],
    reference: Reference,
    stop: Callable[[], bool],
) -> LookupReport:
    """Ask for one identifier, and join its record if it describes the document."""
    packet_id, document = named
    text = reference.text
    target = target_for(
        reference,
        ws.bundle,
        want="metadata",
        enrich=read_enrich(None),
        confidentiality=document.confidentiality,
    )
    _, reports = fetch(ws, settings, [target], [], max_age_seconds=_MAX_AGE_SECONDS, stop=stop)
    (report,) = tuple(reports) or (None,)
    if report is None or report.packet_id is None:
        error = None if report is None else report.error
        return LookupReport(packet_id, FAILED, text, error=error)
    work = ws.store.read(report.packet_id)
    assert isinstance(work, ResearchPacket)
    title = work.title.open_for_display()
    if not describes(work, document):
        return LookupReport(packet_id, NOT_BELIEVED, text, title)
    try:
        new_id, packet = _join(ws, named, work)
    except ArtifactRejected as exc:  # its bytes were forgotten; the other packets go on
        return LookupReport(packet_id, FAILED, text, title, error=exc)
    return LookupReport(packet_id, JOINED, text, title, new_id, packet)


def _join(
    ws: Workspace, named: tuple[str, ResearchPacket], work: ResearchPacket
) -> tuple[str, ResearchPacket]:
    """Make the packet again from the file and the registry's answers, and store it."""
    packet_id, document = named
    own, theirs = _record(ws, document), _record(ws, work)
    answers = (*own.answers, *(one for one in theirs.answers if one.role == "metadata"))
    record = replace(own, replaces=packet_id, answers=answers[:MAX_ANSWERS], misses=theirs.misses)
    raw = kept_raw(ws.store)
    raws = tuple(data for one in record.answers if (data := raw(one.sha256)) is not None)
    if len(raws) < len(record.answers):
        raise ArtifactRejected("raw bytes of its record were forgotten, so nothing can be joined")
    made = _made(ws, record, raws)
    packet = parse_packet(made, record)
    detail = _same_file(ws, packet_id, made, record)
    blobs = [record.to_bytes(), *raws]
    new_id, _ = admit_packet(ws.store, made, blobs=blobs, op=IMPORT, detail=detail)
    return new_id, packet


def _record(ws: Workspace, packet: ResearchPacket) -> RetrievalRecord:
    if packet.record_sha256 is None or not ws.store.has_blob(packet.record_sha256):
        raise ArtifactRejected("its retrieval record is not here, so nothing can be joined")
    return parse_record(Untrusted(ws.store.read_file(states.BLOBS, packet.record_sha256)))


def _made(ws: Workspace, record: RetrievalRecord, raws: tuple[bytes, ...]) -> Untrusted[bytes]:
    """Return the packet that a sandbox makes of a record."""
    told: SimpleQueue[Told] = SimpleQueue()
    makers = Makers(find_machine(), ws.bundle, tell=told.put)
    try:
        makers.expect(1)
        makers.submit(job_for(0, record, raws))
        answer = told.get()
    finally:
        makers.close()
    if isinstance(answer, Stopped):
        raise answer.error
    assert isinstance(answer, Answered)
    if answer.packet is None:
        assert answer.error is not None
        raise answer.error
    return answer.packet


def _same_file(
    ws: Workspace, packet_id: str, made: Untrusted[bytes], record: RetrievalRecord
) -> dict[str, object]:
    """Return the words of the log: the new packet is now the newest of the same file."""
    cache = FetchCache(ws.store, ws.seals)
    try:
        file = cache.file_of(packet_id)
    finally:
        cache.close()
    if file is None:  # a newer packet of the file is here
        return {}
    root, level, location = file
    new_id = make_id("rp", made.open_for_validation())
    row = [location, new_id, record.answers[0].sha256]
    return {"root": root, "level": level, "files": [row]}


def imported_packets(ws: Workspace, origins: Origins) -> list[str]:
    """Return the newest packets of imported files that no registry was asked about."""
    found, replaced = list[str](), set[str | None]()
    for name in sorted(ws.store.names(states.directory_of("rp", "accepted"))):
        packet = ws.store.read(name.removesuffix(".md"))
        if not isinstance(packet, ResearchPacket) or packet.source not in LOCAL_SOURCES:
            continue
        replaced.add(packet.replaces)
        is_imported = origins(name.removesuffix(".md")).name == IMPORTED
        if is_imported and all(one.source in LOCAL_SOURCES for one in packet.also):
            found.append(name.removesuffix(".md"))
    return [one for one in found if one not in replaced]
