"""Whatever is asked for a reference: the shipped policy covers it, and its grammar reads it."""

import pytest

from tests.support.policies import policy
from threegate.artifacts import references
from threegate.artifacts.references import (
    ENRICHERS,
    RELATIONS,
    SEARCHABLE,
    Reference,
    parse_reference,
    questions,
    related_questions,
    search_question,
)
from threegate.artifacts.sources import SOURCE_NAMES, SOURCES
from threegate.base.limits import MAX_URL_CHARS
from threegate.policy.decide import may_fetch
from threegate.policy.decision import Allow, Ask, Deny

POLICY = policy()
REFERENCES = (
    "doi:10.5555/12345678",
    "doi:10.1002/(SICI)1097-4695(20000205)42:2<270::AID-NEU10>3.0.CO;2-V",
    "doi:10.5555/a?b#c&d=e%20f\"g'h\\i;j[k]",
    "arxiv:1706.03762v5",
    "arxiv:hep-th/9901001",
    "pmid:31452104",
    "pmcid:PMC7029158",
    "openalex:W2741809807",
)


@pytest.mark.parametrize("text", REFERENCES)
@pytest.mark.parametrize("contact", [None, "first.last+x@library.example.org"])
def test_every_question_is_within_the_shipped_policy(text: str, contact: str | None) -> None:
    asked = questions(parse_reference(text), want="full-text", enrich=ENRICHERS, contact=contact)
    assert asked
    for question in asked:
        assert question.source in SOURCE_NAMES
        assert isinstance(may_fetch(POLICY, question.url, integrity="operator"), Allow)
        assert isinstance(may_fetch(POLICY, question.url), Ask)
        types = POLICY.words("fetch", "hosts", question.url.split("/")[2], "content_types")
        assert {kind.partition(";")[0] for kind in question.accept.split(", ")} & set(types)


def test_every_source_is_asked_about_one_of_these_references() -> None:
    asked = {
        question.source
        for text in REFERENCES
        for question in questions(parse_reference(text), enrich=ENRICHERS, contact="a@b.org")
    }
    missing = {source.name for source in SOURCES} - asked
    assert not missing, "add a reference that this source knows to REFERENCES"


@pytest.mark.parametrize("source", SEARCHABLE)
def test_every_search_is_within_the_shipped_policy(source: str) -> None:
    url = search_question(source, "sea ice", 20, "a@b.org").url
    assert isinstance(may_fetch(POLICY, url, integrity="operator"), Allow)


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_list_of_related_works_is_within_the_shipped_policy(relation: str) -> None:
    sources = RELATIONS[relation]
    asked = {
        question.url: question.source
        for text in REFERENCES
        for question in related_questions(
            relation, [parse_reference(text)], 100, sources=sources, contact="a@b.org"
        )
    }
    assert set(asked.values()) == set(sources)
    for url in asked:
        assert isinstance(may_fetch(POLICY, url, integrity="operator"), Allow), url


def test_a_plain_url_is_judged_by_policy_alone() -> None:
    """The grammar of references bounds a URL; what may be asked for is said elsewhere."""
    hidden = "https://api.crossref.org@evil.example/"
    for text in ("https://example.org/", hidden, "https://1.2.3.4/"):
        reference = parse_reference(text)
        assert reference == Reference("url", text)
        assert isinstance(may_fetch(POLICY, text, integrity="operator"), Deny)


def test_the_bounds_of_references_are_those_of_artifacts() -> None:
    assert references.MAX_REFERENCE_CHARS == MAX_URL_CHARS
