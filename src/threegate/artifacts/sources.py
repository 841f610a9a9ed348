"""Names of the scholarly sources, and why one of them can have no answer."""

from typing import Final

SOURCES: Final = (
    "arxiv",
    "crossref",
    "datacite",
    "europepmc",
    "openalex",
    "pubmed",
    "semanticscholar",
    "unpaywall",
    "url",
)
GAP_REASONS: Final = ("denied", "failed", "not-found", "timed-out", "too-large", "unreadable")
