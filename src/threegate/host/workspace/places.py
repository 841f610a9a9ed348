"""Places of artifacts: their state, quarantine or tombstone, and the raw bytes they name.

SECURITY
    Reads quarantined bytes, some of them made to attack their reader.  They stay boxed; only the
    code that spells out every character opens the box.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from threegate.artifacts import registry
from threegate.artifacts.ids import (
    ID_HINT,
    MIN_SHORT_DIGITS,
    TOO_SHORT_HINT,
    digest_of,
    is_digest,
    is_id,
    is_short_id,
    is_too_short_id,
    prefix_of,
    short,
)
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.tool_request import ToolRequest
from threegate.artifacts.tool_result import ToolResult
from threegate.base import canonical
from threegate.base.errors import ArtifactRejected, HandoffTampered, UsageError
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.disk import check_file
from threegate.handoff.store import Store
from threegate.host.workspace.kinds import LISTINGS


def place_of(store: Store, artifact_id: str) -> str | None:
    """Return the directory of an artifact, its state or quarantine, or None."""
    found = store.locate(artifact_id)
    if found is None and store.holds(states.QUARANTINE, f"{artifact_id}.md"):
        return states.QUARANTINE
    return found


def is_forgotten(store: Store, artifact_id: str) -> bool:
    """Tell whether an artifact has a tombstone."""
    return store.holds(states.TOMBSTONES, f"{artifact_id}.json")


def resolve(store: Store, text: str) -> str:
    """Return the full id for an id or a short form of anything that is or was here.

    Raises `UsageError`.  `Store.resolve` finds only what is in a state.
    """
    if is_id(text):
        return text
    if not is_short_id(text):
        if is_too_short_id(text):
            raise UsageError(f"{quote(text)} is too short for an id", hint=TOO_SHORT_HINT)
        raise UsageError(f"{quote(text)} is not an artifact id", hint=ID_HINT)
    found = {known for known in _known(store, prefix_of(text)) if known.startswith(text)}
    if not found:
        raise UsageError(f"no artifact {quote(text)} in this workspace", hint=_listing(text))
    if len(found) > 1:
        raise UsageError(f"{quote(text)} is the start of {len(found)} ids; give more digits")
    return found.pop()


def refuse_absent(store: Store, artifact_id: str) -> None:
    """Raise `UsageError` unless an artifact is in a state; the error says where it went."""
    if store.locate(artifact_id) is not None:
        return
    if place_of(store, artifact_id) is not None:
        hint = f"`threegate quarantine show {short(artifact_id)}`"
        raise UsageError(f"{artifact_id} was withdrawn here", hint=hint)
    if is_forgotten(store, artifact_id):
        hint = f"`threegate audit show {short(artifact_id)}` says when"
        raise UsageError(f"{artifact_id} was forgotten here", hint=hint)
    raise UsageError(f"no artifact {artifact_id} in this workspace", hint=_listing(artifact_id))


def resolve_blob(store: Store, text: str) -> str:
    """Return the digest of raw or quarantined bytes for it or its start; raise `UsageError`."""
    if is_digest(text):
        return text
    if len(text) < MIN_SHORT_DIGITS:
        detail = f"{quote(text)} has less than {MIN_SHORT_DIGITS} digits"
        raise UsageError(detail, hint=TOO_SHORT_HINT)
    names = (name for place in (states.QUARANTINE, states.BLOBS) for name in store.names(place))
    digests = {name.partition(".")[0] for name in names}
    found = [digest for digest in digests if is_digest(digest) and digest.startswith(text)]
    if len(found) != 1:
        how = "no raw or quarantined bytes are" if not found else f"{len(found)} are"
        hint = "`threegate quarantine list` shows what was refused"
        raise UsageError(f"{how} called {quote(text)}", hint=hint)
    return found[0]


def _listing(artifact_id: str) -> str:
    words = [word for word, kinds in LISTINGS.items() if prefix_of(artifact_id) in kinds]
    return f"`threegate {words[0]} list` shows what is here" if words else ""


def _known(store: Store, prefix: str) -> Iterator[str]:
    yield from store.ids(prefix)
    for directory, suffix in ((states.QUARANTINE, ".md"), (states.TOMBSTONES, ".json")):
        for name in store.names(directory):
            if name.endswith(suffix) and is_id(name.removesuffix(suffix)):
                yield name.removesuffix(suffix)


def quarantined(store: Store, artifact_id: str) -> Artifact | None:
    """Return a withdrawn artifact, parsed again, or None if it is not in quarantine."""
    name = f"{artifact_id}.md"
    if not store.holds(states.QUARANTINE, name):
        return None
    try:
        return registry.parse(Untrusted(store.read_file(states.QUARANTINE, name)))
    except ArtifactRejected as exc:
        raise HandoffTampered(f"{artifact_id} does not parse: {exc.message}") from exc


def read_anywhere(store: Store, artifact_id: str) -> Artifact | None:
    """Return an artifact from its state or from quarantine, or None if its bytes are gone."""
    if store.locate(artifact_id) is None:
        return quarantined(store, artifact_id)
    return store.read(artifact_id)


class ArtifactReader:
    """Reads each artifact once: an answer may cite one source hundreds of times."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Artifact | None] = {}

    def __call__(self, artifact_id: str) -> Artifact | None:
        """Return an artifact, or None if its bytes are gone."""
        if artifact_id not in self._known:
            self._known[artifact_id] = read_anywhere(self._store, artifact_id)
        return self._known[artifact_id]


def blobs_of(artifact: Artifact) -> tuple[str, ...]:
    """Return the digests of the raw bytes an artifact names, kept or not."""
    found: set[str] = set()
    if isinstance(artifact, ResearchPacket):
        found = {artifact.raw_sha256, *(item.sha256 for item in artifact.also)}
        if artifact.record_sha256 is not None:
            found.add(artifact.record_sha256)
    elif isinstance(artifact, ToolRequest):
        named = (item.artifact.partition("-") for item in artifact.inputs)
        found = {digest for kind, _, digest in named if kind == "blob"}
        why = artifact.why_not_monty
        if why is not None and why.refusal is not None:
            found.add(why.refusal.record)
    elif isinstance(artifact, ToolResult):
        captures = (artifact.value, artifact.stdout, artifact.stderr)
        found = {file.sha256 for file in artifact.files}
        found |= {capture.sha256 for capture in captures}
    return tuple(sorted(found))


_WHY = ".why.json"
_WITHDRAWN = ".withdrawn.json"
_KEPT = (".bytes", ".md")  # all other files belong to one of these


@dataclass(frozen=True, slots=True)
class QuarantinedItem:
    """One item in quarantine; the reason is ours, with foreign parts quoted."""

    name: str  # of its file
    sha256: str
    id: str | None  # of an artifact that was withdrawn
    bytes: int
    time: str
    code: str
    reason: str

    @property
    def short(self) -> str:
        """Return the form for people."""
        return short(self.id) if self.id else self.sha256[:MIN_SHORT_DIGITS]


def list_quarantined(store: Store) -> list[QuarantinedItem]:
    """Return everything in quarantine, newest first."""
    found = [_item(store, name) for name in _names(store)]
    return sorted(found, key=lambda item: (item.time, item.sha256), reverse=True)


def find_quarantined(store: Store, text: str) -> QuarantinedItem:
    """Return the one item a digest, an id or the start of one names."""
    if len(text.rpartition("-")[2]) < MIN_SHORT_DIGITS:
        raise UsageError(f"{quote(text)} has less than {MIN_SHORT_DIGITS} digits")
    found = [name for name in _names(store) if name.startswith(text)]
    if len(found) != 1:
        how = "nothing" if not found else f"{len(found)} items"
        raise UsageError(f"{how} in quarantine called {quote(text)}")
    return _item(store, found[0])


def read_quarantined(store: Store, item: QuarantinedItem) -> Untrusted[bytes]:
    """Return the bytes of an item."""
    return Untrusted(store.read_file(states.QUARANTINE, item.name))


def _names(store: Store) -> Iterator[str]:
    return (name for name in store.names(states.QUARANTINE) if name.endswith(_KEPT))


def _item(store: Store, name: str) -> QuarantinedItem:
    stem = name.rpartition(".")[0]
    digest = digest_of(stem) if is_id(stem) else stem
    why = _why(store, stem + _WITHDRAWN) if is_id(stem) else {}
    why = why or _why(store, digest + _WHY)
    return QuarantinedItem(
        name=name,
        sha256=digest,
        id=stem if is_id(stem) else None,
        bytes=check_file(store.directories.fd(states.QUARANTINE), name) or 0,
        time=str(why.get("time", "")),
        code=str(why.get("code", "")),
        reason=str(why.get("reason", "")),
    )


def _why(store: Store, name: str) -> Mapping[str, Any]:
    try:
        value = canonical.decode(store.read_file(states.QUARANTINE, name))
    except FileNotFoundError:
        return {}
    except ValueError as exc:
        raise HandoffTampered(f"the reason in {name} is not readable") from exc
    return value if isinstance(value, dict) else {}
