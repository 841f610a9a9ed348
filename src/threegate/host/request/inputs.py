"""The data of a request: files become raw bytes kept by digest, artifacts are named.

SECURITY
    Opens whatever the operator names, which may be a trap somebody laid; never more of it
    than policy lets a run be given.  A file that was handed over has a name that is opened
    nowhere.  A result named here is data: it must exist, it keeps its labels, and nothing
    turns it into code.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Any

from threegate.artifacts import registry
from threegate.artifacts.ids import ID_HINT, is_short_id, prefix_of, sha256_hex
from threegate.artifacts.labels import LOWEST, Labels
from threegate.artifacts.reasons import rejection
from threegate.base.errors import ArtifactRejected, PolicyDenied, UsageError
from threegate.base.forms import IDENTIFIER
from threegate.base.schema import Mismatch
from threegate.base.text import quote, visible
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.host.request.documents import NotADocument, document_of, looks_like_artifact
from threegate.host.request.options import split_pair
from threegate.host.workspace.offered_files import named, read_regular
from threegate.host.workspace.places import refuse_absent, resolve
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_read
from threegate.policy.decision import Deny
from threegate.policy.leaves import BYTES

MAX_FILE_CHARS = 200
DATA_KINDS = ("rp", "res", "an")


@dataclass(frozen=True, slots=True)
class Brought:
    """One input: the name the code sees, what it is, and its bytes if they are new here."""

    name: str
    artifact: str
    size: int
    labels: Labels
    blob: bytes | None = None
    file: str | None = None  # its name without the folder; foreign

    def plain(self) -> dict[str, Any]:
        """Return the entry of the request."""
        entry = {"name": self.name, "artifact": self.artifact, "bytes": self.size}
        return {**entry, "file": self.file}


@dataclass(frozen=True, slots=True)
class Handed:
    """A file that was handed over with the wish: its name is a text, and nothing is opened."""

    name: str
    filename: str  # foreign; its end says whether it is JSON
    data: Untrusted[bytes]


def read_inputs(
    ws: Workspace, backend: str, stated: Sequence[str], handed: Sequence[Handed] = ()
) -> list[Brought]:
    """Return every input, or raise for the first that cannot be one; nothing is stored."""
    found: dict[str, Brought] = {}
    left = ws.bundle.integer(*_most(backend))
    pairs: list[tuple[str, str | Handed]] = [split_pair("--input", text) for text in stated]
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


def _brought(ws: Workspace, backend: str, name: str, value: str | Handed, left: int) -> Brought:
    if isinstance(value, str) and is_short_id(value):
        return _artifact(ws, name, value)
    spelled = value if isinstance(value, str) else value.filename
    with named(f"--input {name}={quote(spelled)}"):
        data = value.data if isinstance(value, Handed) else _opened(ws, backend, value, left)
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
    refuse_absent(ws.store, artifact_id)
    decision = may_read(ws.bundle, "tool-exec", prefix_of(artifact_id))
    if isinstance(decision, Deny):
        raise decision.error(f"input {name}")
    artifact = ws.store.read(artifact_id)
    size = len(registry.emit(artifact))
    return Brought(name, artifact_id, size, registry.labels_of(artifact))


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
        hint = "a .json file holds one JSON document, any other file UTF-8 text"
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
