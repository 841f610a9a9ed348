"""The retrieval record, and the messages between the host and a normalize box.

| message | sent by | answered by |
|---|---|---|
| `Normalize` | host, the only one | `Made` or `NotMade`, and the box ends |

A `RetrievalRecord` names every answer that was kept and everything that was asked in vain.
A packet is a pure function of the record's bytes and of the raw bytes it names, so both are
stored and the packet can be made again.

SECURITY
    The box believes no host, and the host believes no box: it has just read hostile bytes.
    Every field is checked when an object is built, so there is no object that breaks a rule.
    Whatever the box says, the host compares the packet with its own record.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from threegate.base import canonical, limits, wire
from threegate.base.errors import ProtocolBroken
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

PROTOCOL: Final = "normalize/1"
RECORD_FORMAT: Final = "retrieval/1"

# The words of a research packet; a test holds the two lists together.
SOURCES: Final = (
    "arxiv",
    "crossref",
    "datacite",
    "europepmc",
    "openalex",
    "pubmed",
    "semanticscholar",
    "unpaywall",
    "url",
)
MISS_REASONS: Final = ("denied", "failed", "not-found", "timed-out", "too-large", "unreadable")
CONFIDENTIALITY: Final = ("public", "internal", "confidential")
ROLES: Final = ("document", "metadata", "search")
SCHEMES: Final = ("arxiv", "doi", "openalex", "pmcid", "pmid", "search", "url")
WANTS: Final = ("full-text", "metadata", "search")

URL_PATTERN: Final = r"https://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?:/[!#-;=?-\[\]_a-z~]*)?"
TIME_PATTERN: Final = (
    r"20[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
)
MEDIA_TYPE_PATTERN: Final = r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*"

_URL: Final = re.compile(URL_PATTERN)
_TIME: Final = re.compile(TIME_PATTERN)
_MEDIA_TYPE: Final = re.compile(MEDIA_TYPE_PATTERN)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_ANCHOR: Final = re.compile(r"system|[0-9a-f]{64}")
_REQUEST: Final = re.compile(r"fr-[0-9a-f]{64}")
_CODE: Final = re.compile(r"TG-NRM-[0-9]{3}")
_MARKUP: Final = re.compile(r"<[A-Za-z/!?]")  # what a packet may not hold anywhere

_RECORD_KEYS: Final = (
    "answers",
    "confidentiality",
    "format",
    "misses",
    "reference",
    "request",
    "scheme",
    "want",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer that was kept; its raw bytes lie beside the record under `sha256`.

    `media_type` is what the server declared, empty if nothing; `read_as` is what the bytes are.
    """

    source: str
    role: str
    reference: str
    url: str
    hops: tuple[tuple[str, int], ...]
    status: int
    media_type: str
    read_as: str
    retrieved: str
    sha256: str
    bytes: int
    trust_anchor: str

    def __post_init__(self) -> None:
        need(self.source in SOURCES, "no such source")
        need(self.role in ROLES, "no such role")
        _need_reference(self.reference)
        _need_url(self.url)
        need(len(self.hops) <= limits.MAX_HOPS, "too many hops")
        for url, status in self.hops:
            _need_url(url)
            need_number(status, 399, "the status of a hop", least=300)
        need_number(self.status, 599, "status", least=100)
        need(self.media_type == "" or _is_type(self.media_type), "media_type is malformed")
        need(_is_type(self.read_as), "read_as is malformed")
        _need_time(self.retrieved)
        need_word(self.sha256, _DIGEST, "sha256")
        need_number(self.bytes, limits.MAX_RAWS_BYTES, "bytes")
        need_word(self.trust_anchor, _ANCHOR, "trust_anchor")

    def plain(self) -> dict[str, Any]:
        """Return the answer as a field."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return found | {"hops": [[url, status] for url, status in self.hops]}


@dataclass(frozen=True, slots=True)
class Miss:
    """Something that was asked for and did not come; `detail` are our own words."""

    source: str
    reference: str
    reason: str
    detail: str

    def __post_init__(self) -> None:
        need(self.source in SOURCES, "no such source")
        _need_reference(self.reference)
        need(self.reason in MISS_REASONS, "no such reason")
        need_sentence(self.detail, limits.MAX_LINE_CHARS, "detail")

    def plain(self) -> dict[str, Any]:
        """Return the miss as a field."""
        return {name: getattr(self, name) for name in self.__slots__}


_ANSWER_KEYS: Final = tuple(sorted(Answer.__slots__))
_MISS_KEYS: Final = tuple(sorted(Miss.__slots__))


@dataclass(frozen=True, slots=True)
class RetrievalRecord:
    """What one reference came to: every answer and every miss, in the order of the questions."""

    reference: str
    scheme: str
    want: str
    request: str | None
    confidentiality: str
    answers: tuple[Answer, ...]
    misses: tuple[Miss, ...]

    def __post_init__(self) -> None:
        _need_reference(self.reference)
        need(self.scheme in SCHEMES, "no such scheme")
        need(self.want in WANTS, "no such wish")
        need((self.scheme == "search") == (self.want == "search"), "a search is a search")
        if self.request is not None:
            need_word(self.request, _REQUEST, "request")
        need(self.confidentiality in CONFIDENTIALITY, "no such confidentiality")
        need(len(self.answers) <= limits.MAX_ANSWERS, "too many answers")
        need(len(self.misses) <= limits.MAX_MISSES, "too many misses")
        total = sum(answer.bytes for answer in self.answers)
        need(total <= limits.MAX_RAWS_BYTES, "the answers are too large")

    def to_bytes(self) -> bytes:
        """Return the one spelling of the record; its digest stands in the packet."""
        value = {
            "answers": [answer.plain() for answer in self.answers],
            "confidentiality": self.confidentiality,
            "format": RECORD_FORMAT,
            "misses": [miss.plain() for miss in self.misses],
            "reference": self.reference,
            "request": self.request,
            "scheme": self.scheme,
            "want": self.want,
        }
        return canonical.encode(value)


@dataclass(frozen=True, slots=True)
class Normalize:
    """A record and the raw bytes of its answers, in their order."""

    record: bytes
    raws: tuple[bytes, ...]

    def __post_init__(self) -> None:
        need_bytes(self.record, limits.MAX_RECORD_BYTES, "record")
        need(len(self.raws) <= limits.MAX_ANSWERS, "too many answers")
        for raw in self.raws:
            need_bytes(raw, limits.MAX_RAWS_BYTES, "an answer")
        need(sum(map(len, self.raws)) <= limits.MAX_RAWS_BYTES, "the answers are too large")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(PROTOCOL, "normalize", {}, [self.record, *self.raws])


@dataclass(frozen=True, slots=True)
class Made:
    """The packet, which the host parses and compares with its record."""

    packet: bytes

    def __post_init__(self) -> None:
        need_bytes(self.packet, limits.MAX_PACKET_BYTES, "packet")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(PROTOCOL, "made", {}, [self.packet])


@dataclass(frozen=True, slots=True)
class NotMade:
    """There is nothing to make a packet of, or the bytes are not what they should be."""

    code: str
    message: str

    def __post_init__(self) -> None:
        need_word(self.code, _CODE, "code")
        need_sentence(self.message, limits.MAX_LINE_CHARS, "message")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {"code": self.code, "message": self.message}
        return wire.pack(PROTOCOL, "not-made", fields, [])


def spelled_reference(text: str) -> str:
    """Return a reference as records and packets spell it: a `<` that could be markup as in a URL.

    Some DOIs hold one, and so may the words of a search.
    """
    return _MARKUP.sub(lambda found: f"%3C{found.group()[1]}", text)


def parse_record(data: Untrusted[bytes]) -> RetrievalRecord:
    """Return the record in `data`, or raise `ProtocolBroken`."""
    untrusted = data.open_for_validation()
    need(len(untrusted) <= limits.MAX_RECORD_BYTES, "the record is too long")
    try:
        value = canonical.decode(untrusted)
    except ValueError as exc:
        raise ProtocolBroken("the record is not canonical JSON") from exc
    fields = _object(value, _RECORD_KEYS, "the record")
    need(fields.pop("format") == RECORD_FORMAT, "not a retrieval record")
    answers = tuple(parse_answer(item) for item in _list(fields.pop("answers"), limits.MAX_ANSWERS))
    misses = tuple(_miss(item) for item in _list(fields.pop("misses"), limits.MAX_MISSES))
    return RetrievalRecord(**fields, answers=answers, misses=misses)


def parse_normalize(data: Untrusted[bytes]) -> Normalize:
    """Return the message in `data`, or raise `ProtocolBroken`; used inside the box."""
    packed = _unpack(data, limits.MAX_NORMALIZE_BYTES, "normalize")
    fields_of(packed)
    need(len(packed.parts) > 0, "no record")
    return Normalize(packed.parts[0], packed.parts[1:])


def parse_made(data: Untrusted[bytes]) -> Made | NotMade:
    """Return the answer of the box, or raise `ProtocolBroken`; used by the host."""
    packed = _unpack(data, limits.MAX_MADE_BYTES, "made", "not-made")
    if packed.kind == "not-made":
        parts_of(packed, 0)
        return NotMade(*fields_of(packed, "code", "message"))
    fields_of(packed)
    return Made(*parts_of(packed, 1))


def _unpack(data: Untrusted[bytes], most_bytes: int, *kinds: str) -> Packed:
    return wire.unpack_due(data, *kinds, protocol=PROTOCOL, most_bytes=most_bytes)


def parse_answer(value: Any) -> Answer:
    """Return the answer that `Answer.plain` spelled as `value`, or raise `ProtocolBroken`."""
    fields = _object(value, _ANSWER_KEYS, "an answer")
    hops = _list(fields.pop("hops"), limits.MAX_HOPS)
    need(all(type(hop) is list and len(hop) == 2 for hop in hops), "hops are pairs")
    return Answer(**fields, hops=tuple((url, status) for url, status in hops))


def _miss(value: Any) -> Miss:
    return Miss(**_object(value, _MISS_KEYS, "a miss"))


def _object(value: Any, keys: tuple[str, ...], what: str) -> dict[str, Any]:
    need(type(value) is dict and tuple(value) == keys, f"unexpected fields of {what}")
    found: Mapping[str, Any] = value
    return dict(found)


def _list(value: Any, most: int) -> list[Any]:
    need(type(value) is list and len(value) <= most, "not a list, or too long a one")
    found: list[Any] = value
    return found


def _is_type(value: object) -> bool:
    return (
        type(value) is str
        and len(value) <= limits.MAX_LINE_CHARS
        and _MEDIA_TYPE.fullmatch(value) is not None
    )


def _need_url(value: object) -> None:
    need(type(value) is str and len(value) <= limits.MAX_URL_CHARS, "a URL is too long")
    need_word(value, _URL, "a URL")


def _need_reference(value: object) -> None:
    need_sentence(value, limits.MAX_URL_CHARS, "reference")
    assert isinstance(value, str)
    need(_MARKUP.search(value) is None, "a reference holds markup; write `<` as %3C")


def _need_time(value: object) -> None:
    need_word(value, _TIME, "retrieved")
    assert isinstance(value, str)
    try:
        datetime.fromisoformat(value[:-1])
    except ValueError as exc:
        raise ProtocolBroken("retrieved is no moment of the calendar") from exc
