"""How fast a host is asked: spacing, pauses, waits that grow and end."""

import pytest

from tests.support.fetches import got
from threegate.gates.fetch.retrieve.messages import NotGot
from threegate.host.fetch.host_rules import (
    MAX_TRIES,
    NO_NETWORK,
    RateBucket,
    jitter,
    stated_rate,
    wait_before_again,
)

URL = "https://api.crossref.org/works/1"


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def refused(status: int | None, *, code: str = "TG-FET-019", after: int | None = None) -> NotGot:
    return NotGot(code, "failed", "not now", URL, (), after, status)


def test_one_after_the_other_at_the_rate_of_the_rule() -> None:
    bucket = RateBucket(10, clock=Time())
    assert [bucket.take() for _ in range(4)] == [0.0, 6.0, 12.0, 18.0]


def test_a_second_worth_at_once_where_the_rate_allows_it() -> None:
    time = Time()
    bucket = RateBucket(240, clock=time)
    time.now += 10
    waits = [bucket.take() for _ in range(6)]
    assert waits == pytest.approx([0.0, 0.0, 0.0, 0.0, 0.25, 0.5])


def test_time_that_passed_is_not_saved_up() -> None:
    time = Time()
    bucket = RateBucket(10, clock=time)
    bucket.take()
    time.now += 3_600
    assert [bucket.take(), bucket.take()] == [0.0, 6.0]


def test_a_pause_holds_for_everybody() -> None:
    time = Time()
    bucket = RateBucket(6_000, clock=time)
    bucket.pause(30.0)
    assert bucket.take() == 30.0
    time.now += 31
    assert bucket.take() == 0.0


@pytest.mark.parametrize(
    ("limits", "rate"),
    [
        ({"x-rate-limit-limit": "5", "x-rate-limit-interval": "1s"}, 300),
        ({"x-rate-limit-limit": "1", "x-rate-limit-interval": "90s"}, 1),
        ({"x-rate-limit-limit": "5"}, None),
        ({"x-rate-limit-limit": "-5", "x-rate-limit-interval": "1s"}, None),
        ({"x-rate-limit-limit": "5", "x-rate-limit-interval": "0s"}, None),
        ({}, None),
    ],
)
def test_what_a_host_says_of_its_rate(limits: dict[str, str], rate: int | None) -> None:
    assert stated_rate(limits) == rate


def test_a_host_can_slow_us_down_and_not_speed_us_up() -> None:
    bucket = RateBucket(60, clock=Time())
    bucket.heed(6_000)
    assert bucket.rate_per_minute == 60
    bucket.heed(10)
    assert [bucket.take(), bucket.take()] == [0.0, 6.0]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_host_is_asked_again_later_each_time(status: int) -> None:
    waits = [wait_before_again(refused(status), tries, lambda: 1.0) for tries in (1, 2, 3)]
    assert waits == [1.0, 2.0, 4.0]
    assert wait_before_again(refused(status), MAX_TRIES, lambda: 1.0) is None, "an end to it"


def test_the_host_says_when() -> None:
    assert wait_before_again(refused(429, after=30), 1, lambda: 1.0) == 30.0
    assert wait_before_again(refused(429, after=0), 3, lambda: 1.0) == 4.0, "never sooner"
    assert wait_before_again(refused(503, after=3_600), 1, lambda: 1.0) is None, "another day"


@pytest.mark.parametrize("code", ["TG-FET-012", "TG-FET-013", "TG-FET-016", "TG-FET-066"])
def test_what_was_lost_on_the_way_is_asked_for_again(code: str) -> None:
    assert wait_before_again(refused(None, code=code), 1, lambda: 1.0) == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        refused(404),
        refused(403),
        refused(None, code="TG-FET-014"),
        refused(None, code="TG-FET-031"),
    ],
)
def test_what_stays_so_is_not_asked_again(answer: NotGot) -> None:
    assert wait_before_again(answer, 1, lambda: 1.0) is None
    assert wait_before_again(got(URL, b""), 1, lambda: 1.0) is None


def test_a_network_that_is_gone_is_waited_for_only_if_it_was_there() -> None:
    gone = refused(None, code=NO_NETWORK)
    assert wait_before_again(gone, 1, lambda: 1.0, was_online=True) == 1.0
    assert wait_before_again(gone, 1, lambda: 1.0, was_online=False) is None


def test_nobody_returns_together() -> None:
    found = {jitter() for _ in range(200)}
    assert len(found) > 20
    assert all(0.5 <= number <= 1.5 for number in found)
