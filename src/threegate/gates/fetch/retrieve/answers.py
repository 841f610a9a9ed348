"""What is handed to the host: an answer, or why there is none, without the credential.

SECURITY
    Turns what a server said into the forms of `messages`.  A header that is not of
    its form, or repeats the credential, is left out.
"""

import re
import time

from threegate.base import limits
from threegate.base.credentials import Secret
from threegate.base.forms import REDACTED
from threegate.base.text import visible
from threegate.gates.fetch.retrieve.messages import (
    ETAG,
    HTTP_DATE,
    RATE_HEADER,
    RATE_VALUE,
    Got,
    Hops,
    NotGot,
)
from threegate.gates.fetch.retrieve.waits import retry_after
from threegate.gates.http_library.client import Failure, NotRetrieved, ResponseHead


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
    """Return the answer; `types` are what the server called it and what it may be read as."""
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


def _of_form(value: str | None, form: re.Pattern[str], secret: Secret) -> str | None:
    if value is None or form.fullmatch(value) is None or secret.stands_in_text(value):
        return None
    return value


def _rates(head: ResponseHead, secret: Secret) -> dict[str, str]:
    found = {
        name: value
        for name, value in sorted(head.headers.items())
        if RATE_HEADER.fullmatch(name)
        and RATE_VALUE.fullmatch(value)
        and not secret.stands_in_text(f"{name} {value}")
    }
    return dict(list(found.items())[: limits.MAX_RATE_HEADERS])


def not_got(error: NotRetrieved, secret: Secret, *, url: str | None, hops: Hops) -> NotGot:
    """Return why there is no answer."""
    why, message = error.failure, sentence(error.message)
    if secret.stands_in_text(message):  # a host name may be made of it
        message = f"the server's words repeat the credential: {REDACTED}"
    return NotGot(why.code, why.reason, message, url, hops, error.retry_after, error.status)


def bug() -> NotGot:
    """Return the answer to a question that met an error nobody thought of."""
    return NotGot(Failure.BUG.code, Failure.BUG.reason, "the gate failed on this answer", None, ())


def sentence(text: str) -> str:
    """Return our own words as one line that may stand in a message."""
    return visible(text)[: limits.MAX_LINE_CHARS]
