"""Messages between the host and the box that computes vectors of texts.

| message | sent by | answered by |
|---|---|---|
| `Opening` | host, first | `Ready`, or `Refused` and the box is of no use |
| `Embed` | host, any number of times | `Vectors`, one for each text in its order |

A vector is `DIMENSIONS` numbers, float32, little endian, of length 1.

SECURITY
    Either side may be owned: the box reads a model file and texts of strangers.  A vector
    that is not one (too short, not finite, not of length 1) is not taken; what it says about
    its text is the box's word, and orders what a human or a model is shown, nothing else.
"""

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from threegate.base import greeting, limits, wire
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.base.wire import (
    Packed,
    fields_of,
    need,
    need_bytes,
    need_word,
    parts_of,
)

PROTOCOL: Final = "embed/1"
DIMENSIONS: Final = 384
VECTOR_BYTES: Final = 4 * DIMENSIONS
MAX_TEXTS: Final = 64
MAX_TEXT_BYTES: Final = 128 * 1024  # an excerpt has 20,000 characters
MAX_EMBED_BYTES: Final = limits.MAX_HEADER_BYTES + MAX_TEXTS * MAX_TEXT_BYTES
MAX_VECTORS_BYTES: Final = limits.MAX_HEADER_BYTES + MAX_TEXTS * VECTOR_BYTES
LENGTH_SLACK: Final = 1e-3
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Opening:
    """Load the bound files, if they are those of these digests."""

    weights: str
    vocabulary: str

    def __post_init__(self) -> None:
        need_word(self.weights, _DIGEST, "weights")
        need_word(self.vocabulary, _DIGEST, "vocabulary")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {"vocabulary": self.vocabulary, "weights": self.weights}
        return wire.pack(PROTOCOL, "opening", fields, [])


@dataclass(frozen=True, slots=True)
class Ready(greeting.Ready):
    """The model is loaded."""

    protocol: ClassVar[str] = PROTOCOL


@dataclass(frozen=True, slots=True)
class Refused(greeting.Refused):
    """There is no such model here."""

    protocol: ClassVar[str] = PROTOCOL
    codes: ClassVar[re.Pattern[str]] = re.compile(r"TG-EMB-[0-9]{3}")


@dataclass(frozen=True, slots=True)
class Embed:
    """Texts to compute vectors of."""

    texts: tuple[Untrusted[str], ...]

    def __post_init__(self) -> None:
        need(1 <= len(self.texts) <= MAX_TEXTS, "too many texts, or none")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        parts = [text.open_for_validation().encode("utf-8") for text in self.texts]
        for part in parts:
            need_bytes(part, MAX_TEXT_BYTES, "a text")
        return wire.pack(PROTOCOL, "embed", {}, parts)


@dataclass(frozen=True, slots=True)
class Vectors:
    """One vector for each text."""

    rows: tuple[bytes, ...]

    def __post_init__(self) -> None:
        need(1 <= len(self.rows) <= MAX_TEXTS, "too many vectors, or none")
        for row in self.rows:
            need_vector(row)

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        return wire.pack(PROTOCOL, "vectors", {}, self.rows)


def need_vector(row: object) -> None:
    """Raise `ProtocolBroken` unless `row` is a vector: of its size, finite, of length 1."""
    need(type(row) is bytes and len(row) == VECTOR_BYTES, "a vector is not of its size")
    assert isinstance(row, bytes)
    length = math.fsum(number * number for number in numbers_of(row))
    need(abs(length - 1.0) <= LENGTH_SLACK, "a vector is not of length 1")  # NaN is not, either


def numbers_of(row: bytes) -> "array[float]":
    """Return the numbers of a vector."""
    found = array("f", row)
    if array("H", b"\x01\x00")[0] != 1:  # pragma: no cover  # a machine that counts from the top
        found.byteswap()
    return found


def nearness(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of two vectors of length 1."""
    return sum(map(float.__mul__, one, other))


def parse_opening(data: Untrusted[bytes]) -> Opening:
    """Return the opening in `data`, or raise `ProtocolBroken`."""
    packed = _unpacked(data, limits.MAX_HEADER_BYTES, "opening")
    vocabulary, weights = fields_of(packed, "vocabulary", "weights")
    parts_of(packed, 0)
    return Opening(weights, vocabulary)


def parse_greeting(data: Untrusted[bytes]) -> Ready | Refused:
    """Return the answer to an opening, or raise `ProtocolBroken`; used by the host."""
    return greeting.parse_greeting(data, Ready, Refused)


def parse_embed(data: Untrusted[bytes]) -> Embed:
    """Return the texts in `data`, or raise `ProtocolBroken`."""
    packed = _unpacked(data, MAX_EMBED_BYTES, "embed")
    fields_of(packed)
    for part in packed.parts:
        need_bytes(part, MAX_TEXT_BYTES, "a text")
    try:
        return Embed(tuple(Untrusted(part.decode("utf-8")) for part in packed.parts))
    except UnicodeDecodeError as exc:
        raise ProtocolBroken("a text is not UTF-8") from exc


def parse_vectors(data: Untrusted[bytes], count: int) -> Vectors:
    """Return `count` vectors in `data`, or raise `ProtocolBroken`."""
    packed = _unpacked(data, MAX_VECTORS_BYTES, "vectors")
    fields_of(packed)
    return Vectors(parts_of(packed, count))


def _unpacked(data: Untrusted[bytes], most_bytes: int, *kinds: str) -> Packed:
    return wire.unpack_due(data, *kinds, protocol=PROTOCOL, most_bytes=most_bytes)
