"""Messages between the host and the sandbox that computes vectors of texts.

A vector is `DIMENSIONS` numbers, float32, little endian, of length 1.

SECURITY
    Either side may be compromised: the sandbox reads a model file and texts of strangers.  A vector
    that is not one (too short, not finite, not of length 1) is not taken; what it says about
    its text is the sandbox's word, and orders what a human or a model is shown, nothing else.
"""

import math
from array import array
from collections.abc import Sequence
from typing import Final

from threegate.base.forms import DIGEST
from threegate.base.greeting import GateReady, Greeting
from threegate.base.limits import KIB
from threegate.base.message_parts import BoxedUtf8, RawParts
from threegate.base.messages import Message, head, message, parser_of, part
from threegate.base.untrusted import Untrusted
from threegate.base.wire import need

PROTOCOL: Final = "embed/1"
DIMENSIONS: Final = 384
VECTOR_BYTES: Final = 4 * DIMENSIONS
MAX_TEXTS: Final = 64
MAX_TEXT_BYTES: Final = 128 * KIB  # an excerpt has 20,000 characters
LENGTH_SLACK: Final = 1e-3

GREETING: Final = Greeting(PROTOCOL, GateReady, "TG-EMB-")


@message(PROTOCOL, "opening", sender="host, first", answer="`GateReady` or `Refused`")
class EmbedderOpening(Message):
    """Load the bound files, if they are those of these digests."""

    weights: str = head(DIGEST, "digest of the file of weights")
    vocabulary: str = head(DIGEST, "digest of the vocabulary")


@message(PROTOCOL, "embed", sender="host", answer="`TextVectors`, one for each text in its order")
class Embed(Message):
    """Texts to compute vectors of."""

    texts: tuple[Untrusted[str], ...] = part(
        RawParts(MAX_TEXTS, MAX_TEXT_BYTES, least=1, form=BoxedUtf8()), "the texts"
    )


@message(PROTOCOL, "vectors", sender="sandbox")
class TextVectors(Message):
    """One vector for each text."""

    rows: tuple[bytes, ...] = part(RawParts(MAX_TEXTS, VECTOR_BYTES, least=1), "the vectors")

    def check(self) -> None:
        for row in self.rows:
            need_vector(row)


parse_opening: Final = parser_of(EmbedderOpening)
parse_embed: Final = parser_of(Embed)


def parse_vectors(data: Untrusted[bytes], count: int) -> TextVectors:
    """Return `count` vectors in `data`, or raise `ProtocolBroken`."""
    found = parser_of(TextVectors)(data)
    need(len(found.rows) == count, "not as many vectors as texts")
    return found


def need_vector(row: bytes) -> None:
    """Raise `ProtocolBroken` unless `row` is a vector: of its size, finite, of length 1."""
    need(len(row) == VECTOR_BYTES, "a vector is not of its size")
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
