"""Messages between host, gateway and guest about a run that may ask some hosts.

SECURITY
    The guest may be compromised by its job, root included: sizes are checked before a body is read,
    and every frame has one spelling.  The host reads notes of a gateway that listened to it.
"""

import struct
from collections.abc import Mapping
from typing import Final

from threegate.base import canonical
from threegate.base.forms import ANCHOR, DESCRIPTOR, NONCE, SYSTEM_ANCHOR
from threegate.base.limits import MAX_ANCHOR_BYTES, MAX_ANCHORS, MAX_LINE
from threegate.base.message_parts import JsonPart, NamedParts
from threegate.base.message_shapes import OpenText, RowShape, TableShape
from threegate.base.messages import (
    FlatMessage,
    FlatParser,
    Message,
    flat_message,
    head,
    message,
    parser_of,
    part,
)
from threegate.base.schema import Choice, Integer, ListOf, Pattern
from threegate.base.wire import need

PROTOCOL: Final = "gateway/1"
PORT_NAME: Final = "threegate.gates.run_gateway"
ASK, BODY, ANSWER, DATA, NO = 1, 2, 11, 12, 13
HEADER: Final = struct.Struct(">BI")
MAX_HEAD_BYTES: Final = 16 * 1024
MAX_UP_BYTES: Final = 2**24
MAX_DOWN_BYTES: Final = 2**28
MAX_HOSTS: Final = 32
MAX_MARKS: Final = 4_096
MAX_HEADERS: Final = 4_096  # as many as fit into a head
MAX_REQUESTS: Final = 10_000
MAX_SECONDS: Final = 3_600
MAX_ARGUMENT_CHARS: Final = 200
METHODS: Final = ("GET", "HEAD", "POST")

# Why the gateway says no: the first group are rules, the others are failures of an attempt.
URL, HOST, METHOD, HEAD, CREDENTIAL, ADDRESS = (
    *("url-malformed", "host-not-listed", "method-not-allowed", "header-not-allowed"),
    *("credential-in-request", "proxy-refused"),
)
UP, DOWN, SPENT = "up-bytes", "down-bytes", "requests-spent"
FAILED, FOREIGN = "not-reached", "answer-malformed"
REFUSALS: Final = (URL, HOST, METHOD, HEAD, CREDENTIAL, ADDRESS, UP, DOWN, SPENT)
REASONS: Final = (*REFUSALS, FAILED, FOREIGN)

_HOST: Final = Pattern(r"[a-z0-9.-]{1,253}", "a host")
_PLACE: Final = Pattern(r"[a-z0-9/._-]{1,120}:[0-9]{1,6}", "file and line of a rule")
_NAME: Final = Pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}", "a token of HTTP")
_VALUE: Final = Pattern(r"[ -~]{0,1024}", "printable ASCII", most=1_024)
_MARK: Final = RowShape(Integer(1, MAX_HEAD_BYTES), Integer(0, 255), NONCE)


@message(PROTOCOL, "opening", sender="host, once", answer="`GatewayOpened`, or the gateway ends")
class GatewayOpening(Message):
    """What one run may ask, and how much may pass."""

    channel_fd: int = head(DESCRIPTOR, "the guest's channel")
    hosts: tuple[str, ...] = head(ListOf(_HOST, MAX_HOSTS, least=1), "what may be asked")
    methods: tuple[str, ...] = head(ListOf(Choice(*METHODS), len(METHODS)), "how")
    up_bytes: int = head(Integer(0, MAX_UP_BYTES), "that may leave")
    down_bytes: int = head(Integer(0, MAX_DOWN_BYTES), "that may come")
    requests: int = head(Integer(0, MAX_REQUESTS), "how often")
    seconds: int = head(Integer(1, MAX_SECONDS), "for one request")
    marks: tuple[tuple[int, int, str], ...] = part(
        JsonPart(ListOf(_MARK, MAX_MARKS), MAX_MARKS * 64),
        "length, first byte and digest of what must not leave (`base/credentials.py`)",
    )
    anchors: tuple[tuple[str, bytes | None], ...] = part(
        NamedParts(ListOf(ANCHOR, MAX_ANCHORS, least=1), MAX_ANCHOR_BYTES, without=SYSTEM_ANCHOR),
        "what may vouch for certificates, and the CA files",
    )
    key: str = head(NONCE, "of the marks, drawn for this run")
    places: Mapping[str, str] = head(
        TableShape(Choice(*REFUSALS), _PLACE, len(REFUSALS)), "where the rule of each reason is"
    )

    def check(self) -> None:
        need(len(self.places) == len(REFUSALS), "a reason without a place")


@message(PROTOCOL, "opened", sender="gateway")
class GatewayOpened(Message):
    """From now on the guest is listened to."""


@flat_message("gateway frames", "ASK", sender="guest", answer="ANSWER and DATA, or NO")
class GuestRequest(FlatMessage):
    """What the guest wants to have asked; whether it may is not looked at here."""

    headers: Mapping[str, str] = head(TableShape(_NAME, _VALUE, MAX_HEADERS), "of the request")
    line: int = head(Integer(0, MAX_LINE), "of the code, by the guest's word; 0 for none")
    method: str = head(_NAME, "GET, for example")
    url: str = head(OpenText(MAX_HEAD_BYTES), "what to ask")


@flat_message(PROTOCOL, "note", sender="gateway, for each request of the guest")
class GatewayNote(FlatMessage):
    """What became of one request: what passed, and why it was not carried if it was not."""

    down: int = head(Integer(0, MAX_DOWN_BYTES * 2), "bytes that came")
    host: str = head(
        Pattern(rf"[ -~]{{0,{MAX_ARGUMENT_CHARS}}}", "printable ASCII"), "empty if there was none"
    )
    line: int = head(Integer(0, MAX_LINE), "of the code; 0 for none")
    method: str = head(_NAME, "of the request")
    reason: str = head(Choice("", *REASONS), "empty if it was carried")
    up: int = head(Integer(0, MAX_UP_BYTES * 2), "bytes that left")


parse_opening: Final = parser_of(GatewayOpening)
parse_opened: Final = parser_of(GatewayOpened)
parse_request: Final = FlatParser(GuestRequest)
parse_note: Final = FlatParser(GatewayNote)


def frame(kind: int, data: bytes) -> bytes:
    """Return one frame."""
    return HEADER.pack(kind, len(data)) + data


def answer_frames(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return an answer as the guest hears it."""
    spelled = canonical.encode({"headers": dict(sorted(headers.items())), "status": status})
    return frame(ANSWER, spelled) + frame(DATA, body)


def no_frame(reason: str, detail: str, place: str) -> bytes:
    """Return why there is no answer, and by which rule."""
    return frame(NO, canonical.encode({"detail": detail, "place": place, "reason": reason}))
