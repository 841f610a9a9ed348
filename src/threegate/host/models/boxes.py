"""The box a model is served from: what is bound into it, and what it is told first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from threegate.gates.model.messages import SERVER_SOCKET, Bridged, Embedded, Remote
from threegate.host.models.choice import Chosen, model_file, server_socket, threads
from threegate.sandbox.profiles import BRIDGE, BRIDGE_SOCKET, MODEL_SERVER, Profile

Opening = Embedded | Bridged | Remote


@dataclass(frozen=True, slots=True)
class Box:
    """How one model is served; `opening` is told the descriptor CORE comes to."""

    profile: Profile
    opening: Callable[[int], Opening]
    given: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()


def box_of(model: Chosen, cache: Path) -> Box:
    """Return the box of a model on this machine; raise `GateUnavailable`."""
    if model.kind == "embedded":
        given = {"model-file": str(model_file(model, cache))}
        return Box(MODEL_SERVER, lambda fd: _embedded(model, fd), given)
    socket = server_socket(model)
    if socket is not None:
        place = f"unix:{SERVER_SOCKET}"
        given = {"server": str(socket)}
        return Box(BRIDGE_SOCKET, lambda fd: _bridged(model, fd, place), given)
    assert model.endpoint is not None
    port = int(model.endpoint.rpartition(":")[2])
    endpoint = model.endpoint
    return Box(BRIDGE, lambda fd: _bridged(model, fd, endpoint), ports=(port,))


def _embedded(model: Chosen, fd: int) -> Embedded:
    assert model.sha256 is not None
    context, seconds = model.context_tokens, model.deadline_seconds
    return Embedded(fd, model.name, model.sha256, context, threads(), seconds)


def _bridged(model: Chosen, fd: int, endpoint: str) -> Bridged:
    return Bridged(fd, model.name, endpoint, model.context_tokens, model.deadline_seconds)
