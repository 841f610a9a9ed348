"""Sizes and times: one integer each, and no spelling that a reader would take for another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.policy.leaves import BYTES, COUNT, MILLISECONDS, SECONDS, Unit


@pytest.mark.parametrize(
    ("unit", "text", "number"),
    [
        (BYTES, "32MiB", 32 * 2**20),
        (BYTES, "33554432", 32 * 2**20),
        (BYTES, "1TiB", 2**40),
        (BYTES, "0", 0),
        (SECONDS, "90s", 90),
        (SECONDS, "24h", 86_400),
        (SECONDS, "7d", 604_800),
        (MILLISECONDS, "2s", 2_000),
        (MILLISECONDS, "1500ms", 1_500),
        (COUNT, "7", 7),
    ],
)
def test_units_convert_to_the_canonical_one(unit: Unit, text: str, number: int) -> None:
    assert unit.parse(text) == number


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (BYTES, "32MB"),  # a thousand or 1024?
        (BYTES, "32mib"),
        (BYTES, "32M"),
        (BYTES, "32 MiB"),
        (BYTES, "1.5MiB"),
        (BYTES, "-1"),
        (BYTES, "+1"),
        (BYTES, "01"),
        (BYTES, "1_000"),
        (BYTES, "1e3"),
        (BYTES, "0x10"),
        (BYTES, "٣"),  # int() reads it as 3
        (BYTES, "²"),
        (BYTES, "1\n"),
        (BYTES, ""),
        (BYTES, "MiB"),
        (BYTES, "9" * 17),
        (SECONDS, "90S"),
        (SECONDS, "1m30s"),
        (SECONDS, "100ms"),  # not a whole number of seconds
        (MILLISECONDS, "1d"),
        (COUNT, "7s"),
    ],
)
def test_ambiguous_spelling_is_refused(unit: Unit, text: str) -> None:
    with pytest.raises(ValueError, match=r"\Aexpected a (?:whole )?number"):
        unit.parse(text)


@given(st.sampled_from([BYTES, SECONDS, MILLISECONDS, COUNT]), st.integers(0, 10**16 - 1))
def test_what_is_shown_reads_back(unit: Unit, number: int) -> None:
    assert unit.parse(unit.show(number)) == number


def test_shown_in_the_largest_exact_unit() -> None:
    assert [BYTES.show(n) for n in (0, 1, 1024, 1536, 2**30)] == ["0", "1", "1KiB", "1536", "1GiB"]
    assert [SECONDS.show(n) for n in (59, 60, 3_600, 86_400)] == ["59s", "1m", "1h", "1d"]
