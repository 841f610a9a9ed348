"""Research Packet: what FETCH retrieved, as quoted text with its provenance.

There is no field for instructions: a packet can say what a source says, never what to do.

SECURITY
    Reads bytes written by FETCH from hostile sources.  Opens no files and starts
    nothing.  If this module is wrong, CORE reads text that was never retrieved or
    whose hazards went unflagged; it still cannot fetch or execute.
"""

import re
from dataclasses import dataclass
from typing import Final

from threegate.artifacts import limits
from threegate.artifacts.codec import BodySection, Format, section
from threegate.artifacts.ids import id_of, sha256_hex
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.artifacts.sources import (
    GAP_REASONS,
    IDENTIFIER_SCHEMES,
    LOCAL_SOURCES,
    SOURCE_NAMES,
)
from threegate.base.forms import (
    CONFIDENTIALITY,
    DATE,
    DIGEST,
    LOCATION,
    NO_ANCHOR,
    ORIGIN_ANCHOR,
    TIME,
    URL,
)
from threegate.base.limits import MAX_HOPS, MAX_URL_CHARS
from threegate.base.schema import (
    Choice,
    Integer,
    ListOf,
    Named,
    Nullable,
    Pattern,
    Record,
    Sorted,
    Text,
    spec,
)
from threegate.base.untrusted import Untrusted

HAZARDS: Final = (
    "active-content",
    "bidi",
    "confusable",
    "control",
    "hidden-text",
    "hidden-undecided",
    "injection-like",
    "invisible",
    "markup-escaped",
    "recognised",
    "secret-like",
    "truncated",
)


# Any tag at all, not a list of dangerous ones: lists of dangerous tags are never complete.
_MARKUP: Final = re.compile(r"<[A-Za-z/!?]")


@dataclass(frozen=True, slots=True)
class Hop:
    """One redirect on the way to the final URL."""

    url: str = spec(URL, "where the request went")
    status: int = spec(Integer(300, 399), "the redirect status it answered with")


@dataclass(frozen=True, slots=True)
class Identifier:
    """A name the source is known by."""

    scheme: str = spec(Choice(*IDENTIFIER_SCHEMES), "which naming scheme")
    value: Untrusted[str] = spec(Text(200), "the name in that scheme")


@dataclass(frozen=True, slots=True)
class FieldSource:
    """Which source a piece of metadata came from."""

    field: str = spec(
        Choice(
            "abstracts",
            "authors",
            "container",
            "identifiers",
            "licence",
            "published",
            "retraction",
            "title",
        ),
        "the field of this packet",
    )
    source: str = spec(Choice(*SOURCE_NAMES), "where it came from")


@dataclass(frozen=True, slots=True)
class Notice:
    """One statement that the work was retracted, corrected or doubted."""

    status: str = spec(Choice("corrected", "concern", "retracted"), "what it says")
    source: str = spec(Choice(*SOURCE_NAMES), "who was asked")
    label: Untrusted[str] | None = spec(Nullable(Text(300)), "as the source words it")
    notice: Untrusted[str] | None = spec(Nullable(Text(200)), "DOI or other name of the notice")
    date: str | None = spec(Nullable(DATE), "date of the notice")


@dataclass(frozen=True, slots=True)
class Also:
    """A further answer that this packet was made from."""

    source: str = spec(Choice(*SOURCE_NAMES), "who answered")
    url: str = spec(LOCATION, "the final URL, or where an imported file was")
    retrieved: str = spec(TIME, "when the bytes arrived")
    sha256: str = spec(DIGEST, "digest of its raw bytes, kept beside the packet")
    bytes: int = spec(Integer(), "number of its raw bytes")
    trust_anchor: str = spec(ORIGIN_ANCHOR, "the certificate store it was checked against")


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something found in the source that a reader should know of."""

    name: str = spec(Choice(*HAZARDS), "what was found")
    count: int = spec(Integer(1), "how often")


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that was asked for and is not in this packet."""

    source: str = spec(Choice(*SOURCE_NAMES), "who was asked")
    reference: Untrusted[str] = spec(Text(), "what was asked for")
    reason: str = spec(Choice(*GAP_REASONS), "why it is missing")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Where one excerpt is in the source's text."""

    label: Untrusted[str] = spec(Text(200), "what the part is called, such as `abstract`")
    page: int | None = spec(Nullable(Integer(1, 1_000_000)), "page, where the source has pages")
    offset: int = spec(Integer(), "first character within the source's text")
    length: int = spec(Integer(1, limits.MAX_EXCERPT_CHARS), "number of characters")
    sha256: str = spec(DIGEST, "digest of the excerpt's UTF-8 bytes")


@dataclass(frozen=True, slots=True)
class ResearchPacket:
    """What FETCH retrieved from one source."""

    source: str = spec(Choice(*SOURCE_NAMES), "which adapter retrieved it")
    reference: Untrusted[str] = spec(Text(MAX_URL_CHARS), "what was asked for")
    request: str | None = spec(Nullable(id_of("fr")), "the fetch request it answers, if any")
    replaces: str | None = spec(
        Nullable(id_of("rp")), "the packet of the earlier version of an imported file"
    )
    url: str = spec(LOCATION, "the final URL, or where an imported file was")
    hops: tuple[Hop, ...] = spec(
        ListOf(Record(Hop), MAX_HOPS), "every redirect before it, in order"
    )
    retrieved: str = spec(TIME, "when the bytes arrived")
    media_type: str = spec(
        Pattern(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*", "a media type"),
        "the type the bytes were read as",
    )
    raw_sha256: str = spec(DIGEST, "digest of the raw bytes, kept beside the packet")
    raw_bytes: int = spec(Integer(), "number of raw bytes")
    trust_anchor: str = spec(
        ORIGIN_ANCHOR, "the certificate store the connection was checked against"
    )
    record_sha256: str | None = spec(
        Nullable(DIGEST), "digest of the retrieval record, from which it can be made again"
    )
    also: tuple[Also, ...] = spec(
        ListOf(Record(Also), limits.MAX_ALSO), "further answers it was made from"
    )
    title: Untrusted[str] = spec(Text(limits.MAX_TITLE_CHARS, least=0), "title of the source")
    authors: tuple[Untrusted[str], ...] = spec(
        ListOf(Text(300), limits.MAX_AUTHORS), "authors, as the source spells them"
    )
    container: Untrusted[str] | None = spec(Nullable(Text()), "journal, book or repository")
    published: str | None = spec(Nullable(DATE), "publication date")
    licence: Untrusted[str] | None = spec(Nullable(Text()), "licence, as the source states it")
    identifiers: tuple[Identifier, ...] = spec(
        Sorted(Record(Identifier), 64), "names the source is known by"
    )
    metadata_from: tuple[FieldSource, ...] = spec(
        Sorted(Record(FieldSource), 64), "where each merged field came from"
    )
    retraction: str = spec(
        Choice("none", "corrected", "concern", "retracted", "unknown"),
        "retraction status at retrieval; `unknown` where nobody could be asked",
    )
    notices: tuple[Notice, ...] = spec(
        ListOf(Record(Notice), limits.MAX_NOTICES), "retractions and corrections, as stated"
    )
    hazards: tuple[Hazard, ...] = spec(
        Named(Record(Hazard), len(HAZARDS)), "what was found and made visible"
    )
    gaps: tuple[Gap, ...] = spec(
        ListOf(Record(Gap), 64), "what was asked and refused, missing or late"
    )
    excerpts: tuple[Excerpt, ...] = spec(
        ListOf(Record(Excerpt), limits.MAX_EXCERPTS), "one entry per text under Excerpts"
    )
    integrity: str = spec(Choice("external"), "a packet is always external")
    confidentiality: str = spec(Choice(*CONFIDENTIALITY), "who may see it")
    texts: tuple[Untrusted[str], ...] = section(
        BodySection("Excerpts", limits.MAX_EXCERPT_CHARS, 1, limits.MAX_EXCERPTS),
        "the excerpts, quoted exactly",
    )

    def parents(self) -> tuple[str, ...]:
        """Return the ids this packet was made from."""
        return () if self.request is None else (self.request,)


def _check_text(text: str) -> None:
    if "<" in text:
        match = _MARKUP.search(text)
        if match is not None:
            line = text.count("\n", 0, match.start()) + 1
            raise reject(ArtifactReason.MARKUP, f"markup in line {line}")


def _check_place(one: "ResearchPacket | Also") -> None:
    """Refuse a packet that gives an imported file the marks of a retrieved page, or the reverse."""
    local = one.source in LOCAL_SOURCES
    if local is one.url.startswith("https:") or local is not (one.trust_anchor == NO_ANCHOR):
        raise reject(ArtifactReason.INCONSISTENT, "source, url and trust_anchor disagree")


def _check(packet: ResearchPacket) -> None:
    _check_place(packet)
    for also in packet.also:
        _check_place(also)
    if len(packet.excerpts) != len(packet.texts):
        raise reject(ArtifactReason.INCONSISTENT, "excerpts and texts differ in number")
    for number, (excerpt, text) in enumerate(zip(packet.excerpts, packet.texts, strict=True), 1):
        untrusted = text.open_for_validation()
        if excerpt.length != len(untrusted):
            raise reject(
                ArtifactReason.INCONSISTENT, f"excerpt {number} has another length than its text"
            )
        if excerpt.sha256 != sha256_hex(untrusted.encode("utf-8")):
            raise reject(
                ArtifactReason.DIGEST_MISMATCH, f"excerpt {number} is not the text it names"
            )


FORMAT: Final = Format(
    ResearchPacket,
    prefix="rp",
    version=1,
    title="Research Packet",
    max_bytes=limits.MAX_PACKET_BYTES,
    check=_check,
    check_text=_check_text,
)
