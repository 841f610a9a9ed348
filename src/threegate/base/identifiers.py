"""The grammar of references: which work, or which URL, a text names.

| scheme | spelled | also read from |
|---|---|---|
| `doi` | `doi:10.5555/12345678` | `10.5555/12345678`, `https://doi.org/…` |
| `arxiv` | `arxiv:1706.03762v5`, `arxiv:hep-th/9901001` | `https://arxiv.org/abs/…`, `/pdf/…` |
| `pmid` | `pmid:31452104` | `https://pubmed.ncbi.nlm.nih.gov/…/` |
| `pmcid` | `pmcid:PMC7029158` | `https://pmc.ncbi.nlm.nih.gov/articles/…/` |
| `openalex` | `openalex:W2741809807` | `https://openalex.org/…` |
| `url` | the URL itself | |

SECURITY
    Reads references that CORE may have written under the influence of hostile text.  A URL is an
    outbound channel: text outside a grammar is refused, never repaired.  A plain URL
    is only bounded here; `policy.hosts` judges it before it is requested.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from threegate.base.text import FORBIDDEN

PREFIXED: Final = ("doi", "arxiv", "pmid", "pmcid", "openalex")  # written as `scheme:value`
SCHEMES: Final = (*PREFIXED, "url")

MAX_REFERENCE_CHARS: Final = 2_048
MAX_DOI_CHARS: Final = 200
MAX_ENCODED_DOI_CHARS: Final = 1_200  # leaves room in a URL for everything else in it

_DOI: Final = re.compile(r"10\.[0-9]{4,9}(?:\.[0-9]{1,9})*/[!-~\u00a1-\ud7ff]+")
_DOTS: Final = re.compile(r"/\.{1,2}(?:/|\Z)")
_UPPER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_NEW_ARXIV: Final = re.compile(
    r"(?:0[7-9]|1[0-4])(?:0[1-9]|1[0-2])\.[0-9]{4}|(?:1[5-9]|[2-9][0-9])(?:0[1-9]|1[0-2])\.[0-9]{5}"
)
_OLD_ARXIV: Final = re.compile(
    r"(acc-phys|adap-org|alg-geom|ao-sci|astro-ph|atom-ph|bayes-an|chao-dyn|chem-ph|cmp-lg"
    r"|comp-gas|cond-mat|cs|dg-ga|funct-an|gr-qc|hep-ex|hep-lat|hep-ph|hep-th|math|math-ph"
    r"|mtrl-th|nlin|nucl-ex|nucl-th|patt-sol|physics|plasm-ph|q-alg|q-bio|quant-ph|solv-int"
    r"|supr-con)(?:\.[a-z]{2})?/((?:9[1-9]|0[0-7])(?:0[1-9]|1[0-2])[0-9]{3})"
)
VERSION: Final = re.compile(r"v[1-9][0-9]{0,2}\Z")
_NUMBERS: Final = {
    "pmid": re.compile(r"[1-9][0-9]{0,9}"),
    "pmcid": re.compile(r"PMC[1-9][0-9]{0,9}"),
    "openalex": re.compile(r"W[1-9][0-9]{0,14}"),
}
_PREFIX: Final = re.compile(rf"({'|'.join(PREFIXED)}):", re.IGNORECASE)
# Names under which these hosts are linked to; none of them is asked.
_PAGES: Final = (
    ("doi", re.compile(r"https?://(?:dx\.|www\.)?doi\.org/(?=10\.)", re.IGNORECASE)),
    (
        "arxiv",
        re.compile(r"https?://(?:www\.|export\.)?arxiv\.org/(?:abs|pdf|html)/", re.IGNORECASE),
    ),
    (
        "pmid",
        re.compile(
            r"https?://(?:pubmed\.ncbi\.nlm\.nih\.gov|(?:www\.)?ncbi\.nlm\.nih\.gov/pubmed)/(?=[0-9])",
            re.IGNORECASE,
        ),
    ),
    (
        "pmcid",
        re.compile(
            r"https?://(?:pmc\.ncbi\.nlm\.nih\.gov|(?:www\.)?ncbi\.nlm\.nih\.gov/pmc)"
            r"/articles/(?=PMC[0-9])",
            re.IGNORECASE,
        ),
    ),
    ("openalex", re.compile(r"https?://openalex\.org/(?:works/)?(?=W[0-9])", re.IGNORECASE)),
)
_WHAT: Final = {
    "doi": "a DOI such as doi:10.5555/12345678",
    "arxiv": "an arXiv id such as arxiv:1706.03762 or arxiv:hep-th/9901001",
    "pmid": "a PubMed id such as pmid:31452104",
    "pmcid": "a PubMed Central id such as pmcid:PMC7029158",
    "openalex": "an OpenAlex work such as openalex:W2741809807",
}


@dataclass(frozen=True, slots=True)
class Reference:
    """One work, or one URL, in its only spelling."""

    scheme: str
    value: str

    @property
    def text(self) -> str:
        """Return the spelling that `parse_reference` reads back as this."""
        return self.value if self.scheme == "url" else f"{self.scheme}:{self.value}"


def parse_reference(text: str) -> Reference:
    """Return what `text` refers to, or raise ValueError with a sentence."""
    text = text.strip(" \t\r\n")
    if not text:
        raise ValueError("an empty reference")
    if len(text) > MAX_REFERENCE_CHARS:
        raise ValueError(f"longer than {MAX_REFERENCE_CHARS} characters")
    prefix = _PREFIX.match(text)
    if prefix is not None:
        return _identifier(prefix[1].lower(), text[prefix.end() :])
    for scheme, page in _PAGES:
        found = page.match(text)
        if found is not None:
            return _identifier(scheme, _from_page(scheme, text[found.end() :]))
    if text.startswith("10."):
        return _identifier("doi", text)
    return _plain_url(text)


def _identifier(scheme: str, value: str) -> Reference:
    spelled = _doi(value) if scheme == "doi" else _id(scheme, value)
    if spelled is None:
        raise ValueError(f"not {_WHAT[scheme]}")
    return Reference(scheme, spelled)


def _doi(value: str) -> str | None:
    """DOIs are compared without regard to ASCII case, and to no other (ISO 26324)."""
    if len(value) > MAX_DOI_CHARS or _DOI.fullmatch(value) is None:
        return None
    # `10.5555/../members` is nobody's DOI; behind a path it could be another question.
    if FORBIDDEN.search(value) or _DOTS.search(value) or len(value.split()) > 1:
        return None
    return value.translate(_UPPER) if len(quote(value, safe="")) <= MAX_ENCODED_DOI_CHARS else None


def _id(scheme: str, value: str) -> str | None:
    if scheme == "arxiv":
        return _arxiv(value.lower())
    spelled = value.upper()
    return spelled if _NUMBERS[scheme].fullmatch(spelled) and value.isascii() else None


def _arxiv(value: str) -> str | None:
    found = VERSION.search(value)
    version = "" if found is None else found[0]
    base = value.removesuffix(version)
    if _NEW_ARXIV.fullmatch(base):
        return base + version
    old = _OLD_ARXIV.fullmatch(base)  # the subject class of `math.GT/0309136` is not part of it
    return None if old is None else f"{old[1]}/{old[2]}{version}"


def _from_page(scheme: str, rest: str) -> str:
    """Return the identifier in the rest of a URL, which spells it percent-encoded."""
    if "?" in rest or "#" in rest:
        raise ValueError("a ? or # in a link to a work; leave it out, or write %3F or %23")
    try:
        value = unquote(rest, errors="strict")
    except UnicodeDecodeError as exc:
        raise ValueError("percent-encoding that is not UTF-8") from exc
    if scheme == "doi":
        return value
    return value.removesuffix("/").removesuffix(".pdf")


def _plain_url(text: str) -> Reference:
    if _arxiv(text.lower()) is not None:
        raise ValueError("an arXiv id needs arxiv: before it")
    if text.startswith("https://"):
        if not text.isascii() or re.search(r"[^!-~]", text):
            raise ValueError("a URL with a character that needs percent-encoding")
        return Reference("url", text)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        raise ValueError("a URL that does not begin with https://")
    prefixes = ", ".join(f"{scheme}:" for scheme in PREFIXED)
    raise ValueError(f"neither {prefixes} nor an https:// URL")
