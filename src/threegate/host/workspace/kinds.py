"""Kinds of artifacts as the command line names them; light, since every command imports it."""

from typing import Final

from threegate.base.errors import UsageError
from threegate.base.forms import KINDS
from threegate.base.text import quote

# Nouns of the command line, and the kinds of artifacts that each lists.
LISTINGS: Final = {
    "packet": ("rp",),
    "request": ("fr", "tr"),
    "result": ("res",),
    "analysis": ("an",),
}


def prefix_named(kind: str) -> str:
    """Return the prefix for a prefix or a name such as `tool-request`."""
    for prefix, name in KINDS.items():
        if kind in (prefix, name):
            return prefix
    raise UsageError(f"{quote(kind)} is not a kind", hint=f"one of {', '.join(KINDS.values())}")
