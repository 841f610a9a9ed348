"""Scholarly sources and the identifiers of works: each is declared once, here.

A source has a row in `SOURCES` and a module of the same name in `gates/fetch/sources` that reads
its answers.  The host plans by the row, a review shows its URLs, the retrieve sandbox checks
them, the research packet names the source, and merging ranks it.  The order of the rows is the
order in which sources are asked.  CONTRIBUTING.md has the recipe for a new one.

SECURITY
    A URL is an outbound channel.  An identifier stays within its own part of the URL: every row
    quotes it with `quoted` or `in_path`.  Policy judges every URL before it is asked.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from threegate.base.identifiers import VERSION

TOOL: Final = "threegate"
JSON: Final = "application/json"
XML: Final = "application/xml, text/xml"

Url = Callable[[str, str | None], str | None]  # of an identifier and the operator's address
Search = Callable[[list[str], int, str | None], str]  # of words, rows and the operator's address
Related = Callable[[str, int, str | None], str]  # of an identifier, rows and the operator's address


@dataclass(frozen=True, slots=True)
class Source:
    """How a source is asked, and how far it is believed.

    The keys of `first`, `more`, `documents`, `references` and `cited_by` are schemes of
    references.  A function that returns None does not ask.  A source with `references` or
    `cited_by` has a second reader in its module, `RELATED`.
    """

    name: str  # also the name of the module that reads its answers
    precedence: int  # 1 is believed before 2 where sources disagree
    accept: str = JSON
    first: Mapping[str, Url] = field(default_factory=dict)  # asked before the others
    after: Mapping[str, str] = field(default_factory=dict)  # scheme -> only if this source failed
    more: Mapping[str, Url] = field(default_factory=dict)  # asked in addition, if chosen
    by_default: bool = False  # chosen unless the operator says otherwise; approvals cover these
    documents: Mapping[str, Url] = field(default_factory=dict)  # full texts
    document_types: str = ""
    search: Search | None = None
    references: Mapping[str, Related] = field(default_factory=dict)  # what a work cites
    cited_by: Mapping[str, Related] = field(default_factory=dict)  # what cites a work
    contact_host: str = ""  # the host that is told the operator's address
    registers: bool = False  # its status 404 says that another agency has the work


@dataclass(frozen=True, slots=True)
class IdentifierScheme:
    """How identifiers of a kind are spelled, in lower case."""

    name: str
    grammar: str
    prefixes: tuple[str, ...] = ()  # left out when an identifier is read
    upper: bool = False  # written in upper case
    of_one_work: bool = True  # ISSN and ISBN are shared by many
    cased: bool = False  # upper and lower case differ, and stay as they are


def quoted(text: str) -> str:
    """Quote a text for one segment of a path, or for a query."""
    return quote(text, safe=":()")


def in_path(text: str) -> str:
    """Quote a text that may be several segments of a path."""
    return quote(text, safe="/:()")


def address(parameter: str, contact: str | None) -> str:
    """Return the operator's address as a parameter, such as `?mailto=`; empty without one."""
    return "" if contact is None else f"{parameter}{quote(contact, safe='@')}"


def _crossref(doi: str, contact: str | None) -> str:
    return f"https://api.crossref.org/works/{quoted(doi)}{address('?mailto=', contact)}"


def _datacite(doi: str) -> str:
    return f"https://api.datacite.org/dois/{in_path(doi)}"


def _europepmc(query: str, rows: int = 1) -> str:
    url = "https://www.ebi.ac.uk/europepmc/webservices/rest/search"
    return f"{url}?query={quoted(query)}&resultType=core&format=json&pageSize={rows}"


def _europepmc_doi(doi: str, _contact: str | None) -> str | None:
    # A quotation mark would end the phrase, and the rest would be another query.
    return None if set('"\\') & set(doi) else _europepmc(f'DOI:"{doi}"')


def _pubmed(pmid: str, contact: str | None) -> str:
    url = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/efetch.fcgi"
    return f"{url}?db=pubmed&id={pmid}&retmode=xml&tool={TOOL}{address('&email=', contact)}"


def _unpaywall(doi: str, contact: str | None) -> str | None:
    if contact is None:  # it answers nobody without an address
        return None
    return f"https://api.unpaywall.org/v2/{in_path(doi)}{address('?email=', contact)}"


# A list needs no abstracts, and they would make it too large to read.
_OPENALEX_FIELDS: Final = (
    "id,doi,ids,display_name,authorships,publication_date,publication_year,primary_location,"
    "is_retracted"
)


def _openalex_related(relation: str) -> Related:
    """Return how lists of works are asked for; `cites` and `cited_by` are OpenAlex's own words."""

    def url(name: str, rows: int, _contact: str | None) -> str:
        chosen = f"filter={relation}:{name}&sort=cited_by_count:desc&select={_OPENALEX_FIELDS}"
        return f"https://api.openalex.org/works?{chosen}&per-page={rows}"

    return url


_S2_IDS: Final = ("DOI", "ARXIV", "PMID", "PMCID")
_S2_LIST_FIELDS: Final = "title,authors,year,publicationDate,journal,venue,externalIds"
_S2_FIELDS: Final = (
    "title,abstract,authors,year,publicationDate,journal,venue,externalIds,openAccessPdf,url"
)


def _semanticscholar_paper(scheme: str, value: str) -> str:
    plain = VERSION.sub("", value) if scheme == "ARXIV" else value.removeprefix("PMC")
    return f"https://api.semanticscholar.org/graph/v1/paper/{scheme}:{in_path(plain)}"


def _semanticscholar(scheme: str) -> Url:
    def url(value: str, _contact: str | None) -> str:
        return f"{_semanticscholar_paper(scheme, value)}?fields={_S2_FIELDS}"

    return url


def _semanticscholar_related(scheme: str, relation: str) -> Related:
    def url(value: str, rows: int, _contact: str | None) -> str:
        place = f"{_semanticscholar_paper(scheme, value)}/{relation}"
        return f"{place}?fields={_S2_LIST_FIELDS}&limit={rows}"

    return url


def _arxiv_search(words: list[str], rows: int, _contact: str | None) -> str:
    """Search without what arXiv reads as operators of its own."""
    plain = re.sub(r"[^\w.-]+", " ", " ".join(words)).split()
    found = [word for word in plain if word not in ("AND", "OR", "ANDNOT")]
    if not found:
        raise ValueError("a query without a word in it")
    terms = quoted(" AND ".join(f"all:{word}" for word in found))
    return f"https://export.arxiv.org/api/query?search_query={terms}&max_results={rows}"


# Precedence: registration agencies first, then libraries that check, then what collects from all.
SOURCES: Final = (
    Source(
        "crossref",
        precedence=1,
        first={"doi": _crossref},
        search=lambda words, rows, contact: (
            f"https://api.crossref.org/works?query={quoted(' '.join(words))}&rows={rows}"
            f"{address('&mailto=', contact)}"
        ),
        references={"doi": lambda doi, _, contact: _crossref(doi, contact)},  # all, or none
        contact_host="api.crossref.org",
        registers=True,
    ),
    Source(
        "arxiv",
        precedence=5,
        accept="application/atom+xml",
        first={
            "arxiv": lambda name, _: (
                f"https://export.arxiv.org/api/query?id_list={quoted(name)}&max_results=1"
            )
        },
        documents={"arxiv": lambda name, _: f"https://arxiv.org/pdf/{name}"},
        document_types="application/pdf",
        search=_arxiv_search,
    ),
    Source(
        "datacite",
        precedence=2,
        accept="application/vnd.api+json",
        first={
            "doi": lambda doi, _: _datacite(doi),
            "arxiv": lambda name, _: _datacite(f"10.48550/arxiv.{VERSION.sub('', name)}"),
        },
        after={"doi": "crossref", "arxiv": "arxiv"},
    ),
    Source(
        "pubmed",
        precedence=3,
        accept=XML,
        first={"pmid": _pubmed},
        contact_host="eutils.ncbi.nlm.nih.gov",
    ),
    Source(
        "openalex",
        precedence=6,
        first={"openalex": lambda name, _: f"https://api.openalex.org/works/{name}"},
        more={"doi": lambda doi, _: f"https://api.openalex.org/works/doi:{quoted(doi)}"},
        by_default=True,
        search=lambda words, rows, _: (
            f"https://api.openalex.org/works?search={quoted(' '.join(words))}&per-page={rows}"
        ),
        references={"openalex": _openalex_related("cited_by")},
        cited_by={"openalex": _openalex_related("cites")},
    ),
    Source(
        "europepmc",
        precedence=4,
        first={"pmcid": lambda name, _: _europepmc(f"PMCID:{name}")},
        more={
            "doi": _europepmc_doi,
            "pmid": lambda name, _: _europepmc(f"EXT_ID:{name} AND SRC:MED"),
        },
        by_default=True,
        documents={
            "pmcid": lambda name, _: (
                f"https://www.ebi.ac.uk/europepmc/webservices/rest/{name}/fullTextXML"
            )
        },
        document_types=XML,
        search=lambda words, rows, _: _europepmc(" ".join(words), rows),
    ),
    Source(
        "unpaywall",
        precedence=8,
        more={"doi": _unpaywall},
        by_default=True,
        contact_host="api.unpaywall.org",
    ),
    Source(
        "semanticscholar",
        precedence=7,
        more={name.lower(): _semanticscholar(name) for name in _S2_IDS},
        references={name.lower(): _semanticscholar_related(name, "references") for name in _S2_IDS},
        cited_by={name.lower(): _semanticscholar_related(name, "citations") for name in _S2_IDS},
    ),
)
IDENTIFIERS: Final = (
    IdentifierScheme(
        "arxiv",
        r"(?:[0-9]{4}\.[0-9]{4,5}|[a-z-]{2,12}(?:\.[a-z]{2})?/[0-9]{7})(?:v[0-9]{1,3})?",
        ("http://arxiv.org/abs/", "https://arxiv.org/abs/", "arxiv:"),
    ),
    IdentifierScheme(
        "citekey",  # the operator's own name for a work, in BibTeX
        r"[A-Za-z0-9_][A-Za-z0-9_:.+/-]{0,99}",
        of_one_work=False,
        cased=True,
    ),
    IdentifierScheme(
        "doi",
        r"10\.[0-9]{4,9}(?:\.[0-9]{1,9})*/[!-~\u00a1-\ud7ff]{1,180}",
        (
            "https://doi.org/",
            "http://doi.org/",
            "https://dx.doi.org/",
            "http://dx.doi.org/",
            "doi:",
        ),
    ),
    IdentifierScheme(
        "isbn",
        r"(?:97[89][0-9]{10}|[0-9]{9}[0-9x])",
        ("http://id.crossref.org/isbn/", "https://id.crossref.org/isbn/", "urn:isbn:"),
        upper=True,
        of_one_work=False,
    ),
    IdentifierScheme(
        "issn",
        r"[0-9]{4}-[0-9]{3}[0-9x]",
        ("http://id.crossref.org/issn/",),
        upper=True,
        of_one_work=False,
    ),
    IdentifierScheme("openalex", r"w[1-9][0-9]{0,14}", ("https://openalex.org/",), upper=True),
    IdentifierScheme(
        "pmcid",
        r"pmc[1-9][0-9]{0,9}",
        ("https://www.ncbi.nlm.nih.gov/pmc/articles/", "https://pmc.ncbi.nlm.nih.gov/articles/"),
        upper=True,
    ),
    IdentifierScheme("pmid", r"[1-9][0-9]{0,9}", ("https://pubmed.ncbi.nlm.nih.gov/", "pmid:")),
    IdentifierScheme("semanticscholar", r"[0-9a-f]{40}"),
)

# Why a source has no answer.
GAP_REASONS: Final = ("denied", "failed", "not-found", "timed-out", "too-large", "unreadable")
# Sources that are not asked: the operator imports from them.
LOCAL_SOURCES: Final = ("file", "git", "zotero")
SOURCE_NAMES: Final = tuple(sorted((*(source.name for source in SOURCES), "url", *LOCAL_SOURCES)))
PRECEDENCE: Final = tuple(
    source.name for source in sorted(SOURCES, key=lambda source: source.precedence)
)
IDENTIFIER_SCHEMES: Final = tuple(scheme.name for scheme in IDENTIFIERS)
WORK_SCHEMES: Final = tuple(scheme.name for scheme in IDENTIFIERS if scheme.of_one_work)
