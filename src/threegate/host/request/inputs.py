"""The inputs of a request: files become raw bytes stored by digest, artifacts are named.

`ID:raw` names the raw bytes of a packet instead of the packet: the data file that it describes.

SECURITY
    Opens files that the operator names, which may be traps, and reads no more than policy lets a
    run be given.  The name of an uploaded file is never opened.  A result named here is data: it
    must exist, it keeps its labels, and nothing turns it into code.  Raw bytes of a packet bring
    the packet's labels, and the request is derived from it.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from math import isfinite
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from threegate.artifacts import media_types, registry
from threegate.artifacts.ids import ID_HINT, is_short_id, prefix_of, sha256_hex
from threegate.artifacts.labels import LOWEST, Labels
from threegate.artifacts.reasons import rejection
from threegate.artifacts.registry import Artifact
from threegate.artifacts.research_packet import ResearchPacket
from threegate.base import canonical
from threegate.base.errors import ArtifactRejected, PolicyDenied, UsageError
from threegate.base.forms import IDENTIFIER
from threegate.base.schema import Mismatch
from threegate.base.text import quote, visible
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.host.workspace.offered_files import named, read_regular
from threegate.host.workspace.places import refuse_absent, resolve
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_read
from threegate.policy.decision import Deny
from threegate.policy.leaves import BYTES

# A file that the operator names, as the JSON document that a program is given.
#
# A `.json` file stays byte for byte; any other text becomes one JSON string.
#
# SECURITY: somebody else may have written the file. A document is refused if two readers could see
# two values in it: repeated keys, NaN, numbers that no float holds, half a surrogate pair. If this
# is wrong, a program is given another value than the one the operator looked at.

MAX_DEPTH: Final = 100  # the interpreter's own parser stops at 200
# Two bytes spell a list of a hundred in memory: `[],[],[]` of 32 MiB would take a gigabyte.
MAX_CONTAINERS: Final = 2_000_000
_ARTIFACT_HEAD: Final = b'---\nformat: "'


class NotADocument(ValueError):
    """Why a file cannot be an input, in our words."""


def document_of(name: str, data: Untrusted[bytes]) -> bytes:
    """Return the JSON document for a file of this name, or raise `NotADocument`."""
    untrusted = data.open_for_validation()
    try:
        text = untrusted.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise NotADocument(f"not UTF-8 at byte {exc.start}") from exc
    if not name.lower().endswith(".json"):
        return canonical.encode(text)
    check_json(text)
    return untrusted


def looks_like_artifact(data: Untrusted[bytes]) -> bool:
    """Tell whether a file is a copy of an artifact, which has labels that a file has not."""
    return data.open_for_validation().startswith(_ARTIFACT_HEAD)


def check_json(text: str) -> None:
    """Raise `NotADocument` unless `text` is JSON that every reader reads alike."""
    if text.count("[") + text.count("{") > MAX_CONTAINERS:
        raise NotADocument(f"more than {MAX_CONTAINERS} lists and objects")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as exc:
        raise NotADocument(f"not JSON at line {exc.lineno}, column {exc.colno}") from exc
    except RecursionError as exc:  # "[" * 100_000
        raise NotADocument(f"nested more than {MAX_DEPTH} deep") from exc
    except NotADocument:
        raise
    except ValueError as exc:  # an integer of more digits than Python reads
        raise NotADocument("a number with too many digits") from exc
    _check_value(value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # Counted once: looking for each key again took hours for an object of a million keys.
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key in counts if counts[key] > 1)
        raise NotADocument(f"key {quote(twice)} stands twice in one object")
    return found


def _constant(token: str) -> Any:
    raise NotADocument(f"{token} is not JSON")


def _check_value(value: Any) -> None:
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, str):
            _check_text(item)
        elif isinstance(item, float):
            if not isfinite(item):
                raise NotADocument("a number larger than any float")
        elif isinstance(item, dict | list):
            if depth >= MAX_DEPTH:
                raise NotADocument(f"nested more than {MAX_DEPTH} deep")
            parts = item if isinstance(item, list) else [*item, *item.values()]
            waiting += [(part, depth + 1) for part in parts]


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise NotADocument("half a surrogate pair") from exc


MAX_FILE_CHARS = 200
DATA_KINDS = ("rp", "res", "an")
RAW: Final = ":raw"  # after the id of a packet


@dataclass(frozen=True, slots=True)
class Brought:
    """One input: the name the code sees, what it is, and its bytes if they are new here."""

    name: str
    artifact: str
    size: int
    labels: Labels
    blob: bytes | None = None
    file: str | None = None  # its name without the folder; foreign
    packet: str | None = None  # the packet whose raw bytes it is

    def plain(self) -> dict[str, Any]:
        """Return the entry of the request."""
        entry = {"name": self.name, "artifact": self.artifact, "bytes": self.size}
        return {**entry, "file": self.file}


@dataclass(frozen=True, slots=True)
class InputFiles:
    """A file that was uploaded with the request: its name is text and is never opened."""

    name: str
    filename: str  # foreign; its end says whether it is JSON
    data: Untrusted[bytes]


def split_pair(option: str, text: str) -> tuple[str, str]:
    """Return both sides of NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise UsageError(f"{option} {quote(text)} is not NAME=VALUE")
    return name, value


def read_inputs(
    ws: Workspace, backend: str, stated: Sequence[str], handed: Sequence[InputFiles] = ()
) -> list[Brought]:
    """Return every input, or raise for the first that cannot be one; nothing is stored."""
    found: dict[str, Brought] = {}
    left = ws.bundle.integer(*_most(backend))
    pairs: list[tuple[str, str | InputFiles]] = [split_pair("--input", text) for text in stated]
    for name, value in [*pairs, *((one.name, one) for one in handed)]:
        check_name(name)
        if name in found:
            raise UsageError(f"--input {name} is given twice")
        one = _brought(ws, backend, name, value, left)
        left -= one.size
        if left < 0:
            raise _too_much(ws, backend)
        found[name] = one
    return [found[name] for name in sorted(found)]


def _brought(ws: Workspace, backend: str, name: str, value: str | InputFiles, left: int) -> Brought:
    if isinstance(value, str) and is_short_id(value):
        return _artifact(ws, name, value)
    if isinstance(value, str) and is_short_id(value.removesuffix(RAW)):
        with named(f"--input {name}={quote(value)}"):
            return _raw_bytes(ws, backend, name, value.removesuffix(RAW), left)
    spelled = value if isinstance(value, str) else value.filename
    with named(f"--input {name}={quote(spelled)}"):
        data = value.data if isinstance(value, InputFiles) else _opened(ws, backend, value, left)
        if len(data.open_for_validation()) > left:
            raise _too_much(ws, backend)
        blob = _blob(backend, spelled, data)
    # Not the folder: a request may be given to others, and whose home it was is not theirs to know.
    file = visible(os.path.basename(spelled))[:MAX_FILE_CHARS] or None
    return Brought(name, f"blob-{sha256_hex(blob)}", len(blob), LOWEST, blob, file)


def largest_input(bundle: Bundle) -> int:
    """Return the most that any lane in use takes as input, in bytes."""
    lanes = bundle.words("tool-exec", "lanes")
    used = [one for one in lanes if bundle.text("tool-exec", "lanes", one, "enabled") == "yes"]
    return max((bundle.integer(*_most(one)) for one in used), default=0)


def _most(backend: str) -> tuple[str, ...]:
    return ("tool-exec", "lanes", backend, "max", "input_bytes")


def check_name(name: str) -> None:
    """Raise `UsageError` unless code can refer to an input by this name."""
    try:
        IDENTIFIER.build(name)
    except Mismatch as exc:
        raise UsageError(f"the name of an input {rejection(exc).message}") from exc
    if iskeyword(name):
        raise UsageError(f"no input can be called {name}: it is a word of the language")
    if name.startswith("__"):  # approved, it would end as `refused:input`
        raise UsageError(f"no input can be called {name}: such names are the interpreter's")


def _artifact(ws: Workspace, name: str, value: str) -> Brought:
    artifact_id = resolve(ws.store, value)
    if prefix_of(artifact_id) not in DATA_KINDS:
        hint = f"an input is a file, or an artifact of kind {', '.join(DATA_KINDS)}"
        raise UsageError(f"{quote(value)} is not data", hint=hint)
    artifact = _readable(ws, name, artifact_id)
    size = len(registry.emit(artifact))
    return Brought(name, artifact_id, size, registry.labels_of(artifact))


def _readable(ws: Workspace, name: str, artifact_id: str) -> Artifact:
    """Return an artifact that is here and that policy lets a run read."""
    refuse_absent(ws.store, artifact_id)
    decision = may_read(ws.bundle, "tool-exec", prefix_of(artifact_id))
    if isinstance(decision, Deny):
        raise decision.error(f"input {name}")
    return ws.store.read(artifact_id)


def _raw_bytes(ws: Workspace, backend: str, name: str, value: str, left: int) -> Brought:
    """Return the raw bytes of a packet as an input of its own."""
    packet = _readable(ws, name, packet_id := resolve(ws.store, value))
    if not isinstance(packet, ResearchPacket):
        raise UsageError("only a research packet has raw bytes", hint=f"leave out `{RAW}`")
    if not ws.store.has_blob(packet.raw_sha256):
        hint = f"import or fetch it again, or give the packet itself: leave out `{RAW}`"
        raise UsageError("its raw bytes are not here", hint=hint)
    if packet.raw_bytes > left:
        raise _too_much(ws, backend)
    filename = unquote(packet.url.rpartition("/")[2].removeprefix("file:"))
    spelled = f"{filename}.json" if packet.media_type == media_types.JSON else filename
    data = Untrusted(ws.store.read_file(states.BLOBS, packet.raw_sha256))
    blob = _blob(backend, spelled, data)
    digest = sha256_hex(blob)
    return Brought(
        name,
        f"blob-{digest}",
        len(blob),
        registry.labels_of(packet),
        None if digest == packet.raw_sha256 else blob,  # the one that is here already
        visible(filename)[:MAX_FILE_CHARS] or None,
        packet_id,
    )


def _opened(ws: Workspace, backend: str, value: str, left: int) -> Untrusted[bytes]:
    if _lies_in(value, ws.root / states.HANDOFF):
        hint = "give the id of the artifact it belongs to: a copy would lose its labels"
        raise UsageError("it lies in the workspace", hint=hint)
    try:
        return Untrusted(read_regular(value, most_bytes=left))
    except ArtifactRejected as exc:  # larger than what is left
        raise _too_much(ws, backend) from exc
    except UsageError as exc:
        if value.partition("-")[0] in DATA_KINDS and not os.path.lexists(value):
            raise UsageError(exc.message, code=exc.code, hint=ID_HINT) from exc
        raise


def _blob(backend: str, filename: str, data: Untrusted[bytes]) -> bytes:
    if looks_like_artifact(data):
        hint = "`threegate admit` it and give its id: a copy would lose its labels"
        raise UsageError("it is an artifact", hint=hint)
    if backend == "era":  # the heavy lane gets files as they are; Monty has none and gets values
        return data.open_for_validation()
    try:
        return document_of(filename, data)
    except NotADocument as exc:
        hint = "the lite lane takes JSON and UTF-8 text; save it as one, or use the heavy lane"
        raise ArtifactRejected(str(exc), code="TG-REQ-002", hint=hint) from exc


def _lies_in(name: str, directory: Path) -> bool:
    try:
        return Path(name).resolve().is_relative_to(directory.resolve())
    except (OSError, ValueError, RuntimeError):  # opening it says why
        return False


def _too_much(ws: Workspace, backend: str) -> PolicyDenied:
    path = _most(backend)
    most = BYTES.show(ws.bundle.integer(*path))
    hint = "split the work, or raise it there and `threegate policy apply`"
    detail = f"the inputs together are above the {most} of {ws.bundle.ref(*path)}"
    return PolicyDenied(detail, hint=hint)
