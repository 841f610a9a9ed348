"""The rule of a host: rate, concurrency and byte limits from policy, pacing, and retries.

No threads start here.
"""

import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Final

from threegate.gates.fetch.retrieve.messages import MAX_BODY_BYTES, Got, NotGot
from threegate.host.fetch.budgets import BudgetLeft, Budgets
from threegate.policy.bundle import Bundle
from threegate.policy.hosts import matches

ALL_HOSTS: Final = "_all"  # the budget of all hosts together; not a valid host name
NO_RATE: Final = 2**31  # all hosts together have a budget of bytes, not of requests


@dataclass(frozen=True, slots=True)
class HostLimits:
    """The rule that covers a host."""

    pattern: str
    rate_per_minute: int
    concurrency: int
    bytes_per_day: int
    response_bytes: int

    @property
    def budget(self) -> str:
        """Return the name of its budget.

        Of the rule, not of the host: the owner of a wildcard domain can invent host names.
        """
        return self.pattern.replace("*.", "_any.", 1)


def rule_for(bundle: Bundle, host: str) -> HostLimits | None:
    """Return the rule that covers `host`, None if there is none."""
    for pattern in bundle.words("fetch", "hosts"):
        if matches(pattern, host):
            path = ("fetch", "hosts", pattern)
            return HostLimits(
                pattern,
                rate_per_minute=bundle.integer(*path, "rate_per_minute"),
                concurrency=bundle.integer(*path, "concurrency"),
                bytes_per_day=bundle.integer(*path, "bytes_per_day"),
                response_bytes=min(bundle.integer(*path, "response_bytes"), MAX_BODY_BYTES),
            )
    return None


def left_for(budgets: Budgets, bundle: Bundle, rule: HostLimits) -> BudgetLeft:
    """Return what is left for a host now, within its own budget and that of all hosts."""
    own = budgets.left(
        rule.budget, rate_per_minute=rule.rate_per_minute, bytes_per_day=rule.bytes_per_day
    )
    total = bundle.integer("fetch", "bytes_per_day")
    total_left = budgets.left(ALL_HOSTS, rate_per_minute=NO_RATE, bytes_per_day=total)
    return BudgetLeft(own.requests, min(own.bytes, total_left.bytes))


MAX_TRIES: Final = 4
FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 120.0  # a host that wants more is asked another day
# Statuses of busy servers and load balancers.
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
# Temporary failures: no connection, no free tunnel, an answer cut off, a sandbox that ended.  A
# wrong certificate or a refused redirect is permanent.
_LOST: Final = frozenset({"TG-FET-012", "TG-FET-013", "TG-FET-016", "TG-FET-066"})
NO_NETWORK: Final = "TG-FET-032"  # temporary only if there was a network earlier in the run
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,5}")
_SPAN: Final = re.compile(r"([1-9][0-9]{0,3})s")


class RateBucket:
    """Token bucket with a steady rate; the burst is one second's worth, at least one token."""

    def __init__(
        self, rate_per_minute: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock, self._lock = clock, Lock()
        self._next = clock()
        self.rate_per_minute = rate_per_minute

    @property
    def rate_per_minute(self) -> int:
        """Return the tokens per minute."""
        return self._rate

    @rate_per_minute.setter
    def rate_per_minute(self, rate: int) -> None:
        self._rate = rate
        self._spacing = 60.0 / rate
        self._burst = max(1, rate // 60)

    def heed(self, rate: int | None) -> None:
        """Slow down to the rate that the host states; it cannot raise the rate of the rule."""
        if rate is not None and rate < self._rate:
            self.rate_per_minute = rate

    def take(self) -> float:
        """Take a token; return the seconds until it counts."""
        with self._lock:
            now = self._clock()
            self._next = max(self._next, now - (self._burst - 1) * self._spacing)
            wait = max(0.0, self._next - now)
            self._next += self._spacing
            return wait

    def pause(self, seconds: float) -> None:
        """Give no token before `seconds` have passed."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)


def stated_rate(limits: Mapping[str, str]) -> int | None:
    """Return the requests per minute that a host states, None if it states nothing clear."""
    most = _NUMBER.fullmatch(limits.get("x-rate-limit-limit", ""))
    span = _SPAN.fullmatch(limits.get("x-rate-limit-interval", ""))
    if most is None or span is None:
        return None
    return max(1, int(most[0]) * 60 // int(span[1]))


def wait_before_again(
    answer: Got | NotGot, tries: int, jitter: Callable[[], float], *, was_online: bool = True
) -> float | None:
    """Return the seconds before the next try, None if there should be none.

    `was_online`: some server answered before, so a lost network may come back.
    `jitter` returns a number from 0.5 to 1.5: questions that failed together retry apart.
    """
    if isinstance(answer, Got) or tries >= MAX_TRIES:
        return None
    gone = answer.code == NO_NETWORK and was_online
    lost = (answer.code in _LOST or gone) and answer.reason == "failed"
    if not lost and answer.status not in _BUSY:
        return None
    grown = FIRST_WAIT_SECONDS * 2 ** (tries - 1) * jitter()
    wait = max(grown, float(answer.retry_after or 0))
    return wait if wait <= LONGEST_WAIT_SECONDS else None


def jitter() -> float:
    """Return a random number from 0.5 to 1.5."""
    return 0.5 + secrets.randbelow(1001) / 1000
