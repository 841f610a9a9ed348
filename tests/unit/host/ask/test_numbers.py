"""Numbers of a claim against its quotes."""

import pytest

from threegate.host.ask.labels import differing


@pytest.mark.parametrize(
    ("claim", "quote"),
    [
        ("It broke at 1.2 MPa", "broke at 1.20 MPa"),
        ("1200 km", "a way of 1,200 km"),
        ("1,200 km", "1200 km"),
        ("12 percent", "12%"),
        ("between 3 and 5", "3-5 days"),
        ("CO2 rose", "CO2 fell"),
        ("at -5 degrees", "at \u22125 \u00b0C"),
        ("no number at all", "none"),
        ("70 900 km", "70 900 km"),
        ("in 2019, 310 of them", "in 2019 310 of them"),
    ],
)
def test_the_same_number_in_another_spelling(claim: str, quote: str) -> None:
    assert differing(claim, [quote]) == []


@pytest.mark.parametrize(
    ("claim", "quote", "found"),
    [
        ("It broke at 1.3 MPa", "broke at 1.2 MPa", ["1.3"]),
        ("200 km", "1,200 km", ["200"]),
        ("5 degrees", "-5 degrees", ["5"]),
        ("14 of 20", "14 beams", ["20"]),
        ("a 7 out of nowhere", "", ["7"]),
        ("1" * 50, "1" * 49, ["1" * 50]),
    ],
)
def test_another_number_is_found(claim: str, quote: str, found: list[str]) -> None:
    assert differing(claim, [quote]) == found


def test_a_number_may_stand_in_any_of_the_quotes() -> None:
    assert differing("14 and 20", ["14 beams", "20 rods"]) == []
