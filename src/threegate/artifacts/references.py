"""References to works, and the exact URLs requested for each.

Host and FETCH share this: the host plans with it, the review shows its URLs, and the retrieve
sandbox checks with it that a URL belongs to the approved request.  All functions are pure.

SECURITY
    A URL is an outbound channel.  The content of a reference stays within its own part of
    the URL, and every URL made here is judged by `policy.hosts` before it is asked.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from threegate.artifacts.sources import SOURCES, Source, Url
from threegate.base.forms import REDACTED
from threegate.base.identifiers import (
    MAX_REFERENCE_CHARS,
    SCHEMES,
    Reference,
    parse_reference,
)
from threegate.base.text import FORBIDDEN

__all__ = [
    "DEFAULT_ENRICH",
    "ENRICHERS",
    "LIST_PREFIXES",
    "MAX_QUERY_CHARS",
    "MAX_REFERENCE_CHARS",
    "MAX_ROWS",
    "OPEN_COPY",
    "RELATIONS",
    "SCHEMES",
    "SEARCHABLE",
    "SEARCH_PREFIX",
    "WANTS",
    "Question",
    "Reference",
    "is_question_of",
    "open_copy_question",
    "parse_reference",
    "questions",
    "related_questions",
    "related_reference",
    "search_question",
    "search_reference",
    "without_contact",
]

WANTS: Final = ("metadata", "full-text")
ENRICHERS: Final = tuple(source.name for source in SOURCES if source.more)
# The default sources; an approval covers these and no others.
DEFAULT_ENRICH: Final = tuple(s.name for s in SOURCES if s.more and s.by_default)
SEARCH_PREFIX: Final = "search:"
SEARCHABLE: Final = tuple(source.name for source in SOURCES if source.search is not None)
# What a work can be asked for besides itself: relation -> the sources that list it.
RELATIONS: Final = {
    "references": tuple(source.name for source in SOURCES if source.references),
    "cited-by": tuple(source.name for source in SOURCES if source.cited_by),
}
# References of packets that list candidates and describe no work.
LIST_PREFIXES: Final = (SEARCH_PREFIX, *(f"{relation}:" for relation in RELATIONS))

OPEN_COPY: Final = "url"  # the source of a document at an address of its own

MAX_QUERY_CHARS: Final = 300
MAX_ROWS: Final = 100

_BY_NAME: Final = {source.name: source for source in SOURCES}
_CONTACT: Final = re.compile(
    rf"(https://(?:{'|'.join(re.escape(s.contact_host) for s in SOURCES if s.contact_host)})/[^?]*"
    r"\?(?:[^&]*&)*?(?:mailto|email)=)[^&]+"
)
_ANY: Final = "text/html, application/pdf, application/json, application/xml, text/plain;q=0.9"


@dataclass(frozen=True, slots=True)
class Question:
    """One HTTPS URL to request: its source and its role."""

    source: str
    role: str  # `metadata`, `document`, `related` or `search`
    url: str
    accept: str
    after: str | None = None

    @property
    def shown(self) -> str:
        """Return the URL for logs and packets, without the operator's e-mail address."""
        return without_contact(self.url)

    def is_due(self, statuses: Mapping[str, int | None]) -> bool:
        """Tell whether to ask, given the status of each source asked so far, None for no answer.

        Crossref says 404 of a DOI that another agency registered.  arXiv has no such answer; it
        sends 429 and 503 when it is busy.
        """
        if self.after is None:
            return True
        if self.after not in statuses:
            return False
        status = statuses[self.after]
        if _BY_NAME[self.after].registers:
            return status == 404
        return status is None or status >= 400


def questions(
    reference: Reference,
    *,
    want: str = "metadata",
    enrich: Iterable[str] = DEFAULT_ENRICH,
    contact: str | None = None,
) -> tuple[Question, ...]:
    """Return what is asked for `reference`, in order; a question may depend on an earlier one.

    Links to a full text that an answer offers are data: none of them is a question of the
    reference.  `open_copy_question` is for those that the host chooses.
    """
    enrich = tuple(enrich)
    if want not in WANTS or not set(enrich) <= set(ENRICHERS):
        raise ValueError(f"want one of {', '.join(WANTS)}, enrich of {', '.join(ENRICHERS)}")
    found = list(_first(reference, contact))
    for source in SOURCES:
        if source.name in enrich:
            found += _asked(source, source.more, reference, contact)
    if want == "full-text":
        for source in SOURCES:
            found += _asked(source, source.documents, reference, contact)
    return tuple(found)


def _first(reference: Reference, contact: str | None) -> Iterator[Question]:
    if reference.scheme == "url":
        yield Question("url", "document", reference.value, _ANY)
    for source in SOURCES:
        yield from _asked(source, source.first, reference, contact)


def _asked(
    source: Source, urls: Mapping[str, Url], reference: Reference, contact: str | None
) -> Iterator[Question]:
    """Yield how a source is asked about a reference."""
    made = urls.get(reference.scheme)
    url = None if made is None else made(reference.value, contact)
    if url is not None and urls is source.documents:
        yield Question(source.name, "document", url, source.document_types)
    elif url is not None:
        after = source.after.get(reference.scheme) if urls is source.first else None
        yield Question(source.name, "metadata", url, source.accept, after)


def open_copy_question(url: str) -> Question:
    """Return the question for an open copy of a work; no approval covers it."""
    return Question(OPEN_COPY, "document", url, _ANY)


def search_question(source: str, query: str, rows: int, contact: str | None = None) -> Question:
    """Return the question for works that `query` finds, or raise ValueError with a sentence."""
    declared = _BY_NAME.get(source)
    if declared is None or declared.search is None:
        raise ValueError(f"a search asks one of {', '.join(SEARCHABLE)}")
    if not 1 <= rows <= MAX_ROWS:
        raise ValueError(f"rows are between 1 and {MAX_ROWS}")
    url = declared.search(_words(query), rows, contact)
    question = Question(source, "search", url, declared.accept)
    if len(question.url) > MAX_REFERENCE_CHARS:
        raise ValueError("a query that is too long for a URL")
    return question


def search_reference(source: str, query: str) -> str:
    """Return what a packet calls the search it answers."""
    return f"{SEARCH_PREFIX}{source}:{' '.join(_words(query))}"


def related_questions(
    relation: str,
    names: Iterable[Reference],
    rows: int,
    *,
    sources: Iterable[str],
    contact: str | None = None,
) -> tuple[Question, ...]:
    """Return what is asked for the works that a work cites, or that cite it.

    `names` are names of that one work; each source is asked once, by the first that it knows.
    """
    if not 1 <= rows <= MAX_ROWS:
        raise ValueError(f"rows are between 1 and {MAX_ROWS}")
    named = {name.scheme: name.value for name in reversed(tuple(names))}
    found = []
    for source in (_BY_NAME[one] for one in RELATIONS[relation] if one in set(sources)):
        urls = source.references if relation == "references" else source.cited_by
        scheme = next((one for one in urls if one in named), None)
        if scheme is not None:
            url = urls[scheme](named[scheme], rows, contact)
            found.append(Question(source.name, "related", url, source.accept))
    return tuple(found)


def related_reference(relation: str, reference: Reference) -> str:
    """Return what a packet calls such a list."""
    return f"{relation}:{reference.text}"


def _words(query: str) -> list[str]:
    words = query.split()
    if not words:
        raise ValueError("an empty query")
    if len(query) > MAX_QUERY_CHARS:
        raise ValueError(f"a query longer than {MAX_QUERY_CHARS} characters")
    if FORBIDDEN.search(" ".join(words)):
        raise ValueError("a query with a control or invisible character")
    return words


def is_question_of(
    url: str, references: Iterable[Reference], *, want: str, contact: str | None = None
) -> bool:
    """Tell whether `url` is one of the questions an approval of these references covers."""
    asked = (questions(reference, want=want, contact=contact) for reference in references)
    return any(url == question.url for found in asked for question in found)


def without_contact(url: str) -> str:
    """Return `url` with the operator's address replaced."""
    return _CONTACT.sub(rf"\1{REDACTED}", url)
