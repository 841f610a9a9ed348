"""References to works, and the very URLs that are asked for each.

Host and FETCH share this: the host plans by it, a review shows it, and the box that asks
checks by it that a URL belongs to what a human approved.  All functions are pure.

SECURITY
    A URL is an outbound channel.  The content of a reference stays within its own part of
    the URL, and every URL made here is judged by `policy.hosts` before it is asked.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from threegate.base.forms import REDACTED
from threegate.base.identifiers import (
    MAX_REFERENCE_CHARS,
    SCHEMES,
    VERSION,
    Reference,
    parse_reference,
)
from threegate.base.text import FORBIDDEN

__all__ = [
    "DEFAULT_ENRICH",
    "ENRICHERS",
    "MAX_QUERY_CHARS",
    "MAX_REFERENCE_CHARS",
    "MAX_ROWS",
    "SCHEMES",
    "SEARCHABLE",
    "SEARCH_PREFIX",
    "WANTS",
    "Question",
    "Reference",
    "is_question_of",
    "parse_reference",
    "questions",
    "search_question",
    "search_reference",
    "without_contact",
]

WANTS: Final = ("metadata", "full-text")
ENRICHERS: Final = ("openalex", "europepmc", "unpaywall", "semanticscholar")
# What is asked unless the operator says otherwise, and all that an approval covers.
DEFAULT_ENRICH: Final = ("openalex", "europepmc", "unpaywall")
SEARCH_PREFIX: Final = "search:"
SEARCHABLE: Final = ("crossref", "arxiv", "openalex", "europepmc")

MAX_QUERY_CHARS: Final = 300
MAX_ROWS: Final = 100
TOOL: Final = "threegate"

_CONTACT: Final = re.compile(
    r"(https://(?:api\.crossref\.org|api\.unpaywall\.org|eutils\.ncbi\.nlm\.nih\.gov)/[^?]*"
    r"\?(?:[^&]*&)*?(?:mailto|email)=)[^&]+"
)


@dataclass(frozen=True, slots=True)
class Question:
    """One HTTPS URL to ask for, whom it asks and what for."""

    source: str
    role: str  # `metadata`, `document` or `search`
    url: str
    accept: str
    after: str | None = None

    @property
    def shown(self) -> str:
        """Return the URL for logs and packets: the operator's address is nobody's business."""
        return without_contact(self.url)

    def is_due(self, statuses: Mapping[str, int | None]) -> bool:
        """Tell whether to ask, given the status of each source asked so far, None for no answer.

        Crossref says 404 of a DOI that another agency registered.  arXiv says nothing of the
        kind; it answers 429 and 503 to anybody when it is busy.
        """
        if self.after is None:
            return True
        if self.after not in statuses:
            return False
        status = statuses[self.after]
        return status == 404 if self.after == "crossref" else status is None or status >= 400


_JSON: Final = "application/json"
_XML: Final = "application/xml, text/xml"
_ANY: Final = "text/html, application/pdf, application/json, application/xml, text/plain;q=0.9"
_S2_FIELDS: Final = (
    "title,abstract,authors,year,publicationDate,journal,venue,externalIds,openAccessPdf,url"
)


def questions(
    reference: Reference,
    *,
    want: str = "metadata",
    enrich: Iterable[str] = DEFAULT_ENRICH,
    contact: str | None = None,
) -> tuple[Question, ...]:
    """Return what is asked for `reference`, in order; a question may depend on an earlier one.

    Links to a full text that an answer offers are data: they are shown, never followed.
    """
    enrich = tuple(enrich)
    if want not in WANTS or not set(enrich) <= set(ENRICHERS):
        raise ValueError(f"want one of {', '.join(WANTS)}, enrich of {', '.join(ENRICHERS)}")
    found = list(_first(reference, contact))
    found += [
        asked for name in ENRICHERS if name in enrich for asked in _more(name, reference, contact)
    ]
    if want == "full-text":
        found += _documents(reference)
    return tuple(found)


def _first(reference: Reference, contact: str | None) -> Iterator[Question]:
    value, base = reference.value, "metadata"
    match reference.scheme:
        case "doi":
            yield _crossref(value, contact)
            yield Question(
                "datacite", base, _datacite(value), "application/vnd.api+json", "crossref"
            )
        case "arxiv":
            url = f"https://export.arxiv.org/api/query?id_list={_encoded(value)}&max_results=1"
            yield Question("arxiv", base, url, "application/atom+xml")
            doi = f"10.48550/arxiv.{VERSION.sub('', value)}"
            yield Question("datacite", base, _datacite(doi), "application/vnd.api+json", "arxiv")
        case "pmid":
            yield Question("pubmed", base, _efetch(value, contact), _XML)
        case "pmcid":
            yield _europepmc(f"PMCID:{value}")
        case "openalex":
            yield Question("openalex", base, f"https://api.openalex.org/works/{value}", _JSON)
        case _:
            yield Question("url", "document", value, _ANY)


def _more(name: str, reference: Reference, contact: str | None) -> Iterator[Question]:
    """Yield how `name` is asked about a work that somebody else was asked about first."""
    scheme, value = reference.scheme, reference.value
    match name, scheme:
        case "openalex", "doi":
            url = f"https://api.openalex.org/works/doi:{_encoded(value)}"
            yield Question(name, "metadata", url, _JSON)
        case "europepmc", "doi":
            # A quotation mark would end the phrase, and the rest would be another query.
            if not set('"\\') & set(value):
                yield _europepmc(f'DOI:"{value}"')
        case "europepmc", "pmid":
            yield _europepmc(f"EXT_ID:{value} AND SRC:MED")
        case "unpaywall", "doi":
            if contact is not None:  # it answers nobody without an address
                url = f"https://api.unpaywall.org/v2/{_path(value)}?email={_address(contact)}"
                yield Question(name, "metadata", url, _JSON)
        case "semanticscholar", "doi" | "arxiv" | "pmid" | "pmcid":
            named = {"doi": "DOI", "arxiv": "ARXIV", "pmid": "PMID", "pmcid": "PMCID"}[scheme]
            plain = VERSION.sub("", value) if scheme == "arxiv" else value.removeprefix("PMC")
            url = f"https://api.semanticscholar.org/graph/v1/paper/{named}:{_path(plain)}"
            yield Question(name, "metadata", f"{url}?fields={_S2_FIELDS}", _JSON)
        case _:
            pass


def _documents(reference: Reference) -> Iterator[Question]:
    value = reference.value
    if reference.scheme == "arxiv":
        yield Question("arxiv", "document", f"https://arxiv.org/pdf/{value}", "application/pdf")
    elif reference.scheme == "pmcid":
        url = f"https://www.ebi.ac.uk/europepmc/webservices/rest/{value}/fullTextXML"
        yield Question("europepmc", "document", url, _XML)


def _crossref(doi: str, contact: str | None) -> Question:
    url = f"https://api.crossref.org/works/{_encoded(doi)}{_mailto('?', contact)}"
    return Question("crossref", "metadata", url, _JSON)


def _datacite(doi: str) -> str:
    return f"https://api.datacite.org/dois/{_path(doi)}"


def _efetch(pmid: str, contact: str | None) -> str:
    url = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/efetch.fcgi"
    email = "" if contact is None else f"&email={_address(contact)}"
    return f"{url}?db=pubmed&id={pmid}&retmode=xml&tool={TOOL}{email}"


def _europepmc(query: str, role: str = "metadata", rows: int = 1) -> Question:
    url = "https://www.ebi.ac.uk/europepmc/webservices/rest/search"
    asked = f"query={_encoded(query)}&resultType=core&format=json&pageSize={rows}"
    return Question("europepmc", role, f"{url}?{asked}", _JSON)


def search_question(source: str, query: str, rows: int, contact: str | None = None) -> Question:
    """Return the question for works that `query` finds, or raise ValueError with a sentence."""
    if source not in SEARCHABLE:
        raise ValueError(f"a search asks one of {', '.join(SEARCHABLE)}")
    if not 1 <= rows <= MAX_ROWS:
        raise ValueError(f"rows are between 1 and {MAX_ROWS}")
    words = _words(query)
    encoded = _encoded(" ".join(words))
    match source:
        case "crossref":
            asked = f"https://api.crossref.org/works?query={encoded}&rows={rows}"
            question = Question(source, "search", asked + _mailto("&", contact), _JSON)
        case "arxiv":
            terms = _encoded(" AND ".join(f"all:{word}" for word in _plain_words(words)))
            asked = f"https://export.arxiv.org/api/query?search_query={terms}&max_results={rows}"
            question = Question(source, "search", asked, "application/atom+xml")
        case "openalex":
            asked = f"https://api.openalex.org/works?search={encoded}&per-page={rows}"
            question = Question(source, "search", asked, _JSON)
        case _:
            question = _europepmc(" ".join(words), "search", rows)
    if len(question.url) > MAX_REFERENCE_CHARS:
        raise ValueError("a query that is too long for a URL")
    return question


def search_reference(source: str, query: str) -> str:
    """Return what a packet calls the search it answers."""
    return f"{SEARCH_PREFIX}{source}:{' '.join(_words(query))}"


def _words(query: str) -> list[str]:
    words = query.split()
    if not words:
        raise ValueError("an empty query")
    if len(query) > MAX_QUERY_CHARS:
        raise ValueError(f"a query longer than {MAX_QUERY_CHARS} characters")
    if FORBIDDEN.search(" ".join(words)):
        raise ValueError("a query with a control or invisible character")
    return words


def _plain_words(words: list[str]) -> list[str]:
    """Return the words without what arXiv reads as operators of its own."""
    plain = re.sub(r"[^\w.-]+", " ", " ".join(words)).split()
    found = [word for word in plain if word not in ("AND", "OR", "ANDNOT")]
    if not found:
        raise ValueError("a query without a word in it")
    return found


def is_question_of(
    url: str, references: Iterable[Reference], *, want: str, contact: str | None = None
) -> bool:
    """Tell whether `url` is one of the questions an approval of these references covers."""
    asked = (questions(reference, want=want, contact=contact) for reference in references)
    return any(url == question.url for found in asked for question in found)


def without_contact(url: str) -> str:
    """Return `url` with the operator's address replaced."""
    return _CONTACT.sub(rf"\1{REDACTED}", url)


def _mailto(mark: str, contact: str | None) -> str:
    return "" if contact is None else f"{mark}mailto={_address(contact)}"


def _address(contact: str) -> str:
    return quote(contact, safe="@")


def _encoded(text: str) -> str:
    return quote(text, safe=":()")


def _path(text: str) -> str:
    return quote(text, safe="/:()")
