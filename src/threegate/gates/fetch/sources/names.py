"""Identifiers of works: one spelling each, or none.

SECURITY
    An identifier decides what is asked next and which answers belong together, so only
    what matches a grammar counts.
"""

import re
from typing import Final

from threegate.artifacts.research_packet import Identifier
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources.limits import MAX_IDENTIFIER_CHARS

_PREFIXES: Final = {
    "doi": ("https://doi.org/", "http://doi.org/", "https://dx.doi.org/", "http://dx.doi.org/",
            "doi:"),
    "arxiv": ("http://arxiv.org/abs/", "https://arxiv.org/abs/", "arxiv:"),
    "pmid": ("https://pubmed.ncbi.nlm.nih.gov/", "pmid:"),
    "pmcid": ("https://www.ncbi.nlm.nih.gov/pmc/articles/", "https://pmc.ncbi.nlm.nih.gov/articles/"),
    "openalex": ("https://openalex.org/",),
    "isbn": ("http://id.crossref.org/isbn/", "https://id.crossref.org/isbn/", "urn:isbn:"),
    "issn": ("http://id.crossref.org/issn/",),
}  # fmt: skip
_GRAMMAR: Final = {
    "doi": re.compile(r"10\.[0-9]{4,9}(?:\.[0-9]{1,9})*/[!-~\u00a1-\ud7ff]{1,180}"),
    "arxiv": re.compile(
        r"(?:[0-9]{4}\.[0-9]{4,5}|[a-z-]{2,12}(?:\.[a-z]{2})?/[0-9]{7})(?:v[0-9]{1,3})?"
    ),
    "pmid": re.compile(r"[1-9][0-9]{0,9}"),
    "pmcid": re.compile(r"pmc[1-9][0-9]{0,9}"),
    "openalex": re.compile(r"w[1-9][0-9]{0,14}"),
    "isbn": re.compile(r"(?:97[89][0-9]{10}|[0-9]{9}[0-9x])"),
    "issn": re.compile(r"[0-9]{4}-[0-9]{3}[0-9x]"),
    "semanticscholar": re.compile(r"[0-9a-f]{40}"),
}  # fmt: skip
_UPPER: Final = frozenset({"pmcid", "openalex", "isbn", "issn"})


def identifier(scheme: str, value: str) -> Identifier | None:
    """Return the identifier `value` spells in `scheme`, or None if it spells none."""
    if len(value) > MAX_IDENTIFIER_CHARS:
        return None
    lowered = value.strip().lower()
    for prefix in _PREFIXES.get(scheme, ()):
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
    return Identifier(scheme, Untrusted(lowered.upper() if scheme in _UPPER else lowered))


def sort_key(name: Identifier) -> tuple[str, str]:
    """Order identifiers as a packet does."""
    return name.scheme, name.value.open_for_validation()
