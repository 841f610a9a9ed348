"""Messages between the host and a fetch-retrieve sandbox.

A sandbox has one purpose (`policy.purposes`): packets, or a list of downloads, which come in parts
(`first_byte`).  A `FetchQuestion` names one URL.  Every rule it is judged by (hosts, types, sizes,
redirects, time, the user agent, where a credential goes) is in the bundle of the opening.

SECURITY
    Either side may be compromised: the sandbox speaks with the web, and does not trust the host.
    The words of a web server reach these fields only in strict forms: a URL, a media type, an
    entity tag, a date, a number; the body is bytes.  No field can carry a credential back.
"""

from collections.abc import Mapping
from typing import Final

from threegate.artifacts.sources import GAP_REASONS
from threegate.base.forms import ANCHOR, CODE, URL
from threegate.base.greeting import GateReady, Greeting
from threegate.base.limits import (
    MAX_ANCHOR_BYTES,
    MAX_ANCHORS,
    MAX_APPROVAL_BYTES,
    MAX_BUNDLE_BYTES,
    MAX_HOPS,
    MAX_REQUEST_BYTES,
    MAX_SIGNATURE_BYTES,
    MAX_URL_CHARS,
    MIB,
)
from threegate.base.message_parts import OptionalParts, RawPart, RawParts
from threegate.base.message_shapes import OneNumber, RowShape, TableShape, TextLine
from threegate.base.messages import CheckedRecord, Message, head, message, parser_of, part, record
from threegate.base.schema import Choice, Integer, ListOf, Nullable, Pattern
from threegate.base.wire import need
from threegate.policy.purposes import PACKETS, PURPOSE

PROTOCOL: Final = "retrieve/1"
MAX_BODY_BYTES: Final = 128 * MIB  # what one answer can hold, whatever policy allows
MAX_DOWNLOAD_BYTES: Final = 2**40  # a file that comes in parts; policy allows less
MAX_PART_SECONDS: Final = 600  # for one part of a download, all redirects
MAX_RATE_HEADERS: Final = 16
MAX_RETRY_AFTER_SECONDS: Final = 86_400  # a host that asks for more gets a day

REDIRECTS: Final = (301, 302, 303, 307, 308)
WHOLE, PART, NOT_CHANGED = 200, 206, 304
# What an answer may be read as, whatever it was called.
HTML, JSON, PDF = "text/html", "application/json", "application/pdf"
TEXT, XML = "text/plain", "application/xml"
READ_AS: Final = (HTML, JSON, PDF, TEXT, XML)

MEDIA_TYPE: Final = Pattern(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*", "a media type", most=100)
ETAG: Final = Pattern(r'(?:W/)?"[!#-~]{0,250}"', "an entity tag")
HTTP_DATE: Final = Pattern(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-3][0-9] "
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} "
    r"[0-2][0-9]:[0-5][0-9]:[0-6][0-9] GMT",
    "a date as HTTP spells it",
)
RATE_HEADER: Final = Pattern(r"(?:x-)?rate-?limit-[a-z-]{1,40}", "the name of a rate header")
RATE_VALUE: Final = Pattern(r"[0-9A-Za-z.,;=:+_-]{1,64}", "the value of a rate header")
# Short ones would stand in any answer by chance, and so could not be looked for.
CREDENTIAL: Final = Pattern(r"[!-~][ -~]{6,1022}[!-~]", "a credential", most=1_024)
_ASKED_URL: Final = Pattern(r"[!-~]+", "a URL; policy judges it", most=MAX_URL_CHARS)
_ACCEPT: Final = Pattern(r"[A-Za-z0-9*][A-Za-z0-9.+*/;=, -]{0,299}", "media types")
_HOPS: Final = ListOf(RowShape(URL, OneNumber(*REDIRECTS)), MAX_HOPS)
_WAIT: Final = Nullable(Integer(0, MAX_RETRY_AFTER_SECONDS))

Hops = tuple[tuple[str, int], ...]

GREETING: Final = Greeting(PROTOCOL, GateReady)


@message(PROTOCOL, "opening", sender="host, first", answer="`GateReady` or `Refused`")
class RetrieveOpening(Message):
    """The rules a sandbox works under: a compiled bundle, and the CA files it lists by digest."""

    bundle: bytes = part(RawPart(MAX_BUNDLE_BYTES), "the compiled policy")
    anchors: tuple[bytes, ...] = part(
        RawParts(MAX_ANCHORS, MAX_ANCHOR_BYTES), "CA files", default=()
    )
    purpose: str = head(PURPOSE, "what the sandbox may ask for", default=PACKETS)


@record
class Authority(CheckedRecord):
    """An approved fetch request with its approval: the right to ask."""

    request: bytes = part(RawPart(MAX_REQUEST_BYTES), "the fetch request")
    approval: bytes = part(RawPart(MAX_APPROVAL_BYTES), "its approval")
    signature: bytes = part(RawPart(MAX_SIGNATURE_BYTES), "the signature of the approval")


@message(PROTOCOL, "ask", sender="host", answer="`Got` or `NotGot`")
class FetchQuestion(Message):
    """One URL to ask for.  Without `authority` it is the operator's own question."""

    url: str = head(_ASKED_URL, "what to ask for")
    accept: str = head(_ACCEPT, "media types that are of use")
    most_bytes: int = head(Integer(1, MAX_BODY_BYTES), "of the body")
    etag: str | None = head(Nullable(ETAG), "of what is kept", default=None)
    last_modified: str | None = head(Nullable(HTTP_DATE), "of what is kept", default=None)
    credential: str | None = head(
        Nullable(CREDENTIAL), "the operator's key for the host", default=None, secret=True
    )
    authority: Authority | None = part(
        OptionalParts(Authority), "request, approval and signature", default=None
    )
    first_byte: int | None = head(
        Nullable(Integer(0, MAX_DOWNLOAD_BYTES)), "of a part of a download", default=None
    )


@message(PROTOCOL, "got", sender="sandbox")
class Got(Message):
    """What came back: 200 with its body, 206 with a part of it, or 304 and none."""

    status: int = head(OneNumber(WHOLE, PART, NOT_CHANGED), "of the answer")
    url: str = head(URL, "where the body came from, after `hops`")
    hops: Hops = head(_HOPS, "redirects on the way, with their status")
    media_type: str = head(MEDIA_TYPE, "what the server called it")
    read_as: str = head(MEDIA_TYPE, "what it may be read as")
    etag: str | None = head(Nullable(ETAG), "as the server said it")
    last_modified: str | None = head(Nullable(HTTP_DATE), "as the server said it")
    retry_after: int | None = head(_WAIT, "seconds, if the server names them")
    limits: Mapping[str, str] = head(
        TableShape(RATE_HEADER, RATE_VALUE, MAX_RATE_HEADERS), "its rate headers, word for word"
    )
    trust_anchor: str = head(ANCHOR, "what vouched for the certificate")
    body: bytes = part(RawPart(MAX_BODY_BYTES), "the body")
    total: int | None = head(
        Nullable(Integer(1, MAX_DOWNLOAD_BYTES)), "size of the whole, of a part", default=None
    )

    def check(self) -> None:
        need(self.status != NOT_CHANGED or not self.body, "a body of what has not changed")
        need((self.status == PART) == (self.total is not None), "a part of nothing")


@message(PROTOCOL, "not-got", sender="sandbox")
class NotGot(Message):
    """There is no answer that could be used."""

    code: str = head(CODE, "which rule or failure")
    reason: str = head(Choice(*GAP_REASONS), "the word for it in a packet")
    message: str = head(TextLine(), "why, in our own words")
    url: str | None = head(Nullable(URL), "where it happened; null if that may not be written")
    hops: Hops = head(_HOPS, "redirects on the way, with their status")
    retry_after: int | None = head(_WAIT, "seconds, if the server names them", default=None)
    status: int | None = head(Nullable(Integer(100, 599)), "what the server answered", default=None)


parse_opening: Final = parser_of(RetrieveOpening)
parse_question: Final = parser_of(FetchQuestion)
parse_answer: Final = parser_of(Got, NotGot)
