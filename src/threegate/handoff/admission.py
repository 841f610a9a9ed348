"""Admission: bytes from outside become an accepted artifact, or go to quarantine with a reason.

SECURITY
    Takes bytes from gates and from the operator's files.  The host parses them itself
    and writes its own copy under its own name.  If this module is wrong, an unchecked artifact
    enters, or a refused one is
    lost.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts import registry
from threegate.artifacts.analysis import Analysis
from threegate.artifacts.approval import Approval
from threegate.artifacts.ids import digest_of, make_id, sha256_hex
from threegate.artifacts.labels import join_all
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.artifacts.registry import Artifact, Request
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.base import canonical
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.journal import Act, Put
from threegate.handoff.refusals import FORGOTTEN, refuse_forgotten, was_refused
from threegate.handoff.store import Store

CHUNK: Final = 128  # a refused item takes two files, a journal batch 256
CHUNK_BYTES: Final = 16 * 2**20  # 128 items as large as they may be took 860 MB of memory

WITHDRAWN: Final = "TG-HND-011"
PARENT_MISSING: Final = "TG-HND-012"
NEEDS_SIGNATURE: Final = "TG-HND-013"
BLOB_MISSING: Final = "TG-HND-014"
NOT_ITS_RECORD: Final = "TG-HND-017"  # a packet differs from what its record and raw bytes make

# Operations that store a packet.  The log names them, and they decide a packet's origin.
FETCH: Final = "fetch"
IMPORT: Final = "import"
ADMIT: Final = "admit"
ADMIT_RETRIEVED: Final = "admit-retrieved"
ADMIT_CONSISTENT: Final = "admit-consistent"


@dataclass(frozen=True, slots=True)
class Admission:
    """The result for one item."""

    status: str  # accepted | already | quarantined | refused
    sha256: str
    id: str | None = None
    code: str | None = None
    reason: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class _Parsed:
    offered: bytes  # the original bytes, which quarantine keeps
    data: bytes  # as it is stored if accepted
    artifact: Artifact | None
    id: str | None
    error: ArtifactRejected | None


@dataclass(frozen=True, slots=True)
class Vouched:
    """The operation, and its detail in the log, that store a packet which was remade."""

    op: str
    detail: Mapping[str, Any]


Complete = Callable[[Untrusted[bytes]], Untrusted[bytes]]
Packets = Mapping[str, tuple[bytes, ResearchPacket]]  # by id
Compare = Callable[[Packets], Mapping[str, Vouched | ArtifactRejected]]


def admit(
    store: Store,
    items: Iterable[Untrusted[bytes]],
    *,
    now: Callable[[], str],
    complete: Complete | None = None,
    compare: Compare | None = None,
) -> Iterator[Admission]:
    """Validate, store and record items in order, a chunk to a transaction.

    `complete` turns a draft into the artifact it stands for, or raises `ArtifactRejected`.
    `compare` gets the new packets whose retrieval record is here, and returns those that differ
    from the packet remade from record and raw bytes.
    """
    for chunk in _chunks(items):
        parsed = [_parse(item, complete) for item in chunk]
        # Before the lock is taken: sandboxes may take seconds.
        compared = {} if compare is None else compare(_comparable(store, parsed))
        yield from _admit_chunk(store, parsed, now(), compared)


def _comparable(store: Store, chunk: Sequence[_Parsed]) -> Packets:
    return {
        item.id: (item.data, item.artifact)
        for item in chunk
        if item.id is not None
        and isinstance(item.artifact, ResearchPacket)
        and item.artifact.record_sha256 is not None
        and store.has_blob(item.artifact.record_sha256)
        and store.locate(item.id) is None
    }


def _chunks(items: Iterable[Untrusted[bytes]]) -> Iterator[list[Untrusted[bytes]]]:
    """Yield items in order, in chunks of bounded count and bytes."""
    chunk: list[Untrusted[bytes]] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += len(item.open_for_validation())
        if len(chunk) == CHUNK or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _parse(item: Untrusted[bytes], complete: Complete | None) -> _Parsed:
    untrusted = item.open_for_validation()
    try:
        completed = item if complete is None else complete(item)
        found = registry.format_of(completed)
        artifact = found.parse(completed)
    except ArtifactRejected as exc:
        return _Parsed(untrusted, untrusted, None, None, exc)
    data = completed.open_for_validation()
    return _Parsed(untrusted, data, artifact, make_id(found.prefix, data), None)


def _admit_chunk(
    store: Store,
    chunk: Sequence[_Parsed],
    now: str,
    compared: Mapping[str, Vouched | ArtifactRejected],
) -> list[Admission]:
    accepted: dict[str, _Parsed] = {}
    refused: dict[str, tuple[_Parsed, ArtifactRejected]] = {}
    answers: list[Admission] = []
    with store.locked() as journal:
        for item in chunk:
            answer, error = _judge(store, item, accepted, compared)
            if answer.status == "accepted" and answer.id is not None:
                accepted[answer.id] = item
            elif error is not None and answer.status == "quarantined":
                refused[answer.sha256] = (item, error)
            answers.append(answer)
        puts = {item_id: _accept(item_id, item) for item_id, item in accepted.items()}
        vouched = {key: verdict for key, verdict in compared.items() if key in puts}
        plain = [put for key, put in puts.items() if key not in vouched]
        if plain:
            journal.run(ADMIT, plain)
        for key, verdict in vouched.items():
            assert isinstance(verdict, Vouched), "the others were refused"
            journal.run(verdict.op, [puts[key]], verdict.detail)
        if refused:
            acts, codes = _quarantine(store, refused, now)
            if acts:
                journal.run("quarantine", acts, codes)
    return answers


def _judge(
    store: Store,
    item: _Parsed,
    pending: dict[str, _Parsed],
    compared: Mapping[str, Vouched | ArtifactRejected],
) -> tuple[Admission, ArtifactRejected | None]:
    kept = sha256_hex(item.offered)
    digest = kept if item.id is None else digest_of(item.id)
    try:
        refuse_forgotten(store, kept)
        if item.artifact is None or item.id is None:
            assert item.error is not None
            raise item.error
        if item.id in pending or store.locate(item.id) is not None:
            return Admission("already", digest, item.id), None
        refuse_gone(store, item.id)
        verdict = compared.get(item.id)
        if isinstance(verdict, ArtifactRejected):
            raise verdict
        check_in_place(store, item.artifact, pending)
    except ArtifactRejected as exc:
        # Keeping forgotten bytes in quarantine would undo the forgetting.
        gone = exc.code in (FORGOTTEN, WITHDRAWN)
        status = "refused" if gone else "quarantined"
        return Admission(status, kept, item.id, exc.code, exc.message, exc.hint), exc
    return Admission("accepted", digest, item.id), None


def refuse_gone(store: Store, artifact_id: str) -> None:
    """Refuse an artifact that was forgotten or withdrawn here."""
    if store.holds(states.TOMBSTONES, f"{artifact_id}.json"):
        raise ArtifactRejected(f"{artifact_id} was forgotten here", code=FORGOTTEN)
    if store.holds(states.QUARANTINE, f"{artifact_id}.md"):
        raise ArtifactRejected(f"{artifact_id} was withdrawn here", code=WITHDRAWN)


def check_in_place(
    store: Store,
    artifact: Artifact,
    pending: Mapping[str, _Parsed],
    brought: Container[str] = (),
) -> None:
    """Check the rules that a parser cannot check: signature, parents, labels, blobs."""
    if isinstance(artifact, Approval):
        hint = "an approval is made by signing a request, not brought in by hand"
        raise ArtifactRejected(
            "an approval comes with its signature", code=NEEDS_SIGNATURE, hint=hint
        )
    parents = [_parent(store, parent, pending) for parent in artifact.parents()]
    if not registry.labels_of(artifact).covers(join_all(map(registry.labels_of, parents))):
        raise reject(ArtifactReason.LABELS, "its labels are weaker than those of its sources")
    if isinstance(artifact, ToolRequest):
        _check_blobs(store, artifact, brought)


def _parent(store: Store, parent: str, pending: Mapping[str, _Parsed]) -> Artifact:
    waiting = pending.get(parent)
    if waiting is not None and waiting.artifact is not None:
        return waiting.artifact
    if store.locate(parent) is None:
        hint = "admit what it was made from first, or in the same command before it"
        raise ArtifactRejected(f"its source {parent} is not here", code=PARENT_MISSING, hint=hint)
    return store.read(parent)


def _check_blobs(store: Store, request: ToolRequest, brought: Container[str]) -> None:
    for item in request.inputs:
        digest = digest_of(item.artifact)
        known = not item.artifact.startswith("blob-") or digest in brought
        if not known and not store.has_blob(digest):
            raise ArtifactRejected(f"input {item.name} is not here", code=BLOB_MISSING)
    why = request.why_not_monty
    if why is not None and why.refusal is not None and not was_refused(store, why.refusal.record):
        raise reject(ArtifactReason.REFUSAL, "Monty never refused this code here")


def admit_request(store: Store, request: ToolRequest, *, blobs: Sequence[bytes]) -> str:
    """Store an operator's request and the raw bytes it brings, all or nothing; return its id.

    Raises `ArtifactRejected`, and then nothing was stored.
    """
    data = registry.emit(request)
    registry.parse(Untrusted(data))
    request_id = make_id("tr", data)
    brought = {sha256_hex(blob): blob for blob in blobs}
    with store.locked() as journal:
        refuse_gone(store, request_id)
        for digest in brought:
            refuse_forgotten(store, digest)
        check_in_place(store, request, {}, brought)
        new = [digest for digest in brought if not store.has_blob(digest)]
        acts: list[Act] = [Put(states.BLOBS, digest, brought[digest]) for digest in new]
        acts.append(Put(destination(request, "tr"), f"{request_id}.md", data))
        journal.run("request", acts)
    return request_id


def admit_answer(
    store: Store,
    analysis: Analysis,
    drafts: Sequence[Request],
    *,
    detail: Mapping[str, Any],
) -> tuple[str, tuple[str, ...]]:
    """Store an analysis and the drafts of the same run, all or nothing; return their ids.

    Drafts may name the analysis as a source.  Raises `ArtifactRejected`, and then nothing was
    stored.
    """
    parsed = [_parse(Untrusted(registry.emit(one)), None) for one in (analysis, *drafts)]
    pending: dict[str, _Parsed] = {}
    with store.locked() as journal:
        for item in parsed:
            if item.error is not None:
                raise item.error
            assert item.id is not None
            assert item.artifact is not None
            refuse_gone(store, item.id)
            check_in_place(store, item.artifact, pending)
            pending[item.id] = item
        journal.run("ask", [_accept(key, item) for key, item in pending.items()], detail)
    first, *rest = pending
    return first, tuple(rest)


def destination(artifact: Artifact, prefix: str) -> str:
    """Return the directory of a new artifact; requests by CORE start as drafts."""
    if prefix in ("fr", "tr"):
        origin = getattr(artifact, "origin", "core")
        return states.directory_of(prefix, "held" if origin == "operator" else "draft")
    return states.directory_of(prefix, "accepted")


def _accept(item_id: str, item: _Parsed) -> Put:
    assert item.artifact is not None
    prefix = item_id.partition("-")[0]
    return Put(destination(item.artifact, prefix), f"{item_id}.md", item.data)


def _quarantine(
    store: Store, refused: dict[str, tuple[_Parsed, ArtifactRejected]], now: str
) -> tuple[list[Act], dict[str, str]]:
    acts: list[Act] = []
    codes: dict[str, str] = {}
    for digest, (item, error) in refused.items():
        if store.holds(states.QUARANTINE, f"{digest}.bytes"):
            continue
        acts.append(Put(states.QUARANTINE, f"{digest}.bytes", item.offered))
        acts.append(Put(states.QUARANTINE, f"{digest}.why.json", why_file(error, now)))
        codes[digest] = error.code
    return acts, codes


def quarantine_pieces(
    store: Store, pieces: Sequence[bytes], error: ArtifactRejected, now: str
) -> None:
    """Keep everything of a refused item with the reason, except what was forgotten here."""
    kept = {sha256_hex(data): data for data in pieces}
    why, acts = why_file(error, now), list[Act]()
    with store.locked() as journal:
        for digest, data in kept.items():
            there = store.holds(states.QUARANTINE, f"{digest}.bytes")
            if there or is_forgotten(store, digest):
                continue
            acts.append(Put(states.QUARANTINE, f"{digest}.bytes", data))
            acts.append(Put(states.QUARANTINE, f"{digest}.why.json", why))
        if acts:
            journal.run("quarantine", acts, dict.fromkeys(kept, error.code))


def is_forgotten(store: Store, digest: str) -> bool:
    """Tell whether bytes were forgotten here: keeping them would undo that."""
    try:
        refuse_forgotten(store, digest)
    except ArtifactRejected:
        return True
    return False


def why_file(error: ArtifactRejected, now: str) -> bytes:
    """Return the record that lies next to quarantined bytes."""
    record = {"code": error.code, "format": "why/1", "reason": error.message, "time": now}
    return canonical.encode(record)
