"""How fast one host is asked: spacing, pauses it asks for, waits that grow.  No threads here."""

import re
import secrets
import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final

from threegate.gates.fetch.retrieve.messages import Got, NotGot

MAX_TRIES: Final = 4
FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 120.0  # a host that wants more is asked another day
# Said by servers that are busy, or behind a balancer that is.
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
# No way to the server, a proxy with no tunnel left, an answer cut off, a box that ended: what
# may be otherwise in a moment.  A wrong certificate or a redirect that is refused stays so.
_LOST: Final = frozenset({"TG-FET-012", "TG-FET-013", "TG-FET-016", "TG-FET-066"})
NO_NETWORK: Final = "TG-FET-032"  # lost as well, if there was a network before in the same run


_NUMBER: Final = re.compile(r"[1-9][0-9]{0,5}")
_SPAN: Final = re.compile(r"([1-9][0-9]{0,3})s")


class Bucket:
    """Tokens that come back at a steady rate: a second's worth at once, at least one."""

    def __init__(
        self, rate_per_minute: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock, self._lock = clock, Lock()
        self._next = clock()
        self.rate_per_minute = rate_per_minute

    @property
    def rate_per_minute(self) -> int:
        """Return how many may be taken in a minute."""
        return self._rate

    @rate_per_minute.setter
    def rate_per_minute(self, rate: int) -> None:
        self._rate = rate
        self._spacing = 60.0 / rate
        self._burst = max(1, rate // 60)

    def heed(self, rate: int | None) -> None:
        """Slow down to what the host says it allows; a faster rate than the rule's is not ours."""
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
        """Let nobody have a token before `seconds` have passed."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)


def rate_told(limits: Mapping[str, str]) -> int | None:
    """Return how many requests a minute a host says it allows, None if it says nothing clear."""
    most = _NUMBER.fullmatch(limits.get("x-rate-limit-limit", ""))
    span = _SPAN.fullmatch(limits.get("x-rate-limit-interval", ""))
    if most is None or span is None:
        return None
    return max(1, int(most[0]) * 60 // int(span[1]))


def wait_before_again(
    answer: Got | NotGot, tries: int, jitter: Callable[[], float], *, was_online: bool = True
) -> float | None:
    """Return the seconds after which to ask again, None if that makes no sense.

    `was_online`: some server answered before, so a network that is gone may come back.
    `jitter` returns a number from 0.5 to 1.5: many who failed together do not return together.
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
    """Return a number from 0.5 to 1.5 that nobody foresees."""
    return 0.5 + secrets.randbelow(1001) / 1000
