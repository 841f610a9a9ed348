"""Messages between the host and a fetch-retrieve box, and who sends them.

| message | sent by | answered by |
|---|---|---|
| `Opening` | host, first | `Ready`, or `Refused` and the box is of no use |
| `Ask` | host | `Got` or `NotGot` |

A box has one purpose (`policy.purposes`): packets, or a list of downloads, which come in
parts (`first_byte`).  An `Ask` names one URL.  Every rule it is judged by (hosts, types, sizes,
redirects, time, whom to say we are, where a credential goes) stands in the bundle of the
opening.

SECURITY
    Either side may be owned: the box speaks with the web, and the box believes no host.
    Every field is checked when a message is built, by whoever builds it.  What a web server
    said reaches these fields only in forms that cannot be anything else: a URL, a media
    type, an entity tag, a date, a number; the body is bytes.  There is no field a credential
    could come back in.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from threegate.base import greeting, limits, wire
from threegate.base.forms import ANCHOR
from threegate.base.untrusted import Untrusted
from threegate.base.wire import (
    Packed,
    fields_of,
    need,
    need_bytes,
    need_number,
    need_sentence,
    need_word,
    parts_of,
)
from threegate.policy.purposes import PACKETS, PURPOSE

PROTOCOL: Final = "retrieve/1"

# Why something is not there; the same words as in a packet (tests compare them).
REASONS: Final = ("denied", "failed", "not-found", "timed-out", "too-large", "unreadable")
REDIRECTS: Final = (301, 302, 303, 307, 308)
WHOLE, PART, NOT_CHANGED = 200, 206, 304
GOOD: Final = (WHOLE, PART, NOT_CHANGED)
# What an answer may be read as, whatever it was called.
HTML, JSON, PDF = "text/html", "application/json", "application/pdf"
TEXT, XML = "text/plain", "application/xml"
READ_AS: Final = (HTML, JSON, PDF, TEXT, XML)

MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*")
ETAG: Final = re.compile(r'(?:W/)?"[!#-~]{0,250}"')
HTTP_DATE: Final = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-3][0-9] "
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} "
    r"[0-2][0-9]:[0-5][0-9]:[0-6][0-9] GMT"
)
RATE_HEADER: Final = re.compile(r"(?:x-)?rate-?limit-[a-z-]{1,40}")
RATE_VALUE: Final = re.compile(r"[0-9A-Za-z.,;=:+_-]{1,64}")
# Short ones would stand in any answer by chance, and so could not be looked for.
CREDENTIAL: Final = re.compile(r"[!-~][ -~]{6,1022}[!-~]")
_URL: Final = re.compile(r"https://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?:/[!#-;=?-\[\]_a-z~]*)?")
_ASKED_URL: Final = re.compile(r"[!-~]+")
_ACCEPT: Final = re.compile(r"[A-Za-z0-9*][A-Za-z0-9.+*/;=, -]{0,299}")

Hops = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Opening:
    """The rules a box works under: a compiled bundle, and the CA files it lists by digest."""

    bundle: bytes
    anchors: tuple[bytes, ...] = ()
    purpose: str = PACKETS

    def __post_init__(self) -> None:
        need_word(self.purpose, PURPOSE, "purpose")
        need_bytes(self.bundle, limits.MAX_BUNDLE_BYTES, "bundle")
        need(len(self.anchors) <= limits.MAX_ANCHORS, "too many anchors")
        for anchor in self.anchors:
            need_bytes(anchor, limits.MAX_ANCHOR_BYTES, "an anchor")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {"purpose": self.purpose}
        return wire.pack(PROTOCOL, "opening", fields, [self.bundle, *self.anchors])


@dataclass(frozen=True, slots=True)
class Ready(greeting.Ready):
    """The box agrees with the rules and can work."""

    protocol: ClassVar[str] = PROTOCOL


@dataclass(frozen=True, slots=True)
class Refused(greeting.Refused):
    """The box cannot work under these rules."""

    protocol: ClassVar[str] = PROTOCOL


@dataclass(frozen=True, slots=True)
class Authority:
    """A fetch request somebody approved, with the approval: whence the right to ask."""

    request: bytes
    approval: bytes
    signature: bytes

    def __post_init__(self) -> None:
        need_bytes(self.request, limits.MAX_REQUEST_BYTES, "request")
        need_bytes(self.approval, limits.MAX_APPROVAL_BYTES, "approval")
        need_bytes(self.signature, limits.MAX_SIGNATURE_BYTES, "signature")


@dataclass(frozen=True, slots=True)
class Ask:
    """One URL to ask for.  Without `authority` it is the operator's own question."""

    url: str
    accept: str
    most_bytes: int
    etag: str | None = None
    last_modified: str | None = None
    credential: str | None = field(default=None, repr=False)
    authority: Authority | None = None
    first_byte: int | None = None  # of a part of `most_bytes`, in a download

    def __post_init__(self) -> None:
        need_word(self.url, _ASKED_URL, "url")
        need(len(self.url) <= limits.MAX_URL_CHARS, "the URL is too long")
        need_word(self.accept, _ACCEPT, "accept")
        need_number(self.most_bytes, limits.MAX_BODY_BYTES, "most_bytes", least=1)
        _need_validators(self.etag, self.last_modified)
        if self.first_byte is not None:
            need_number(self.first_byte, limits.MAX_DOWNLOAD_BYTES, "first_byte")
        if self.credential is not None:
            need_word(self.credential, CREDENTIAL, "the credential")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "accept": self.accept,
            "credential": self.credential,
            "etag": self.etag,
            "first_byte": self.first_byte,
            "last_modified": self.last_modified,
            "most_bytes": self.most_bytes,
            "url": self.url,
        }
        by = self.authority
        parts = [] if by is None else [by.request, by.approval, by.signature]
        return wire.pack(PROTOCOL, "ask", fields, parts)


@dataclass(frozen=True, slots=True)
class Got:
    """What came back: 200 with its body, 206 with a part of it, or 304 and none.

    `url` is where the body came from, after `hops`; `media_type` is what the server called it,
    `read_as` what it may be read as; `limits` are its rate headers, word for word; `total` is
    how long the whole is of which this is a part.
    """

    status: int
    url: str
    hops: Hops
    media_type: str
    read_as: str
    etag: str | None
    last_modified: str | None
    retry_after: int | None
    limits: Mapping[str, str]
    trust_anchor: str
    body: bytes
    total: int | None = None

    def __post_init__(self) -> None:
        need(type(self.status) is int and self.status in GOOD, "not a status of an answer")
        _need_url(self.url)  # what came, came from somewhere
        _need_way(self.url, self.hops)
        need_word(self.media_type, MEDIA_TYPE, "media_type")
        need_word(self.read_as, MEDIA_TYPE, "read_as")
        need(max(len(self.media_type), len(self.read_as)) <= 100, "a media type is too long")
        _need_validators(self.etag, self.last_modified)
        _need_wait(self.retry_after)
        _need_rates(self.limits)
        need_word(self.trust_anchor, ANCHOR, "trust_anchor")
        need_bytes(self.body, limits.MAX_BODY_BYTES, "body")
        need(self.status != NOT_CHANGED or not self.body, "a body of what has not changed")
        need((self.status == PART) == (self.total is not None), "a part of nothing")
        if self.total is not None:
            need_number(self.total, limits.MAX_DOWNLOAD_BYTES, "total", least=1)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "etag": self.etag,
            "hops": [list(hop) for hop in self.hops],
            "last_modified": self.last_modified,
            "limits": dict(self.limits),
            "media_type": self.media_type,
            "read_as": self.read_as,
            "retry_after": self.retry_after,
            "status": self.status,
            "total": self.total,
            "trust_anchor": self.trust_anchor,
            "url": self.url,
        }
        return wire.pack(PROTOCOL, "got", fields, [self.body])


@dataclass(frozen=True, slots=True)
class NotGot:
    """Why there is nothing.

    `url` is where it happened, after `hops`, and None where that is no URL that may be
    written down; `status` is what the server answered, if it did.
    """

    code: str
    reason: str
    message: str
    url: str | None
    hops: Hops
    retry_after: int | None = None
    status: int | None = None

    def __post_init__(self) -> None:
        need_word(self.code, greeting.CODE, "code")
        need(self.reason in REASONS, "no such reason")
        need_sentence(self.message, limits.MAX_LINE_CHARS, "message")
        _need_way(self.url, self.hops)
        _need_wait(self.retry_after)
        if self.status is not None:
            need_number(self.status, 599, "status", least=100)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "code": self.code,
            "hops": [list(hop) for hop in self.hops],
            "message": self.message,
            "reason": self.reason,
            "retry_after": self.retry_after,
            "status": self.status,
            "url": self.url,
        }
        return wire.pack(PROTOCOL, "not-got", fields, [])


def parse_opening(data: Untrusted[bytes]) -> Opening:
    """Return the opening in `data`, or raise `ProtocolBroken`; used inside the box."""
    packed = _unpack(data, limits.MAX_RETRIEVE_OPENING_BYTES, "opening")
    (purpose,) = fields_of(packed, "purpose")
    need(bool(packed.parts), "no bundle")
    return Opening(packed.parts[0], packed.parts[1:], purpose)


def parse_greeting(data: Untrusted[bytes]) -> Ready | Refused:
    """Return the answer to an opening, or raise `ProtocolBroken`; used by the host."""
    return greeting.parse_greeting(data, Ready, Refused)


def parse_ask(data: Untrusted[bytes]) -> Ask:
    """Return the question in `data`, or raise `ProtocolBroken`; used inside the box."""
    packed = _unpack(data, limits.MAX_RETRIEVE_ASK_BYTES, "ask")
    names = ("accept", "credential", "etag", "first_byte", "last_modified", "most_bytes", "url")
    values = dict(zip(names, fields_of(packed, *names), strict=True))
    authority = Authority(*parts_of(packed, 3)) if packed.parts else None
    return Ask(**values, authority=authority)


def parse_answer(data: Untrusted[bytes]) -> Got | NotGot:
    """Return the answer in `data`, or raise `ProtocolBroken`; used by the host."""
    packed = _unpack(data, limits.MAX_RETRIEVE_ANSWER_BYTES, "got", "not-got")
    return _got(packed) if packed.kind == "got" else _not_got(packed)


def _got(packed: Packed) -> Got:
    names = ("etag", "hops", "last_modified", "limits", "media_type", "read_as")
    more = ("retry_after", "status", "total", "trust_anchor", "url")
    values = dict(zip((*names, *more), fields_of(packed, *names, *more), strict=True))
    need(type(values["limits"]) is dict, "limits are not an object")
    (body,) = parts_of(packed, 1)
    return Got(**{**values, "hops": _hops(values["hops"])}, body=body)


def _not_got(packed: Packed) -> NotGot:
    parts_of(packed, 0)
    names = ("code", "hops", "message", "reason", "retry_after", "status", "url")
    values = dict(zip(names, fields_of(packed, *names), strict=True))
    return NotGot(**{**values, "hops": _hops(values["hops"])})


def _unpack(data: Untrusted[bytes], most_bytes: int, *kinds: str) -> Packed:
    return wire.unpack_due(data, *kinds, protocol=PROTOCOL, most_bytes=most_bytes)


def _hops(value: Any) -> Hops:
    need(type(value) is list, "hops is not a list")
    need(all(type(item) is list and len(item) == 2 for item in value), "hops are pairs")
    return tuple((url, status) for url, status in value)


def _need_url(value: object) -> None:
    need_word(value, _URL, "a URL")
    assert isinstance(value, str)
    need(len(value) <= limits.MAX_URL_CHARS, "a URL is too long")


def _need_way(url: object, hops: Hops) -> None:
    if url is not None:
        _need_url(url)
    need(len(hops) <= limits.MAX_HOPS, "too many hops")
    for hop, status in hops:
        _need_url(hop)
        need(type(status) is int and status in REDIRECTS, "a hop that is no redirect")


def _need_validators(etag: object, last_modified: object) -> None:
    if etag is not None:
        need_word(etag, ETAG, "etag")
    if last_modified is not None:
        need_word(last_modified, HTTP_DATE, "last_modified")


def _need_wait(seconds: object) -> None:
    if seconds is not None:
        need_number(seconds, limits.MAX_RETRY_AFTER_SECONDS, "retry_after")


def _need_rates(rates: Mapping[str, str]) -> None:
    need(len(rates) <= limits.MAX_RATE_HEADERS, "too many rate headers")
    for name, value in rates.items():
        need_word(name, RATE_HEADER, "the name of a rate header")
        need_word(value, RATE_VALUE, "a rate header")
