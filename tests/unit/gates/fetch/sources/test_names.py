"""Identifiers: one spelling each, and nothing that only looks like one."""

import pytest

from tests.support.normalization import shown
from threegate.gates.fetch.sources.dates import from_text, month_number
from threegate.gates.fetch.sources.metadata import PartialDate
from threegate.gates.fetch.sources.names import identifier


@pytest.mark.parametrize(
    ("scheme", "spelled", "value"),
    [
        ("doi", "10.5555/ABC", "10.5555/abc"),
        ("doi", "https://doi.org/10.5555/ABC", "10.5555/abc"),
        ("doi", "doi:10.1002/(SICI)1096<1::AID>3.0.CO;2-#", "10.1002/(sici)1096<1::aid>3.0.co;2-#"),
        ("arxiv", "http://arxiv.org/abs/quant-ph/0201082v1", "quant-ph/0201082v1"),
        ("arxiv", "math.AG/0001001", "math.ag/0001001"),
        ("arxiv", "arXiv:2101.00001", "2101.00001"),
        ("pmid", "https://pubmed.ncbi.nlm.nih.gov/77/", "77"),
        ("pmcid", "https://www.ncbi.nlm.nih.gov/pmc/articles/9", "PMC9"),
        ("pmcid", "pmc9", "PMC9"),
        ("openalex", "https://openalex.org/w1", "W1"),
        ("isbn", "http://id.crossref.org/isbn/978-3-16-148410-0", "9783161484100"),
        ("issn", "1234-567x", "1234-567X"),
        ("semanticscholar", "A" * 40, "a" * 40),
    ],
)
def test_identifier_has_one_spelling(scheme: str, spelled: str, value: str) -> None:
    found = identifier(scheme, spelled)
    assert found is not None
    assert (found.scheme, shown(found.value)) == (scheme, value)
    assert identifier(scheme, value) == found


@pytest.mark.parametrize(
    ("scheme", "spelled"),
    [
        ("doi", "10.5555"),
        ("doi", "10.5555/"),
        ("doi", "10.5555/a b"),
        ("doi", "10.5555/a\nb"),
        ("doi", "10.5555/a\u200bb"),
        ("doi", "10.5555/a\u202eb"),
        ("doi", "10.5555/" + "a" * 200),
        ("doi", "https://evil.example/10.5555/abc"),
        ("arxiv", "2101.1"),
        ("arxiv", "../2101.00001"),
        ("pmid", "0"),
        ("pmid", "٧٧"),
        ("pmid", "77&db=x"),
        ("issn", "1234567"),
        ("isbn", "123"),
        ("openalex", "A1"),
        ("semanticscholar", "a" * 39),
    ],
)
def test_what_is_no_identifier(scheme: str, spelled: str) -> None:
    assert identifier(scheme, spelled) is None


@pytest.mark.parametrize(
    ("text", "date", "whole"),
    [
        ("2020", PartialDate(2020), True),
        ("2020-7", PartialDate(2020, 7), True),
        ("2020-07-01T00:00:00Z", PartialDate(2020, 7, 1), True),
        ("2020-07-32", PartialDate(2020, 7), False),
        ("2020-00-00", PartialDate(2020), False),
        ("0999", None, False),
        ("2020/07/01", None, False),
        ("٢٠٢٠", None, False),
        ("2020-07-01" + "x" * 100, None, False),
        ("", None, False),
    ],
)
def test_date_in_text(text: str, date: PartialDate | None, whole: bool) -> None:
    assert from_text(text) == (date, whole)


def test_months() -> None:
    assert [month_number(name) for name in ("7", "07", "Jul", "july")] == [7] * 4
    assert month_number("Michaelmas") is None
