"""Artifact kinds by the prefix of their ids and by the name policies use."""

from typing import Final

KINDS: Final = {
    "rp": "research-packet",
    "fr": "fetch-request",
    "tr": "tool-request",
    "ap": "approval",
    "res": "tool-result",
    "an": "analysis",
}


def kind_name(kind: str) -> str:
    """Return the name policies use for a prefix; any other text stays as it is."""
    return KINDS.get(kind, kind)
