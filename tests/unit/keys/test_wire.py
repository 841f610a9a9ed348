"""The SSH wire format: every length is bounded before it is used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.errors import SignatureRefused
from threegate.keys.public import WireReader, wire_string


def test_fields_come_back_in_order() -> None:
    reader = WireReader(b"ab" + b"\x07" + b"\x00\x00\x01\x00" + wire_string(b"xyz"), what="key")
    assert reader.take(2) == b"ab"
    assert reader.u8() == 7
    assert reader.u32() == 256
    assert reader.string(3) == b"xyz"
    reader.end()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "key ends early"),
        (b"\x00\x00\x00", "key ends early"),
        (b"\x00\x00\x00\x02a", "key ends early"),
        (b"\x00\x00\x00\x05abcde", "key has a field of 5 bytes, limit 4"),
        (b"\xff\xff\xff\xff", "key has a field of 4294967295 bytes, limit 4"),
        (b"\x00\x00\x00\x01ab", "key has 1 trailing bytes"),
    ],
)
def test_wrong_lengths_are_refused(data: bytes, reason: str) -> None:
    reader = WireReader(data, what="key")

    def read() -> None:
        reader.string(4)
        reader.end()

    with pytest.raises(SignatureRefused) as refused:
        read()
    assert (refused.value.code, refused.value.message) == ("TG-KEY-001", reason)


@given(st.lists(st.binary(max_size=40)))
def test_what_is_written_is_read(parts: list[bytes]) -> None:
    reader = WireReader(b"".join(map(wire_string, parts)), what="list")
    assert [reader.string(40) for _ in parts] == parts
    reader.end()
