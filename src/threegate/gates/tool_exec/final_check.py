"""The final check of both lanes before anything runs: approval, inputs, limits.

The host may have been wrong about any of it.  The gate executes the request, so it checks again.

SECURITY
    If this module is wrong, something runs that no human approved, or on other inputs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.tool_request import ToolRequest
from threegate.base import limits
from threegate.base.errors import PolicyDenied
from threegate.base.text import visible
from threegate.policy.approvals import OTHER_LANE, Presented, check_approval
from threegate.policy.bundle import Bundle, functions_sha256

OTHER_INPUTS: Final = "TG-APR-016"
LANES: Final = ("tool-exec", "lanes")


@dataclass(frozen=True, slots=True)
class Given:
    """An input as the gate has it: its size, and how to compute its digest."""

    bytes: int
    sha256: Callable[[], str]


def approved_request(presented: Presented, bundle: Bundle, *, at: int) -> ToolRequest:
    """Return the request if everything about it was approved, or raise `PolicyDenied`.

    Each lane checks itself whether the request is for it.
    """
    found = check_approval(presented, bundle, at=at, functions_sha256=functions_sha256(bundle))
    if not isinstance(found.request, ToolRequest):
        raise PolicyDenied("this gate runs tool requests only", code=OTHER_LANE)
    return found.request


def check_inputs(bundle: Bundle, request: ToolRequest, given: Mapping[str, Given]) -> None:
    """Raise `PolicyDenied` unless these are the inputs that were approved."""
    # An input more is refused too: the program could read what no human approved.
    if sorted(given) != sorted(item.name for item in request.inputs):
        raise PolicyDenied("the inputs are not those of the request", code=OTHER_INPUTS)
    most = bundle.integer(*LANES, request.backend, "max", "input_bytes")
    if sum(item.bytes for item in given.values()) > most:
        raise PolicyDenied("the inputs are larger than policy allows", code=OTHER_INPUTS)
    for item in request.inputs:
        # Only a blob is passed on unchanged: fields read from an artifact have no digest here.
        named = item.artifact.removeprefix("blob-")
        if named != item.artifact and given[item.name].sha256() != named:
            message = f"input {item.name} is not the one that was approved"
            raise PolicyDenied(message, code=OTHER_INPUTS)


def least(bundle: Bundle, request: ToolRequest, name: str) -> int:
    """Return a limit of the request, at most that of the policy."""
    asked: int = getattr(request.limits, name)
    return min(asked, bundle.integer(*LANES, request.backend, "max", name))


def sentence(text: str) -> str:
    """Return a message as it may be sent to the host."""
    return visible(text)[: limits.MAX_LINE_CHARS]
