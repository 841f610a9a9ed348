"""Completing an operator's draft with what the host knows: time, nonce, the lanes in force."""

import secrets
from collections.abc import Callable

from threegate.artifacts import registry
from threegate.artifacts.draft import Lane, complete_draft, is_draft
from threegate.artifacts.tool_request import Limits
from threegate.host.workspace import Workspace
from threegate.policy.bundle import Bundle
from threegate.untrusted import Untrusted

NONCE_BYTES = 16


def lanes_of(bundle: Bundle) -> dict[str, Lane]:
    """Return what each lane gives a request that asks for nothing in particular."""
    lanes = {}
    for name in bundle.words("tool-exec", "lanes"):
        path = ("tool-exec", "lanes", name)
        keys = bundle.words(*path, "default")
        limits = Limits(**{key: bundle.integer(*path, "default", key) for key in keys})
        lanes[name] = Lane(bundle.text(*path, "default_profile"), limits)
    return lanes


def completer(ws: Workspace) -> Callable[[Untrusted[bytes]], Untrusted[bytes]]:
    """Return the function that `admit` completes drafts with; others pass as they are."""
    lanes = lanes_of(ws.bundle)

    def complete(item: Untrusted[bytes]) -> Untrusted[bytes]:
        if not is_draft(item):
            return item
        nonce = secrets.token_hex(NONCE_BYTES)
        request = complete_draft(item, created=ws.now(), nonce=nonce, lanes=lanes)
        return Untrusted(registry.emit(request))

    return complete
