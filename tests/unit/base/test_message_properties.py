"""What holds for every message of every protocol: one spelling each, anything else refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import MESSAGES, Message, Parse
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted

EVERY = [pytest.param(*pair, id=name) for name, pairs in MESSAGES.items() for pair in pairs]
TABLES = [pytest.param(pairs, id=name) for name, pairs in MESSAGES.items()]
Table = tuple[tuple[Message, Parse], ...]


def refused_or_spelled_the_same(data: bytes, parse: Parse) -> None:
    try:
        parsed = parse(Untrusted(data))
    except ProtocolBroken as exc:
        assert exc.code == "TG-PRO-001"
    else:
        assert parsed.to_bytes() == data


@pytest.mark.parametrize(("message", "parse"), EVERY)
def test_a_message_comes_back_with_the_same_bytes(message: Message, parse: Parse) -> None:
    data = message.to_bytes()
    parsed = parse(Untrusted(data))
    assert parsed == message
    assert parsed.to_bytes() == data
    refused_or_spelled_the_same(data + b"x", parse)


@pytest.mark.parametrize("table", TABLES)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused(table: Table, data: bytes) -> None:
    for _, parse in table:
        with pytest.raises(ProtocolBroken):  # no message is this short and this random
            parse(Untrusted(data))


@pytest.mark.parametrize("table", TABLES)
@given(data=st.data())
def test_a_damaged_message_is_refused_or_spelled_the_same(table: Table, data: Any) -> None:
    message, parse = data.draw(st.sampled_from(table))
    raw = bytearray(message.to_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    kind = data.draw(st.sampled_from(["change", "cut", "insert"]))
    if kind == "change":
        raw[at] = data.draw(st.integers(0, 255))
    elif kind == "cut":
        del raw[at:]
    else:
        raw[at:at] = data.draw(st.binary(min_size=1, max_size=5))
    refused_or_spelled_the_same(bytes(raw), parse)
