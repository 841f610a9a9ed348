"""Which model the policy names, and how it is served; pure but for a look at one file.

A model that is not set, not there or not the one named is an error that says what to do.
There is no second choice: another model would answer in the name of the one that was signed.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.base.text import visible
from threegate.gates.model.messages import MAX_THREADS
from threegate.policy.bundle import Compiled

NO_MODEL: Final = "TG-MDL-020"
NO_FILE: Final = "TG-MDL-021"
NO_SOCKET: Final = "TG-MDL-023"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model of a policy, as its server is told."""

    kind: str  # embedded | bridge | remote
    name: str
    sha256: str | None
    endpoint: str | None
    context_tokens: int
    deadline_seconds: int
    host: str | None = None  # of a model on another machine

    @property
    def server(self) -> str:
        """Return where it runs, as an analysis says it."""
        return self.kind if self.host is None else f"{self.kind}:{self.host}"


def chosen(policy: Compiled) -> Chosen:
    """Return the model the policy names; raise `GateUnavailable` if none can be served."""
    kind = policy.text("core", "model", "kind")
    rule = policy.ref("core", "model", "kind")
    if kind == "none":
        hint = "set `model` there, or ask with `--extractive`, which needs none"
        raise GateUnavailable(f"no model is set in {rule}", code=NO_MODEL, hint=hint)
    return Chosen(
        kind,
        policy.text("core", "model", "name"),
        _word(policy, "sha256"),
        _word(policy, "endpoint"),
        policy.integer("core", "model", "context_tokens"),
        policy.integer("core", "answer", "deadline_seconds"),
        _word(policy, "remote_host"),
    )


def model_file(model: Chosen, cache: Path) -> Path:
    """Return where the file of an embedded model lies; raise `GateUnavailable`."""
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


def server_socket(model: Chosen) -> Path | None:
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
    """Return how many processors a model may use: those this process may."""
    return max(1, min(len(os.sched_getaffinity(0)), MAX_THREADS))


def _word(policy: Compiled, key: str) -> str | None:
    found = policy.value("core", "model", key)
    assert found is None or isinstance(found, str)
    return found
