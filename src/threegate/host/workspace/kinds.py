"""What people call the kinds of artifacts."""

from typing import Final

from threegate.base.errors import UsageError
from threegate.base.text import quote
from threegate.policy.decide import KINDS

# The words of the command line, and the kinds each speaks of.
LISTINGS: Final = {
    "packet": ("rp",),
    "request": ("fr", "tr"),
    "result": ("res",),
    "analysis": ("an",),
}

__all__ = ["KINDS", "LISTINGS", "prefix_named"]


def prefix_named(kind: str) -> str:
    """Return the prefix for a prefix or a name such as `tool-request`."""
    for prefix, name in KINDS.items():
        if kind in (prefix, name):
            return prefix
    raise UsageError(f"{quote(kind)} is not a kind", hint=f"one of {', '.join(KINDS.values())}")
