"""What a response means for a question, and the message about it that the host receives.

SECURITY
    Reads status and headers of web servers.  A header that does not have its form, or that
    repeats the credential, is left out.  A part of a file must be exactly the one that was
    asked for: the host checks the digest of the whole, and here a server is kept from making
    the file longer or from putting a part in the place of another.
"""

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from threegate.base.credentials import Secret
from threegate.base.forms import REDACTED
from threegate.base.limits import MAX_LINE_CHARS
from threegate.base.schema import Pattern
from threegate.base.text import visible
from threegate.gates.fetch.retrieve.messages import (
    ETAG,
    HTTP_DATE,
    MAX_DOWNLOAD_BYTES,
    MAX_RATE_HEADERS,
    MAX_RETRY_AFTER_SECONDS,
    PART,
    RATE_HEADER,
    RATE_VALUE,
    FetchQuestion,
    Got,
    Hops,
    NotGot,
)
from threegate.gates.http_library.client import Failure, NotRetrieved, ResponseHead

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
    """Return the time that an HTTP date names; None if it is not one."""
    if not HTTP_DATE.fits(text):
        return None
    _, day, month, year, clock, _ = text.split(" ")
    hour, minute, second = map(int, clock.split(":"))
    number = _MONTHS.index(month) // 3 + 1
    try:
        return datetime(int(year), number, int(day), hour, minute, second, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):  # the 31st of February, a leap second
        return None


# Statuses: only 200 has an answer in its body.

OK: Final = 200
_WORDS: Final = {
    401: (Failure.FORBIDDEN, "the server wants a credential"),
    403: (Failure.FORBIDDEN, "the server refuses"),
    404: (Failure.NOT_FOUND, "the server knows no such thing"),
    410: (Failure.NOT_FOUND, "the server has it no longer"),
    429: (Failure.BUSY, "the server was asked too often"),
    451: (Failure.FORBIDDEN, "the server refuses for legal reasons"),
}


def refuse_status(head: ResponseHead, *, now: float) -> None:
    """Raise `NotRetrieved` unless the status is 200; other bodies are never read."""
    status = head.status
    if status == OK:
        return
    other = (
        (Failure.BROKEN, "the server failed") if status >= 500 else (Failure.STATUS, "no answer")
    )
    why, words = _WORDS.get(status, other)
    wait = retry_after(head.header("retry-after"), now=now)
    raise NotRetrieved(why, f"{words}: status {status}", status=status, retry_after=wait)


# Parts of a file.

_RANGE: Final = re.compile(r"bytes (0|[1-9][0-9]{0,12})-(0|[1-9][0-9]{0,12})/([1-9][0-9]{0,12})")


@dataclass(frozen=True, slots=True)
class FilePart:
    """How many bytes follow, and of how many; without a total it is the whole file."""

    size: int
    total: int | None

    def refuse_other(self, body: bytes) -> None:
        """Raise `NotRetrieved` if a part does not have its announced length."""
        if self.total is not None and len(body) != self.size:
            raise NotRetrieved(
                Failure.CUT, f"a part of {len(body)} bytes that was called {self.size}"
            )


def part_of(ask: FetchQuestion, head: ResponseHead) -> FilePart:
    """Return the part that a response announces; raise `NotRetrieved` for another one."""
    assert ask.first_byte is not None
    if head.status == OK:
        if ask.first_byte:
            raise NotRetrieved(Failure.STATUS, "the server sends no parts", status=head.status)
        return FilePart(ask.most_bytes, None)
    if head.status != PART:
        refuse_status(head, now=time.time())
    found = _RANGE.fullmatch(head.header("content-range") or "")
    if found is None:
        raise NotRetrieved(Failure.ANSWER, "a part that does not say which one it is")
    first, last, total = (int(text) for text in found.groups())
    wanted = min(ask.first_byte + ask.most_bytes, total) - 1
    if (first, last) != (ask.first_byte, wanted) or not first <= last < total:
        raise NotRetrieved(Failure.ANSWER, "another part than the one that was asked for")
    if total > MAX_DOWNLOAD_BYTES:
        raise NotRetrieved(Failure.TOO_LARGE, f"the file is larger than {MAX_DOWNLOAD_BYTES} bytes")
    return FilePart(last - first + 1, total)


# Messages to the host.


def got(
    head: ResponseHead,
    secret: Secret,
    *,
    url: str,
    hops: Hops,
    anchor: str,
    types: tuple[str, str],
    body: bytes,
    total: int | None = None,
) -> Got:
    """Return the answer; `types` are the declared type and the type it may be read as."""
    return Got(
        status=head.status,
        url=url,
        hops=hops,
        media_type=types[0],
        read_as=types[1],
        etag=_of_form(head.header("etag"), ETAG, secret),
        last_modified=_of_form(head.header("last-modified"), HTTP_DATE, secret),
        retry_after=retry_after(head.header("retry-after"), now=time.time()),
        limits=_rates(head, secret),
        trust_anchor=anchor,
        body=body,
        total=total,
    )


def _of_form(value: str | None, form: Pattern, secret: Secret) -> str | None:
    if value is None or not form.fits(value) or secret.stands_in_text(value):
        return None
    return value


def _rates(head: ResponseHead, secret: Secret) -> dict[str, str]:
    found = {
        name: value
        for name, value in sorted(head.headers.items())
        if RATE_HEADER.fits(name)
        and RATE_VALUE.fits(value)
        and not secret.stands_in_text(f"{name} {value}")
    }
    return dict(list(found.items())[:MAX_RATE_HEADERS])


def not_got(error: NotRetrieved, secret: Secret, *, url: str | None, hops: Hops) -> NotGot:
    """Return the message that says why there is no answer."""
    why, message = error.failure, sentence(error.message)
    if secret.stands_in_text(message):  # a host name may contain it
        message = f"the server's words repeat the credential: {REDACTED}"
    return NotGot(why.code, why.reason, message, url, hops, error.retry_after, error.status)


def bug() -> NotGot:
    """Return the message for an unexpected error."""
    return NotGot(Failure.BUG.code, Failure.BUG.reason, "the gate failed on this answer", None, ())


def sentence(text: str) -> str:
    """Return our own text as one line for a message."""
    return visible(text)[:MAX_LINE_CHARS]
