"""Which models the policy in force needs, and what is here of them."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.base.text import visible
from threegate.host.models.catalogue import MODELS, Model, named_by_policy
from threegate.host.models.choice import NO_FILE
from threegate.host.models.store import PULLING, Cache, Told
from threegate.policy.bundle import Compiled

ELSEWHERE: Final = "not kept here"


@dataclass(frozen=True, slots=True)
class Needed:
    """A model a policy names; without `model` it is served by somebody else, or not at all."""

    use: str
    name: str
    sha256: str | None
    model: Model | None


def needed(policy: Compiled) -> tuple[Needed, ...]:
    """Return the models the policy names: CORE's, and the one that compares texts."""
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


def states_of(models: Sequence[Needed], cache: Cache, told: Told) -> list[str]:
    """Return the state of each model: that of its worst file."""
    return [_state(need, cache, told) for need in models]


def _state(need: Needed, cache: Cache, told: Told) -> str:
    if need.model is None:
        return ELSEWHERE
    found = [cache.state(file, told) for file in need.model.files]
    return next((state for state in ("missing", "damaged") if state in found), "here")


def refuse_lacking(models: Sequence[Needed], states: Sequence[str]) -> None:
    """Raise `GateUnavailable` if one is missing or damaged."""
    for need, state in zip(models, states, strict=True):
        if state in ("missing", "damaged"):
            detail = f"the model {visible(need.name)} is {state}"
            hint = "`threegate model pull` brings it"
            raise GateUnavailable(detail, code=NO_FILE, hint=hint)


def strays(cache: Cache) -> list[str]:
    """Return the names of files that belong to no known model: a policy may need them."""
    known = {cache.path(file).name for model in MODELS for file in model.files}
    found: list[str] = []
    with suppress(OSError):
        found = sorted(set(os.listdir(cache.root)) - known - {PULLING})
    return found
