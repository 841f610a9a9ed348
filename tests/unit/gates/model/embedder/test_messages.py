"""Messages to and from the embedder: one spelling each, and a vector is one or is not taken."""

import math

import pytest

from tests.support.messages import row
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.model.embedder.messages import (
    MAX_TEXT_BYTES,
    MAX_TEXTS,
    Embed,
    TextVectors,
    nearness,
    numbers_of,
    parse_embed,
    parse_vectors,
)


@pytest.mark.parametrize(
    "wrong",
    [
        row(),
        row(0.5),
        row(2.0),
        row(math.nan),
        row(math.inf),
        row(1.0)[:-4],
        row(1.0) + b"\0\0\0\0",
        b"",
    ],
)
# claim TG-C-146
def test_what_is_not_a_vector_is_not_taken(wrong: bytes) -> None:
    right = TextVectors((row(1.0),)).to_bytes()
    assert parse_vectors(Untrusted(right), 1).rows == (row(1.0),), "control"
    data = right.replace(b'"parts":[1536]', b'"parts":[%d]' % len(wrong))
    with pytest.raises(ProtocolBroken, match=r"vector|rows is too large"):
        parse_vectors(Untrusted(data.partition(b"\n")[0] + b"\n" + wrong), 1)


def test_fewer_vectors_than_texts_are_no_answer() -> None:
    data = TextVectors((row(1.0),)).to_bytes()
    with pytest.raises(ProtocolBroken):
        parse_vectors(Untrusted(data), 2)


def test_texts_are_bounded() -> None:
    with pytest.raises(ProtocolBroken):
        Embed(())
    with pytest.raises(ProtocolBroken):
        Embed((Untrusted("x"),) * (MAX_TEXTS + 1))
    assert Embed((Untrusted("x" * MAX_TEXT_BYTES),)).to_bytes(), "control"
    with pytest.raises(ProtocolBroken):
        Embed((Untrusted("x" * (MAX_TEXT_BYTES + 1)),)).to_bytes()
    data = Embed((Untrusted("xy"),)).to_bytes()
    with pytest.raises(ProtocolBroken, match="UTF-8"):
        parse_embed(Untrusted(data[:-2] + b"\xff\xfe"))


def test_nearness_is_the_cosine() -> None:
    one, other = numbers_of(row(1.0)), numbers_of(row(0.6, 0.8))
    assert nearness(one, one) == 1.0
    assert nearness(one, other) == pytest.approx(0.6)
