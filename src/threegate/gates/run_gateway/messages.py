"""What host, gateway and guest say to each other about a run that may ask some hosts.

| message | sent by | answered by |
|---|---|---|
| `Opening` | host, once | `opened`, or the gateway ends |
| `Ask` and its body | the guest, one at a time | `Answer` and its body, or `No` |
| `Told` | gateway, a note for each ask | nothing |

SECURITY
    The guest may be owned by its job, root included: sizes are checked before a body is read,
    and every frame has one spelling.  The host reads notes of a gateway that listened to it.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from threegate.base import canonical, limits, wire
from threegate.base.errors import ProtocolBroken
from threegate.base.forms import SYSTEM_ANCHOR
from threegate.base.untrusted import Untrusted
from threegate.base.wire import fields_of, need, need_bytes, need_number, need_word

PROTOCOL: Final = "gateway/1"
PORT_NAME: Final = "threegate.gates.run_gateway"
ASK, BODY, ANSWER, DATA, NO = 1, 2, 11, 12, 13
HEADER: Final = struct.Struct(">BI")
MAX_HEAD_BYTES: Final = 16 * 1024
MAX_UP_BYTES: Final = 2**24
MAX_DOWN_BYTES: Final = 2**28
MAX_HOSTS: Final = 32
MAX_MARKS: Final = 4_096
MAX_REQUESTS: Final = 10_000
MAX_SECONDS: Final = 3_600
MAX_FD: Final = 1_023
MAX_ARGUMENT_CHARS: Final = 200
MAX_LINE: Final = 1_000_000
METHODS: Final = ("GET", "HEAD", "POST")

# Why the gateway says no; the first six are rules, the others are what became of an attempt.
URL, HOST, METHOD, HEAD, CREDENTIAL, ADDRESS = (
    *("url-malformed", "host-not-listed", "method-not-allowed", "header-not-allowed"),
    *("credential-in-request", "proxy-refused"),
)
UP, DOWN, SPENT = "up-bytes", "down-bytes", "requests-spent"
FAILED, FOREIGN = "not-reached", "answer-malformed"
REFUSALS: Final = (URL, HOST, METHOD, HEAD, CREDENTIAL, ADDRESS, UP, DOWN, SPENT)
REASONS: Final = (*REFUSALS, FAILED, FOREIGN)

_HOST: Final = re.compile(r"[a-z0-9.-]{1,253}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}|" + SYSTEM_ANCHOR)
_MARK: Final = re.compile(r"[0-9a-f]{32}")
_PLACE: Final = re.compile(r"[a-z0-9/._-]{1,120}:[0-9]{1,6}")
_PRINTED: Final = re.compile(rf"[ -~]{{0,{MAX_ARGUMENT_CHARS}}}")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_VALUE: Final = re.compile(r"[ -~]{0,1024}")


@dataclass(frozen=True, slots=True)
class Opening:
    """What one run may ask, and how much may pass."""

    channel_fd: int
    hosts: tuple[str, ...]
    methods: tuple[str, ...]
    up_bytes: int
    down_bytes: int
    requests: int
    seconds: int  # for one request
    anchors: tuple[tuple[str, bytes | None], ...]
    key: str  # of the marks, drawn for this run
    marks: tuple[tuple[int, int, str], ...]  # of what must not leave: `base/credentials.py`
    places: Mapping[str, str] = field(hash=False)  # reason -> file and line of its rule

    def __post_init__(self) -> None:
        need_number(self.channel_fd, MAX_FD, "channel_fd", least=4)
        need(0 < len(self.hosts) <= MAX_HOSTS, "too few or too many hosts")
        for host in self.hosts:
            need_word(host, _HOST, "a host")
        need(all(word in METHODS for word in self.methods), "a method that is not known")
        need_number(self.up_bytes, MAX_UP_BYTES, "up_bytes")
        need_number(self.down_bytes, MAX_DOWN_BYTES, "down_bytes")
        need_number(self.requests, MAX_REQUESTS, "requests")
        need_number(self.seconds, MAX_SECONDS, "seconds", least=1)
        need(0 < len(self.anchors) <= limits.MAX_ANCHORS, "too few or too many anchors")
        for name, data in self.anchors:
            need_word(name, _DIGEST, "an anchor")
            if data is not None:
                need_bytes(data, limits.MAX_ANCHOR_BYTES, "an anchor")
        need_word(self.key, _MARK, "the key of the marks")
        need(len(self.marks) <= MAX_MARKS, "too many marks")
        for length, first, digest in self.marks:
            need_number(length, MAX_HEAD_BYTES, "the length of a mark", least=1)
            need_number(first, 255, "the first byte of a mark")
            need_word(digest, _MARK, "a mark")
        need(set(self.places) == set(REFUSALS), "a reason without a place")
        for place in self.places.values():
            need_word(place, _PLACE, "the place of a rule")
        object.__setattr__(self, "places", MappingProxyType(dict(self.places)))

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "anchors": [name for name, _ in self.anchors],
            "channel_fd": self.channel_fd,
            "down_bytes": self.down_bytes,
            "hosts": list(self.hosts),
            "key": self.key,
            "methods": list(self.methods),
            "places": dict(sorted(self.places.items())),
            "requests": self.requests,
            "seconds": self.seconds,
            "up_bytes": self.up_bytes,
        }
        files = [data for _, data in self.anchors if data is not None]
        marks = canonical.encode([list(mark) for mark in self.marks])
        return wire.pack(PROTOCOL, "opening", fields, [marks, *files])


def parse_opening(data: Untrusted[bytes]) -> Opening:
    """Return the opening in `data`, or raise `ProtocolBroken`; used inside the box."""
    most = limits.MAX_RETRIEVE_OPENING_BYTES
    packed = wire.unpack_due(data, "opening", protocol=PROTOCOL, most_bytes=most)
    names = ("anchors", "channel_fd", "down_bytes", "hosts", "key", "methods", "places")
    more = ("requests", "seconds", "up_bytes")
    values = dict(zip((*names, *more), fields_of(packed, *names, *more), strict=True))
    for name in ("anchors", "hosts", "methods"):
        need(type(values[name]) is list, f"{name} are not a list")
    need(type(values["places"]) is dict, "places are not a table")
    need(bool(packed.parts), "no marks")
    spelled, *files = packed.parts
    need(len(files) == sum(name != SYSTEM_ANCHOR for name in values["anchors"]), "other files")
    anchors = tuple(
        (name, None if name == SYSTEM_ANCHOR else files.pop(0)) for name in values["anchors"]
    )
    return Opening(
        **{
            **values,
            "anchors": anchors,
            "hosts": tuple(values["hosts"]),
            "marks": _marks(spelled),
            "methods": tuple(values["methods"]),
        }
    )


def _marks(spelled: bytes) -> tuple[tuple[int, int, str], ...]:
    value = _decoded(spelled)
    need(type(value) is list, "marks are not a list")
    need(all(type(row) is list and len(row) == 3 for row in value), "a mark has three parts")
    return tuple((length, first, digest) for length, first, digest in value)


def opened() -> bytes:
    """Return the answer to an opening: from now on the guest is listened to."""
    return wire.pack(PROTOCOL, "opened", {}, [])


def parse_opened(data: Untrusted[bytes]) -> None:
    """Raise `ProtocolBroken` unless the gateway is open."""
    most = limits.MAX_HEADER_BYTES
    fields_of(wire.unpack_due(data, "opened", protocol=PROTOCOL, most_bytes=most))


@dataclass(frozen=True, slots=True)
class Ask:
    """What the guest wants to have asked; whether it may is not looked at here."""

    headers: Mapping[str, str] = field(hash=False)
    line: int  # of the code, by the guest's word; 0 for none
    method: str
    url: str

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            need_word(name, _NAME, "the name of a header")
            need_word(value, _VALUE, "the value of a header")
        need_number(self.line, MAX_LINE, "line")
        need_word(self.method, _NAME, "a method")
        need(type(self.url) is str, "a URL is text")


def parse_ask(untrusted: bytes) -> Ask:
    """Return what a frame of the guest asks for, or raise `ProtocolBroken`."""
    value = _decoded(untrusted)
    names = ("headers", "line", "method", "url")
    need(type(value) is dict and tuple(value) == names, "unexpected fields")
    need(type(value["headers"]) is dict, "headers are not a table")
    return Ask(**value)


def frame(kind: int, data: bytes) -> bytes:
    """Return one frame."""
    return HEADER.pack(kind, len(data)) + data


def answer_frames(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return an answer as the guest hears it."""
    head = canonical.encode({"headers": dict(sorted(headers.items())), "status": status})
    return frame(ANSWER, head) + frame(DATA, body)


def no_frame(reason: str, detail: str, place: str) -> bytes:
    """Return why there is no answer, and by which rule."""
    return frame(NO, canonical.encode({"detail": detail, "place": place, "reason": reason}))


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one ask: what passed, and why it was not carried if it was not."""

    down: int
    host: str  # empty where the URL had none
    line: int
    method: str
    reason: str  # empty if it was carried
    up: int

    def __post_init__(self) -> None:
        need_number(self.down, MAX_DOWN_BYTES * 2, "down")
        need_number(self.up, MAX_UP_BYTES * 2, "up")
        need_number(self.line, MAX_LINE, "line")
        need_word(self.host, _PRINTED, "a host")
        need_word(self.method, _NAME, "a method")
        need(self.reason == "" or self.reason in REASONS, "a reason that is not known")

    def plain(self) -> dict[str, Any]:
        """Return it as plain data, for the note and for the log."""
        return {name: getattr(self, name) for name in self.__slots__}

    def to_bytes(self) -> bytes:
        """Return the one spelling of this note."""
        return canonical.encode(self.plain())


def parse_told(note: bytes) -> Told:
    """Return the note in `note`, or raise `ProtocolBroken`; used by the host."""
    value = _decoded(note)
    need(type(value) is dict and tuple(value) == Told.__slots__, "not a note of the gateway")
    return Told(**value)


def _decoded(untrusted: bytes) -> Any:
    try:
        return canonical.decode(untrusted)
    except (ValueError, RecursionError) as exc:
        raise ProtocolBroken("not canonical JSON") from exc
