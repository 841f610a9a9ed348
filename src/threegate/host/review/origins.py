"""Where a request comes from: its inputs, and the packets and hosts it goes back to.

SECURITY
    Opens foreign titles and questions for display only.  Reads each artifact again from its
    file; one that is gone is named as missing, never left out.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from threegate.artifacts import registry
from threegate.artifacts.analysis import Analysis
from threegate.artifacts.ids import digest_of, prefix_of, short
from threegate.artifacts.registry import Artifact, Request
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import Input, ToolRequest
from threegate.artifacts.tool_result import ToolResult
from threegate.errors import UsageError
from threegate.handoff import states
from threegate.handoff.disk import check_file, read_start
from threegate.handoff.store import Store
from threegate.host.cautions import cautions
from threegate.host.places import blobs_of
from threegate.host.review.parts import Given, Source, Sources
from threegate.policy.hosts import parse_url
from threegate.policy.kinds import KINDS

MAX_WALKED: Final = 4000  # as many as a request may name, and as many behind those

TELLING_BYTES: Final = 64  # fewer are the same by chance

Read = Callable[[str], Artifact | None]
Holders = Callable[[str], Sequence[str]]  # ids of the artifacts that may name raw bytes


def nobody(_: str) -> Sequence[str]:
    """Say that no artifact is known to name any bytes."""
    return ()


def reader(store: Store) -> Read:
    """Return how artifacts of a store are read here: None for one that is not there."""

    def read(artifact_id: str) -> Artifact | None:
        try:
            return store.read(artifact_id)
        except UsageError:  # withdrawn or forgotten
            return None

    return read


def sources_of(request: Request, read: Read) -> Sources:
    """Return everything a request goes back to, research packets first."""
    found: list[Source] = []
    missing: list[str] = []
    waiting, seen = list(request.parents()), set(request.parents())
    walked = 0
    while waiting and walked < MAX_WALKED:
        walked += 1
        artifact_id = waiting.pop(0)
        artifact = read(artifact_id)
        if artifact is None:
            missing.append(artifact_id)
            continue
        found.append(_source(artifact_id, artifact))
        # A packet names the request that asked for it: that is its history, not its content.
        parents = () if isinstance(artifact, ResearchPacket) else artifact.parents()
        for parent in parents:
            if parent not in seen and prefix_of(parent) != "ap":
                seen.add(parent)
                waiting.append(parent)
    found.sort(key=lambda source: (not source.id.startswith("rp-"), source.host, source.id))
    return Sources(tuple(found), tuple(missing), len(waiting))


def _source(artifact_id: str, artifact: Artifact) -> Source:
    kind = KINDS[prefix_of(artifact_id)]
    if isinstance(artifact, ResearchPacket):
        title = artifact.title.open_for_display() or artifact.reference.open_for_display()
        return Source(artifact_id, kind, host_of(artifact.url), title, tuple(_remarks(artifact)))
    return Source(artifact_id, kind, "", described(artifact), ())


def _remarks(packet: ResearchPacket) -> Iterator[str]:
    yield from cautions(packet)
    worrying = ("hidden-text", "injection-like", "invisible", "bidi", "confusable")
    for hazard in packet.hazards:
        if hazard.name in worrying:
            yield f"{hazard.count} x {hazard.name}"


def host_of(url: str) -> str:
    """Return the host of a packet's final URL."""
    try:
        return parse_url(url).host
    except ValueError:  # the format of packets admits more than may be asked for
        return url.removeprefix("https://").partition("/")[0]


def described(artifact: Artifact) -> str:
    """Return one line about an artifact; foreign text."""
    if isinstance(artifact, Analysis):
        return artifact.question.open_for_display().partition("\n")[0]
    if isinstance(artifact, ToolResult):
        return f"{artifact.exit}, of {artifact.request}"
    purpose = getattr(artifact, "purpose", None)
    return "" if purpose is None else str(purpose.open_for_display().partition("\n")[0])


def inputs_of(
    request: ToolRequest, store: Store, read: Read, holders: Holders = nobody
) -> Iterator[Given]:
    """Yield each input with its kind and origin."""
    for item in request.inputs:
        if item.artifact.startswith("blob-"):
            yield _blob(request, item, store, tuple(_sources_of_bytes(item, read, holders)))
        else:
            yield _artifact(item, read)


def _artifact(item: Input, read: Read) -> Given:
    kind, artifact = KINDS[prefix_of(item.artifact)], read(item.artifact)
    if artifact is None:
        return Given(item.name, item.artifact, item.bytes, kind, "", "is not here any more")
    origin = described(artifact)
    if isinstance(artifact, ResearchPacket):
        origin = f"{host_of(artifact.url)}, {artifact.title.open_for_display()}"
    problem = _other_size(item, len(registry.emit(artifact)))
    return Given(item.name, item.artifact, item.bytes, kind, origin, problem)


def _sources_of_bytes(item: Input, read: Read, holders: Holders) -> Iterator[tuple[str, Artifact]]:
    """Yield the packets and results whose bytes an input is, whatever it calls itself."""
    digest = digest_of(item.artifact)
    for artifact_id in holders(digest):
        artifact = read(artifact_id) if prefix_of(artifact_id) in ("rp", "res") else None
        if artifact is not None and digest in blobs_of(artifact):
            yield artifact_id, artifact


def _blob(
    request: ToolRequest, item: Input, store: Store, sources: Sequence[tuple[str, Artifact]]
) -> Given:
    digest, directory = digest_of(item.artifact), store.directories.fd(states.BLOBS)
    size = check_file(directory, digest)
    if size is None:
        return Given(item.name, item.artifact, item.bytes, "file", "", "is not here any more")
    # Whole and checked by digest when it is run; a listing must not read gigabytes.
    first = read_start(directory, digest, 1)
    kinds = {b'"': "text", b"[": "list", b"{": "object"}
    kind = f"file, {kinds.get(first, 'value')}"
    origin, problem = "brought by the operator", _other_size(item, size)
    if request.origin != "operator":
        origin = "raw bytes that are kept here"
    for artifact_id, artifact in sources if size >= TELLING_BYTES else ():
        origin = f"the bytes of {short(artifact_id)}"
        labels = registry.labels_of(artifact)
        if not registry.labels_of(request).covers(labels):
            words = f"{labels.integrity} and {labels.confidentiality}"
            problem = f"is {words} as part of {short(artifact_id)}, and the request is not"
    return Given(item.name, item.artifact, item.bytes, kind, origin, problem)


def _other_size(item: Input, size: int) -> str:
    return "" if size == item.bytes else f"has {size} bytes"
