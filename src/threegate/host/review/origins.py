"""Where a request comes from and what it could carry out: inputs, sources, and references.

A URL is an outbound channel: its author writes to its server.  So each part of a reference is
shown decoded, with the number of bits its characters could hold, and a remark if it does not look
like words.

SECURITY
    Opens foreign titles and questions for display only.  Reads each artifact again from its
    file; a missing one is listed as missing, never left out.  CORE may have written references
    under the influence of hostile text: nothing is resolved or opened, and remarks are hints.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from threegate.artifacts import registry
from threegate.artifacts.ids import digest_of, prefix_of, sha256_hex, short
from threegate.artifacts.registry import Artifact, Request
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import Input, ToolRequest
from threegate.base import canonical
from threegate.base.errors import UsageError
from threegate.base.forms import KINDS
from threegate.base.text import quote
from threegate.handoff import states
from threegate.handoff.disk import check_file, read_start
from threegate.handoff.store import Store
from threegate.host.provenance.headlines import (
    BROUGHT,
    Lookup,
    Read,
    headline_for,
    lookup,
    own_words,
)
from threegate.host.review.parts import SheetInput, SheetSource, SheetSources
from threegate.host.workspace.packets import logged_origins
from threegate.host.workspace.places import blobs_of
from threegate.policy.hosts import parse_url

if TYPE_CHECKING:
    from threegate.host.workspace.index import Index
import math
import re
from collections import Counter
from itertools import pairwise
from urllib.parse import unquote

from threegate.host.review.parts import Component, SheetReference

MAX_WALKED: Final = 4000  # as many as a request may name, and as many behind those

TELLING_BYTES: Final = 64  # fewer are the same by chance

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


@dataclass(frozen=True, slots=True)
class SheetLookup(Lookup):
    """How a sheet learns of other artifacts; it also asks which ones name raw bytes."""

    holders: Holders = nobody


def sheet_lookup(store: Store, index: "Index | None") -> SheetLookup:
    """Return what a sheet is made with; without an index origins are read from the log."""
    if index is None:
        look = own_words(reader(store), logged_origins(store))
        return SheetLookup(look.read, look.origins, look.warned)
    look = lookup(reader(store), index)
    return SheetLookup(look.read, look.origins, look.warned, index.holders_of)


def sources_of(request: Request, look: SheetLookup) -> SheetSources:
    """Return everything a request goes back to, research packets first."""
    found: list[SheetSource] = []
    missing: list[str] = []
    waiting, seen = list(request.parents()), set(request.parents())
    walked = 0
    while waiting and walked < MAX_WALKED:
        walked += 1
        artifact_id = waiting.pop(0)
        artifact = look.read(artifact_id)
        if artifact is None:
            missing.append(artifact_id)
            continue
        found.append(_source(artifact_id, artifact, look))
        # A packet names the request that asked for it: that is its history, not its content.
        parents = () if isinstance(artifact, ResearchPacket) else artifact.parents()
        for parent in parents:
            if parent not in seen and prefix_of(parent) != "ap":
                seen.add(parent)
                waiting.append(parent)
    found.sort(key=lambda source: (not source.id.startswith("rp-"), source.host, source.id))
    return SheetSources(tuple(found), tuple(missing), len(waiting))


def _source(artifact_id: str, artifact: Artifact, look: Lookup) -> SheetSource:
    kind, headline = KINDS[prefix_of(artifact_id)], headline_for(artifact_id, artifact, look)
    if not isinstance(artifact, ResearchPacket):
        return SheetSource(artifact_id, kind, "", headline.text, (), headline.ours)
    origin = look.origins(artifact_id)
    # A brought packet came from no host, even if it names a URL.
    host = "" if origin.is_brought else host_of(artifact.url)
    remarks = tuple(_remarks(artifact, look.warned(artifact_id, artifact)))
    said = (headline.text, remarks, headline.ours)
    return SheetSource(artifact_id, kind, host, *said, brought=origin.is_brought)


def _remarks(packet: ResearchPacket, warned: tuple[str, ...]) -> Iterator[str]:
    # One flag speaks of all brought packets.
    yield from (text for text in warned if not text.startswith(BROUGHT))
    worrying = ("hidden-text", "injection-like", "invisible", "bidi", "confusable")
    for hazard in packet.hazards:
        if hazard.name in worrying:
            yield f"{hazard.count} x {hazard.name}"


def host_of(url: str) -> str:
    """Return the host of a packet's final URL."""
    if not url.startswith("https:"):
        return "an imported file"
    try:
        return parse_url(url).host
    except ValueError:  # the format of packets admits more than may be asked for
        return url.removeprefix("https://").partition("/")[0]


def inputs_of(request: ToolRequest, store: Store, look: SheetLookup) -> Iterator[SheetInput]:
    """Yield each input with its kind and origin."""
    for item in request.inputs:
        if item.artifact.startswith("blob-"):
            packet = _packet_of_bytes(request, item, store, look.read)
            sources = tuple(_sources_of_bytes(item, look.read, look.holders))
            found = _blob(request, item, store, sources)
            yield found if packet is None else replace(found, origin=packet, is_external=True)
        else:
            yield _artifact(item, look)


def _artifact(item: Input, look: Lookup) -> SheetInput:
    kind, artifact = KINDS[prefix_of(item.artifact)], look.read(item.artifact)
    if artifact is None:
        return SheetInput(item.name, item.artifact, item.bytes, kind, "", "is not here any more")
    headline, came = headline_for(item.artifact, artifact, look), look.origins(item.artifact)
    where = []
    if isinstance(artifact, ResearchPacket):
        where = [came.words if came.is_brought else host_of(artifact.url)]
    origin = ", ".join([*headline.ours, *where])
    problem = _other_size(item, len(registry.emit(artifact)))
    return SheetInput(item.name, item.artifact, item.bytes, kind, origin, problem, headline.text)


def _packet_of_bytes(request: ToolRequest, item: Input, store: Store, read: Read) -> str | None:
    """Return which packet an operator's request takes these bytes from; they are compared."""
    for artifact_id in request.derived_from if request.origin == "operator" else ():
        packet = read(artifact_id)
        if not isinstance(packet, ResearchPacket) or not store.has_blob(packet.raw_sha256):
            continue
        words = f"the raw bytes of {short(artifact_id)} ({quote(packet.url, 200)})"
        digest = digest_of(item.artifact)
        if digest == packet.raw_sha256:
            return words
        # The lite lane takes a text as one JSON string, which is never shorter.
        if request.backend == "monty" and packet.raw_bytes < item.bytes:
            raw = store.read_file(states.BLOBS, packet.raw_sha256)
            if digest == sha256_hex(canonical.encode(raw.decode("utf-8", "replace"))):
                return f"{words}, as one text"
    return None


def _sources_of_bytes(item: Input, read: Read, holders: Holders) -> Iterator[tuple[str, Artifact]]:
    """Yield the packets and results that have the bytes of an input, regardless of its name."""
    digest = digest_of(item.artifact)
    for artifact_id in holders(digest):
        artifact = read(artifact_id) if prefix_of(artifact_id) in ("rp", "res") else None
        if artifact is not None and digest in blobs_of(artifact):
            yield artifact_id, artifact


def _blob(
    request: ToolRequest, item: Input, store: Store, sources: Sequence[tuple[str, Artifact]]
) -> SheetInput:
    digest, directory = digest_of(item.artifact), store.directories.fd(states.BLOBS)
    size = check_file(directory, digest)
    if size is None:
        return SheetInput(item.name, item.artifact, item.bytes, "file", "", "is not here any more")
    # The run reads all of it and checks its digest; a listing must not read gigabytes.
    first = read_start(directory, digest, 1)
    kinds = {b'"': "text", b"[": "list", b"{": "object"}
    kind = f"file, {kinds.get(first, 'value')}"
    origin, problem = "brought by the operator", _other_size(item, size)
    if item.file is not None:
        origin = f"{quote(item.file.open_for_display(), 200)}, {origin}"
    if request.origin != "operator":
        origin = "raw bytes that are kept here"
    for artifact_id, artifact in sources if size >= TELLING_BYTES else ():
        origin = f"the bytes of {short(artifact_id)}"
        labels = registry.labels_of(artifact)
        if not registry.labels_of(request).covers(labels):
            words = f"{labels.integrity} and {labels.confidentiality}"
            problem = f"is {words} as part of {short(artifact_id)}, and the request is not"
    return SheetInput(item.name, item.artifact, item.bytes, kind, origin, problem)


def _other_size(item: Input, size: int) -> str:
    return "" if size == item.bytes else f"has {size} bytes"


# -- references ------------------------------------------------------------------------------

MIN_CHARS: Final = 16  # shorter parts carry little, and every identifier would be remarked on
MIXTURE: Final = 0.35  # share of neighbours of different classes; words have next to none
BITS_OF_CHANCE: Final = 4.5  # per character; English has about 4.1, random base64 5 and more

_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_NEEDLESS: Final = re.compile(r"%(?:4[1-9A-Fa-f]|5[0-9Aa]|6[1-9A-Fa-f]|7[0-9Aa]|3[0-9])")
_HEX: Final = re.compile(r"[0-9a-fA-F]{32,}")


def read_reference(text: str) -> SheetReference:
    """Return the parts of a reference; one that is not a URL is a single part."""
    try:
        url = parse_url(text)
    except ValueError:
        return SheetReference(text, "", (_component("reference", text),), bits(text))
    parts = [_component("host", url.host)]
    segments = [segment for segment in url.path.split("/") if segment]
    parts += [_component(f"path {number}", part) for number, part in enumerate(segments, 1)]
    pairs = url.query.split("&") if url.query else []
    parts += [_component(f"query {number}", pair) for number, pair in enumerate(pairs, 1)]
    return SheetReference(text, url.host, tuple(parts), bits(text.removeprefix("https://")))


def bits(text: str) -> int:
    """Return how many bits the characters of a text could hold, by their frequencies."""
    return round(_per_character(text) * len(text))


def looks_random(text: str) -> bool:
    """Tell whether a text looks more like encoded data than like words."""
    if len(text) < MIN_CHARS:
        return False
    return (
        _HEX.search(text) is not None
        or _mixture(text) >= MIXTURE
        or (" " not in text and _per_character(text) >= BITS_OF_CHANCE)
    )


def _per_character(text: str) -> float:
    counts = Counter(text).values()
    total = len(text)
    return -sum(count / total * math.log2(count / total) for count in counts) if total else 0.0


def _mixture(text: str) -> float:
    classes = [_class(character) for character in text if character.isalnum()]
    changes = sum(a != b for a, b in pairwise(classes))
    return changes / len(classes) if classes else 0.0


def _class(character: str) -> str:
    return "digit" if character.isdigit() else "upper" if character.isupper() else "lower"


def _component(where: str, raw: str) -> Component:
    decoded = unquote(raw, errors="backslashreplace")
    return Component(where, raw, decoded, bits(raw), _remark(where, raw, decoded))


def _remark(where: str, raw: str, decoded: str) -> str:
    if decoded != raw and _ENCODED.search(decoded):
        return "encoded twice"
    if _NEEDLESS.search(raw):
        return "letters or digits encoded without need"
    value = decoded.partition("=")[2] or decoded if where.startswith("query") else decoded
    labels = value.split(".") if where == "host" else [value]
    if any(looks_random(label) for label in labels):
        return "does not look like words: could carry data out"
    return ""
