"""Each source is declared once: its row, its module and the lists made of the rows agree."""

from importlib import import_module

import pytest

from threegate.artifacts.sources import (
    IDENTIFIER_SCHEMES,
    LOCAL_SOURCES,
    PRECEDENCE,
    SOURCE_NAMES,
    SOURCES,
    Source,
)
from threegate.base.identifiers import SCHEMES

VALUES = {"doi": "10.5555/a?b#c/../d", "arxiv": "1706.03762v5", "pmid": "1", "pmcid": "PMC1"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_source_has_a_reader_of_its_name(source: Source) -> None:
    assert (
        import_module(f"threegate.gates.fetch.sources.{source.name}").READER.source == source.name
    )


def test_no_two_sources_have_one_name_or_one_place() -> None:
    assert len(PRECEDENCE) == len(SOURCES) == len({source.precedence for source in SOURCES})
    assert sorted((*PRECEDENCE, "url", *LOCAL_SOURCES)) == list(SOURCE_NAMES)
    assert list(IDENTIFIER_SCHEMES) == sorted(set(IDENTIFIER_SCHEMES))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_source_is_asked_about_references_at_one_host_each(source: Source) -> None:
    asked = [*source.first.items(), *source.more.items(), *source.documents.items()]
    assert asked
    assert set(source.after) <= set(source.first)
    assert set(source.after.values()) <= set(PRECEDENCE)
    assert bool(source.documents) == bool(source.document_types)
    for scheme, url in asked:
        assert scheme in SCHEMES
        made = url(VALUES.get(scheme, "W1"), "first.last+x@library.example.org")
        assert made is not None
        path, _, query = made.partition("?")
        assert path.startswith("https://")
        # What an identifier holds cannot end the path or the query.
        assert "#" not in made
        assert "?" not in query
        assert ("first.last" in made) <= (path.split("/")[2] == source.contact_host)
