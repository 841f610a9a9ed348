"""The retrieval record, and the messages between the host and a normalize sandbox.

A `RetrievalRecord` names every answer that was kept and every source that had none.  A packet is
a pure function of the record's bytes and of the raw bytes it names, so both are stored and
the packet can be made again.

SECURITY
    The sandbox believes no host, and the host believes no sandbox: it has just read hostile bytes.
    Whatever the sandbox says, the host compares the packet with its own record.
"""

import re
from typing import Any, Final

from threegate.artifacts.ids import id_of
from threegate.artifacts.limits import MAX_ALSO, MAX_PACKET_BYTES
from threegate.artifacts.sources import GAP_REASONS, LOCAL_SOURCES, SOURCE_NAMES
from threegate.base.errors import ProtocolBroken
from threegate.base.forms import (
    CONFIDENTIALITY,
    DIGEST,
    LOCATION,
    NO_ANCHOR,
    ORIGIN_ANCHOR,
    TIME,
    URL,
)
from threegate.base.identifiers import SCHEMES
from threegate.base.limits import MAX_HEADER_BYTES, MAX_HOPS, MAX_URL_CHARS, MIB
from threegate.base.message_parts import RawPart, RawParts
from threegate.base.message_shapes import RowShape, SortedRecord, TextLine
from threegate.base.messages import (
    CheckedRecord,
    FlatMessage,
    FlatParser,
    Message,
    flat_message,
    head,
    message,
    parser_of,
    part,
    record,
)
from threegate.base.schema import Choice, Integer, ListOf, Mismatch, Nullable, Pattern, ShapeRule
from threegate.base.wire import need

PROTOCOL: Final = "normalize/1"
SCAN: Final = "TG-NRM-007"  # a PDF whose pages have no text: recognition may read it
MAX_ANSWERS: Final = 1 + MAX_ALSO  # the main one, and as many more as a packet may name
MAX_MISSES: Final = 32  # with one gap per answer still within a packet's list of gaps
MAX_RECORD_BYTES: Final = 1 * MIB
MAX_MANY: Final = 32  # files that one sandbox reads
MAX_MANY_BYTES: Final = 4 * MIB  # of all their bytes, and of all their records
MAX_RAWS_BYTES: Final = 192 * MIB  # of all answers together; the sandbox holds them three times

_TYPE: Final = r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*"
_MARKUP: Final = re.compile(r"<[A-Za-z/!?]")  # what a packet may not hold anywhere


class ReferenceLine(TextLine):
    """A reference as records and packets spell it."""

    def build(self, value: Any) -> str:
        text = super().build(value)
        if _MARKUP.search(text) is not None:
            raise Mismatch(ShapeRule.MALFORMED_VALUE, "holds markup; write `<` as %3C")
        return text


_REFERENCE: Final = ReferenceLine(MAX_URL_CHARS)


def spelled_reference(text: str) -> str:
    """Return a reference as records and packets spell it: a `<` that could be markup as in a URL.

    Some DOIs hold one, and so may the words of a search.
    """
    return _MARKUP.sub(lambda found: f"%3C{found.group()[1]}", text)


@record
class KeptAnswer(CheckedRecord):
    """One answer that was kept; its raw bytes lie beside the record under `sha256`."""

    source: str = head(Choice(*SOURCE_NAMES), "who answered")
    role: str = head(Choice("document", "metadata", "related", "search"), "what for")
    reference: str = head(_REFERENCE, "what was asked for")
    url: str = head(LOCATION, "where the bytes came from, after `hops`")
    hops: tuple[tuple[str, int], ...] = head(
        ListOf(RowShape(URL, Integer(300, 399)), MAX_HOPS), "redirects on the way"
    )
    status: int = head(Integer(100, 599), "of the answer")
    media_type: str = head(
        Pattern(f"(?:{_TYPE})?", "a media type, or nothing"), "what the server declared"
    )
    read_as: str = head(Pattern(_TYPE, "a media type"), "what the bytes are")
    retrieved: str = head(TIME, "when")
    sha256: str = head(DIGEST, "of the bytes")
    bytes: int = head(Integer(0, MAX_RAWS_BYTES), "how many")
    trust_anchor: str = head(ORIGIN_ANCHOR, "what vouched for the certificate")

    def check(self) -> None:
        local = self.source in LOCAL_SOURCES
        need(local is not self.url.startswith("https:"), "a source and its url disagree")
        need(local is (self.trust_anchor == NO_ANCHOR), "a source and its trust_anchor disagree")


@record
class Miss(CheckedRecord):
    """Something that was asked for and did not come."""

    source: str = head(Choice(*SOURCE_NAMES), "who was asked")
    reference: str = head(_REFERENCE, "what for")
    reason: str = head(Choice(*GAP_REASONS), "why it is missing")
    detail: str = head(TextLine(), "the same in our own words")


@flat_message(
    "retrieval record",
    "retrieval/1",
    sender="host; stored beside the packet",
    most_bytes=MAX_RECORD_BYTES,
    constants={"format": "retrieval/1"},
)
class RetrievalRecord(FlatMessage):
    """What one reference came to: every answer and every miss, in the order of the questions."""

    reference: str = head(_REFERENCE, "what was asked for")
    scheme: str = head(Choice(*sorted((*SCHEMES, "file", "search"))), "what it is")
    want: str = head(Choice("full-text", "metadata", "search"), "what was wanted")
    request: str | None = head(Nullable(id_of("fr")), "the fetch request it belongs to")
    replaces: str | None = head(
        Nullable(id_of("rp")), "the packet of the earlier version of an imported file"
    )
    confidentiality: str = head(Choice(*CONFIDENTIALITY), "of the packet")
    answers: tuple[KeptAnswer, ...] = head(
        ListOf(SortedRecord(KeptAnswer), MAX_ANSWERS), "what was kept"
    )
    misses: tuple[Miss, ...] = head(ListOf(SortedRecord(Miss), MAX_MISSES), "what is missing")

    def check(self) -> None:
        need((self.scheme == "search") == (self.want == "search"), "a search is a search")
        total = sum(answer.bytes for answer in self.answers)
        need(total <= MAX_RAWS_BYTES, "the answers are too large")


@message(
    PROTOCOL, "normalize", sender="host", answer="`PacketMade` or `PacketNotMade`; the sandbox ends"
)
class Normalize(Message):
    """A record and the raw bytes of its answers, in their order."""

    record: bytes = part(RawPart(MAX_RECORD_BYTES), "a `RetrievalRecord`")
    raws: tuple[bytes, ...] = part(
        RawParts(MAX_ANSWERS, MAX_RAWS_BYTES, total_bytes=MAX_RAWS_BYTES), "the bytes"
    )


@message(PROTOCOL, "made", sender="sandbox")
class PacketMade(Message):
    """The packet, which the host parses and compares with its record."""

    packet: bytes = part(RawPart(MAX_PACKET_BYTES), "a research packet")


@message(PROTOCOL, "not-made", sender="sandbox")
class PacketNotMade(Message):
    """There is nothing to make a packet of, or the bytes are not what they should be."""

    code: str = head(Pattern(r"TG-NRM-[0-9]{3}", "a code of this gate"), "which rule")
    message: str = head(TextLine(), "why, in our own words")


@message(PROTOCOL, "normalize-many", sender="host", answer="`ManyMade`; the sandbox ends")
class NormalizeMany(Message):
    """Records of files of one commit, each followed by the bytes of its one answer."""

    pieces: tuple[bytes, ...] = part(
        RawParts(2 * MAX_MANY, MAX_MANY_BYTES, least=2, total_bytes=2 * MAX_MANY_BYTES),
        "record and bytes, one after the other",
    )

    def check(self) -> None:
        need(len(self.pieces) % 2 == 0, "a record without its bytes")


@message(PROTOCOL, "many-made", sender="sandbox")
class ManyMade(Message):
    """An answer for each record, in their order."""

    answers: tuple[bytes, ...] = part(
        RawParts(MAX_MANY, MAX_PACKET_BYTES + MAX_HEADER_BYTES, least=1, total_bytes=12 * MIB),
        "a `PacketMade` or `PacketNotMade` each",
    )


parse_record: Final = FlatParser(RetrievalRecord)
parse_normalize: Final = parser_of(Normalize, NormalizeMany)
parse_many: Final = parser_of(ManyMade)
parse_made: Final = parser_of(PacketMade, PacketNotMade)


def parse_kept_answer(value: Any) -> KeptAnswer:
    """Return the answer that `Answer.plain` spelled as `value`, or raise `ProtocolBroken`."""
    try:
        found: KeptAnswer = SortedRecord(KeptAnswer).build(value)
    except Mismatch as exc:
        raise ProtocolBroken(f"an answer: {exc.words}") from exc
    return found
