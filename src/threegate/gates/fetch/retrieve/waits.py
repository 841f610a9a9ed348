"""How long a server wants to be left alone: `Retry-After`, in either of its spellings."""

import re
from datetime import UTC, datetime
from typing import Final

from threegate.base.limits import MAX_RETRY_AFTER_SECONDS
from threegate.gates.fetch.retrieve.messages import HTTP_DATE

_SECONDS: Final = re.compile(r"[0-9]{1,10}\Z")
_MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"


def retry_after(value: str | None, *, now: float) -> int | None:
    """Return the seconds to wait, at most a day; None if the server named no time."""
    if value is None:
        return None
    if _SECONDS.match(value):
        return min(int(value), MAX_RETRY_AFTER_SECONDS)
    then = http_date(value)
    if then is None:
        return None
    return max(0, min(int(then - now), MAX_RETRY_AFTER_SECONDS))


def http_date(text: str) -> float | None:
    """Return the moment an HTTP date names; None if it names none."""
    if HTTP_DATE.fullmatch(text) is None:
        return None
    _, day, month, year, clock, _ = text.split(" ")
    hour, minute, second = map(int, clock.split(":"))
    number = _MONTHS.index(month) // 3 + 1
    try:
        return datetime(int(year), number, int(day), hour, minute, second, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):  # the 31st of February, a leap second
        return None
