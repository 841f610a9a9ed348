"""Completion of an operator's draft with what the host knows: time, nonce, lanes in force."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from threegate.artifacts import registry
from threegate.artifacts.draft import LaneDefaults, complete, complete_draft, is_draft
from threegate.artifacts.tool_request import RunLimits, ToolRequest
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle

NONCE_BYTES = 16
BROUGHT_RESULT: Final = "TG-HND-016"  # it would look like a computed one


def lanes_of(bundle: Bundle) -> dict[str, LaneDefaults]:
    """Return the default profile and limits of each lane."""
    lanes = {}
    for name in bundle.words("tool-exec", "lanes"):
        path = ("tool-exec", "lanes", name)
        keys = bundle.words(*path, "default")
        limits = RunLimits(**{key: bundle.integer(*path, "default", key) for key in keys})
        lanes[name] = LaneDefaults(bundle.text(*path, "default_profile"), limits)
    return lanes


def _is_result(item: Untrusted[bytes]) -> bool:
    try:
        return registry.format_of(item).prefix == "res"
    except ArtifactRejected:
        return False  # the parser reports the error


def completer(ws: Workspace) -> Callable[[Untrusted[bytes]], Untrusted[bytes]]:
    """Return the function with which `admit` completes drafts; it returns other items unchanged."""
    lanes = lanes_of(ws.bundle)

    def complete(item: Untrusted[bytes]) -> Untrusted[bytes]:
        if not is_draft(item):
            if _is_result(item):
                detail = "a result comes from a run and cannot be admitted by hand"
                raise ArtifactRejected(
                    detail, code=BROUGHT_RESULT, hint="`threegate run` makes one"
                )
            return item
        nonce = secrets.token_hex(NONCE_BYTES)
        request = complete_draft(item, created=ws.now(), nonce=nonce, lanes=lanes)
        return Untrusted(registry.emit(request))

    return complete


def complete_request(
    ws: Workspace,
    given: Mapping[str, Any],
    texts: Mapping[str, str],
    *,
    derived_from: Sequence[str] = (),
) -> ToolRequest:
    """Return the tool request made of keys and texts, or raise `ArtifactRejected`."""
    nonce = secrets.token_hex(NONCE_BYTES)
    lanes = lanes_of(ws.bundle)
    request = complete(
        given, texts, created=ws.now(), nonce=nonce, lanes=lanes, derived_from=derived_from
    )
    assert isinstance(request, ToolRequest)
    return request
