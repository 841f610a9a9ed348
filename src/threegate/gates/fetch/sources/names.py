"""Identifiers of works: one spelling each, or none.

SECURITY
    An identifier decides what is asked next and which answers belong together, so only
    what matches a grammar counts.
"""

import re
from typing import Final

from threegate.artifacts.research_packet import Identifier
from threegate.artifacts.sources import IDENTIFIERS
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources.limits import MAX_IDENTIFIER_CHARS

_SCHEMES: Final = {scheme.name: scheme for scheme in IDENTIFIERS}
_GRAMMAR: Final = {scheme.name: re.compile(scheme.grammar) for scheme in IDENTIFIERS}


def identifier(scheme: str, value: str) -> Identifier | None:
    """Return the identifier `value` spells in `scheme`, or None if it spells none."""
    if len(value) > MAX_IDENTIFIER_CHARS:
        return None
    lowered = value.strip() if _SCHEMES[scheme].cased else value.strip().lower()
    for prefix in _SCHEMES[scheme].prefixes:
        if lowered.startswith(prefix):
            lowered = lowered[len(prefix) :]
            break
    if scheme == "isbn":
        lowered = lowered.replace("-", "").replace(" ", "")
    elif scheme == "pmid":
        lowered = lowered.rstrip("/")
    elif scheme == "pmcid":
        lowered = lowered.rstrip("/")
        lowered = lowered if lowered.startswith("pmc") else f"pmc{lowered}"
    if not _GRAMMAR[scheme].fullmatch(lowered) or FORBIDDEN.search(lowered):
        return None
    return Identifier(scheme, Untrusted(lowered.upper() if _SCHEMES[scheme].upper else lowered))


def sort_key(name: Identifier) -> tuple[str, str]:
    """Order identifiers as a packet does."""
    return name.scheme, name.value.open_for_validation()
