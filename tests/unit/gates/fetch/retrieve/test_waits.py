"""`Retry-After`: seconds or a date, at most a day."""

import pytest

from threegate.base.limits import MAX_RETRY_AFTER_SECONDS
from threegate.gates.fetch.retrieve.answers import http_date, retry_after

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
MOMENT = 784_111_777.0


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        ("0", 0),
        ("120", 120),
        ("9999999999", MAX_RETRY_AFTER_SECONDS),
        ("99999999999", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        (DATE, 60),
        ("Sun, 06 Nov 1994 08:48:00 GMT", 0),
        ("Sun, 06 Nov 2094 08:49:37 GMT", MAX_RETRY_AFTER_SECONDS),
        ("Sun, 31 Feb 1994 08:49:37 GMT", None),
        ("Sunday, 06-Nov-94 08:49:37 GMT", None),
    ],
)
def test_a_wait_is_a_number_of_seconds_within_a_day(value: str | None, wanted: int | None) -> None:
    assert retry_after(value, now=MOMENT - 60) == wanted


def test_a_date_is_the_moment_it_names() -> None:
    assert http_date(DATE) == MOMENT
    assert http_date(DATE + " ") is None
