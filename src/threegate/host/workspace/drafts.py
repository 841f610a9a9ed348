"""Completing an operator's draft with what the host knows: time, nonce, the lanes in force."""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from threegate.artifacts import registry
from threegate.artifacts.draft import LaneDefaults, complete, complete_draft, is_draft
from threegate.artifacts.tool_request import RunLimits, ToolRequest
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.host.workspace.workspace import Workspace
from threegate.policy.bundle import Bundle

NONCE_BYTES = 16
BROUGHT_RESULT: Final = "TG-HND-016"  # nobody could tell it from one that was computed


def lanes_of(bundle: Bundle) -> dict[str, LaneDefaults]:
    """Return what each lane gives a request that asks for nothing in particular."""
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
        return False  # whoever reads it says what is wrong with it


def completer(ws: Workspace) -> Callable[[Untrusted[bytes]], Untrusted[bytes]]:
    """Return the function that `admit` completes drafts with; others pass as they are."""
    lanes = lanes_of(ws.bundle)

    def complete(item: Untrusted[bytes]) -> Untrusted[bytes]:
        if not is_draft(item):
            if _is_result(item):
                detail = "a result is left by a run, not brought in by hand"
                raise ArtifactRejected(
                    detail, code=BROUGHT_RESULT, hint="`threegate run` makes one"
                )
            return item
        nonce = secrets.token_hex(NONCE_BYTES)
        request = complete_draft(item, created=ws.now(), nonce=nonce, lanes=lanes)
        return Untrusted(registry.emit(request))

    return complete


def complete_request(
    ws: Workspace, given: Mapping[str, Any], texts: Mapping[str, str]
) -> ToolRequest:
    """Return the tool request that keys and texts stand for, or raise `ArtifactRejected`."""
    nonce = secrets.token_hex(NONCE_BYTES)
    lanes = lanes_of(ws.bundle)
    request = complete(given, texts, created=ws.now(), nonce=nonce, lanes=lanes)
    assert isinstance(request, ToolRequest)
    return request
