"""Any bytes, any JSON, any status: a work, not found, or unreadable for a known reason."""

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.normalization import JSON, XML, crossref_work
from threegate.artifacts.limits import MAX_AUTHORS, MAX_TITLE_CHARS
from threegate.artifacts.sources import SOURCES
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources import (
    arxiv,
    crossref,
    datacite,
    europepmc,
    jats,
    openalex,
    pubmed,
    semanticscholar,
    unpaywall,
)
from threegate.gates.fetch.sources.merge import Answer, merge
from threegate.gates.fetch.sources.metadata import (
    UNREADABLE_REASONS,
    Metadata,
    NotFound,
    Unreadable,
)

Parser = Callable[..., object]


def parsers(*, in_json: bool) -> Iterator[Parser]:
    """Yield the readers of every source that answers in JSON, or in XML."""
    for source in SOURCES:
        if ("json" in source.accept) is in_json:
            module = import_module(f"threegate.gates.fetch.sources.{source.name}")
            yield module.READER.one
            if source.references or source.cited_by:
                yield module.RELATED.one


JSON_PARSERS = tuple(parsers(in_json=True))
XML_PARSERS = (*parsers(in_json=False), jats.READER.one)
KEYS = sorted({
    "DOI", "abstract", "abstractText", "abstract_inverted_index", "agency", "attributes", "author",
    "article-title", "authorList", "authors", "authorships", "citedPaper", "citingPaper",
    "commentCorrectionList", "container", "creators",
    "data", "date-parts", "dates", "descriptions", "doi", "externalIds", "family", "id", "ids",
    "is_retracted", "issued", "items", "license", "link", "locations", "message", "message-type",
    "name", "oa_locations", "paperId", "primary_location", "pubTypeList", "publicationDate",
    "publication_date", "reference", "relatedIdentifiers", "result", "resultList", "results",
    "rightsList", "status", "title", "titles", "type", "update-to", "updated-by", "year",
    "z_authors",
})  # fmt: skip
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(["ok", "work", "work-list", "10.5555/1", "2020-01-01", "<i>", "&lt;p&gt;"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=20,
)


def judge(parse: Parser, data: bytes, status: int, media_type: str) -> object:
    """Return the outcome, which must be of the documented kinds, twice the same."""
    outcome = parse(Untrusted(data), status=status, media_type=media_type)
    assert outcome == parse(Untrusted(data), status=status, media_type=media_type)
    assert isinstance(outcome, Metadata | NotFound | Unreadable)
    if isinstance(outcome, Unreadable):
        assert outcome.reason in UNREADABLE_REASONS
    if isinstance(outcome, Metadata):
        assert len(outcome.authors) <= MAX_AUTHORS
        assert outcome.title is None or len(outcome.title.open_for_display()) <= MAX_TITLE_CHARS
        assert merge([Answer(Untrusted("x"), outcome)]).title == outcome.title
    return outcome


@given(st.binary(max_size=200), st.sampled_from([200, 200, 400, 404, 422, 500]))
def test_any_bytes(data: bytes, status: int) -> None:
    for parse in JSON_PARSERS:
        judge(parse, data, status, JSON)
    for parse in XML_PARSERS:
        judge(parse, data, status, XML)


@given(VALUES)
def test_any_json(value: Any) -> None:
    data = json.dumps(value).encode("ascii")
    for parse in JSON_PARSERS:
        judge(parse, data, 200, JSON)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
def test_any_fields_in_the_right_frame(fields: dict[str, Any]) -> None:
    frames: list[tuple[Parser, object]] = [
        (crossref.READER.one, crossref_work(**fields)),
        (datacite.READER.one, {"data": {"attributes": fields}}),
        (openalex.READER.one, {"doi": None, **fields, "results": None}),
        (europepmc.READER.one, {"resultList": {"result": [fields]}}),
        (semanticscholar.READER.one, {**fields, "data": [fields]}),
        (crossref.RELATED.one, crossref_work(reference=[fields])),
        (semanticscholar.RELATED.one, {"data": [{"citedPaper": fields}]}),
        (unpaywall.READER.one, {"doi": None, **fields, "results": None}),
    ]
    for parse, frame in frames:
        outcome = judge(parse, json.dumps(frame).encode("ascii"), 200, JSON)
        assert isinstance(outcome, Metadata), "control: the frame is one of that source"


TAGS = st.sampled_from(
    ["entry", "title", "id", "author", "name", "published", "summary", "link", "PubmedArticle",
     "MedlineCitation", "Article", "PMID", "ArticleTitle", "PubDate", "Year", "article", "front",
     "article-meta", "title-group", "article-title", "pub-date", "year", "contrib"]
)  # fmt: skip
TREES = st.recursive(
    st.text(alphabet="ab 2021<&", max_size=6).map(
        lambda text: text.replace("&", "&amp;").replace("<", "&lt;")
    ),
    lambda inner: st.tuples(TAGS, st.lists(inner, max_size=4)).map(
        lambda pair: f"<{pair[0]}>{''.join(pair[1])}</{pair[0]}>"
    ),
    max_leaves=15,
)


@given(TREES)
def test_any_tree_in_the_right_frame(tree: str) -> None:
    frames: list[tuple[Parser, str]] = [
        (arxiv.READER.one, f'<feed xmlns="{arxiv.ATOM}"><entry>{tree}</entry></feed>'),
        (
            pubmed.READER.one,
            f"<PubmedArticleSet><PubmedArticle>{tree}</PubmedArticle></PubmedArticleSet>",
        ),
        (jats.READER.one, f"<article>{tree}</article>"),
    ]
    for parse, frame in frames:
        outcome = judge(parse, frame.encode(), 200, XML)
        assert isinstance(outcome, Metadata | NotFound | Unreadable)
