"""The model that the policy names: how it is served, its sandbox, proofs that it runs no code.

A model that is not set, missing or different from the named one is an error with a hint.  There is
no fallback: another model would answer in the name of the signed one.

A model is not an executor, so no rule of the ring applies to it.  The log says so (`ring.no-op`)
only for a sandbox that tried to execute and to fork before it began and found both refused.
"""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.base.text import visible
from threegate.gates.model.messages import MAX_THREADS, SERVER_SOCKET, Bridged, Embedded, Remote
from threegate.host.models.catalogue import MODELS, Model, named_by_policy
from threegate.host.models.store import PULLING, Cache, Progress
from threegate.host.proxy.supervisor import LogWriter
from threegate.policy.bundle import Compiled
from threegate.policy.ring.compiler import NoOp, compile_no_op
from threegate.sandbox.launch import Evidence
from threegate.sandbox.profiles import BRIDGE, BRIDGE_SOCKET, MODEL_SERVER, Profile

NO_MODEL: Final = "TG-MDL-020"
NO_FILE: Final = "TG-MDL-021"
NO_SOCKET: Final = "TG-MDL-023"


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The model of a policy, with the settings of its server."""

    kind: str  # embedded | bridge | remote
    name: str
    sha256: str | None
    endpoint: str | None
    context_tokens: int
    deadline_seconds: int
    host: str | None = None  # of a model on another machine

    @property
    def server(self) -> str:
        """Return where it runs, as an analysis states it."""
        return self.kind if self.host is None else f"{self.kind}:{self.host}"


def chosen(policy: Compiled) -> ChosenModel:
    """Return the model the policy names; raise `GateUnavailable` if none can be served."""
    kind = policy.text("core", "model", "kind")
    rule = policy.ref("core", "model", "kind")
    if kind == "none":
        hint = "set `model` there, or ask with `--extractive`, which needs none"
        raise GateUnavailable(f"no model is set in {rule}", code=NO_MODEL, hint=hint)
    return ChosenModel(
        kind,
        policy.text("core", "model", "name"),
        _word(policy, "sha256"),
        _word(policy, "endpoint"),
        policy.integer("core", "model", "context_tokens"),
        policy.integer("core", "answer", "deadline_seconds"),
        _word(policy, "remote_host"),
    )


def model_file(model: ChosenModel, cache: Path) -> Path:
    """Return the file of an embedded model; raise `GateUnavailable`."""
    assert model.sha256 is not None
    path = cache / f"{model.sha256}.gguf"
    try:
        found = path.lstat()
    except OSError:
        found = None
    if found is None or not stat.S_ISREG(found.st_mode):
        detail = f"the model {visible(model.name)} is not on this machine"
        hint = f"`threegate model pull {visible(model.name)}` brings it, `model status` shows more"
        raise GateUnavailable(detail, code=NO_FILE, hint=hint)
    return path


def server_socket(model: ChosenModel) -> Path | None:
    """Return the socket of the operator's server, None if it has a port; or raise."""
    kind, _, place = (model.endpoint or "").partition(":")
    if kind != "unix":
        return None
    path = Path(place)
    try:
        there = stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        there = False
    if not there:
        hint = "start your model server, or correct `endpoint` in policy/core.policy.md"
        detail = f"there is no socket of a model server at {visible(place)}"
        raise GateUnavailable(detail, code=NO_SOCKET, hint=hint)
    return path


def threads() -> int:
    """Return the number of processors for a model: those of this process."""
    return max(1, min(len(os.sched_getaffinity(0)), MAX_THREADS))


def _word(policy: Compiled, key: str) -> str | None:
    found = policy.value("core", "model", key)
    assert found is None or isinstance(found, str)
    return found


# Models that the policy in force needs, and which parts of them are present.

ELSEWHERE: Final = "not kept here"


@dataclass(frozen=True, slots=True)
class Needed:
    """A model that a policy names; without `model` another server has it, or none."""

    use: str
    name: str
    sha256: str | None
    model: Model | None


def needed(policy: Compiled) -> tuple[Needed, ...]:
    """Return the models that the policy names: the one of CORE and the embedding model."""
    name, digest = policy.text("core", "model", "name"), policy.value("core", "model", "sha256")
    assert digest is None or isinstance(digest, str)
    own = named_by_policy(name, digest, "chat") if digest is not None else None
    texts = policy.text("core", "embedder", "name"), policy.text("core", "embedder", "sha256")
    kind, host = policy.text("core", "model", "kind"), policy.value("core", "model", "remote_host")
    where = kind if host is None else f"{kind}:{host}"
    return (
        Needed(f"answers ({where})", name, digest, own),
        Needed("vectors", *texts, named_by_policy(*texts, "embedding")),
    )


def states_of(models: Sequence[Needed], cache: Cache, progress: Progress) -> list[str]:
    """Return the state of each model: that of its worst file."""
    return [_state(need, cache, progress) for need in models]


def _state(need: Needed, cache: Cache, progress: Progress) -> str:
    if need.model is None:
        return ELSEWHERE
    found = [cache.state(file, progress) for file in need.model.files]
    return next((state for state in ("missing", "damaged") if state in found), "here")


def refuse_lacking(models: Sequence[Needed], states: Sequence[str]) -> None:
    """Raise `GateUnavailable` if one is missing or damaged."""
    for need, state in zip(models, states, strict=True):
        if state in ("missing", "damaged"):
            detail = f"the model {visible(need.name)} is {state}"
            hint = "`threegate model pull` brings it"
            raise GateUnavailable(detail, code=NO_FILE, hint=hint)


def strays(cache: Cache) -> list[str]:
    """Return the names of files of unknown models: another policy may need them."""
    known = {cache.path(file).name for model in MODELS for file in model.files}
    found: list[str] = []
    with suppress(OSError):
        found = sorted(set(os.listdir(cache.root)) - known - {PULLING})
    return found


# The sandbox that serves a model: what is bound into it, and its opening message.

Opening = Embedded | Bridged | Remote


@dataclass(frozen=True, slots=True)
class ModelBox:
    """How one model is served; `opening` takes the descriptor of CORE's socket."""

    profile: Profile
    opening: Callable[[int], Opening]
    given: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()


def box_of(model: ChosenModel, cache: Path) -> ModelBox:
    """Return the sandbox of a model on this machine; raise `GateUnavailable`."""
    if model.kind == "embedded":
        given = {"model-file": str(model_file(model, cache))}
        return ModelBox(MODEL_SERVER, lambda fd: _embedded(model, fd), given)
    socket = server_socket(model)
    if socket is not None:
        place = f"unix:{SERVER_SOCKET}"
        given = {"server": str(socket)}
        return ModelBox(BRIDGE_SOCKET, lambda fd: _bridged(model, fd, place), given)
    assert model.endpoint is not None
    port = int(model.endpoint.rpartition(":")[2])
    endpoint = model.endpoint
    return ModelBox(BRIDGE, lambda fd: _bridged(model, fd, endpoint), ports=(port,))


def _embedded(model: ChosenModel, fd: int) -> Embedded:
    assert model.sha256 is not None
    context, seconds = model.context_tokens, model.deadline_seconds
    return Embedded(fd, model.name, model.sha256, context, threads(), seconds)


def _bridged(model: ChosenModel, fd: int, endpoint: str) -> Bridged:
    return Bridged(fd, model.name, endpoint, model.context_tokens, model.deadline_seconds)


NO_OP: Final = "ring.no-op"  # the log entry, before anything is asked of the sandbox

Noted = Callable[[NoOp], None]


def no_op_of(evidence: Evidence) -> NoOp:
    """Return the no-op of a sandbox that has proved its lock, or raise `ProfileRejected`."""
    return compile_no_op(evidence.profile, frozenset(evidence.proofs))


def noted_by(noter: LogWriter) -> Noted:
    """Return a function that writes a no-op to the log."""

    def note(no_op: NoOp) -> None:
        noter.announce(NO_OP, {"executor": no_op.kind, "proved": list(no_op.proved)})

    return note
