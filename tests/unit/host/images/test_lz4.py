"""LZ4 blocks made by hand, and bytes that are none."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.host.images.lz4 import MAGIC, unpack


def frame(*blocks: bytes, size: int) -> bytes:
    parts = [struct.pack("<I", len(block)) + block for block in blocks]
    return MAGIC + b"".join(parts) + struct.pack("<I", size)


def literals(data: bytes) -> bytes:
    """Return a block of one sequence without a match."""
    count = len(data)
    if count < 15:
        return bytes([count << 4]) + data
    more, rest = divmod(count - 15, 255)
    return b"\xf0" + b"\xff" * more + bytes([rest]) + data


KNOWN = {
    "plain": (frame(literals(b"hello"), size=5), b"hello"),
    "long": (frame(literals(bytes(range(256)) * 3), size=768), bytes(range(256)) * 3),
    "two blocks": (frame(literals(b"ab"), literals(b"cd"), size=4), b"abcd"),
    # "abcd", then 4 from 4 back, then "!" at the end
    "match": (frame(b"\x40abcd\x04\x00\x10!", size=9), b"abcdabcd!"),
    # "a", then 19 + 3 + 0 from 1 back: it repeats what it makes
    "overlap": (frame(b"\x1fa\x01\x00\x03\x10!", size=24), b"a" * 23 + b"!"),
    "overlap of two": (frame(b"\x23ab\x02\x00\x10!", size=10), b"ababababa!"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_frames_are_unpacked(name: str) -> None:
    data, expected = KNOWN[name]
    assert unpack(data, max_bytes=1000) == expected


REFUSED = {
    "no magic": (b"\x00" * 12, "no frame"),
    "nothing": (MAGIC, "no frame"),
    "too large": (frame(literals(b"x"), size=1001), "larger than allowed"),
    "less": (frame(literals(b"x"), size=2), "less than it says"),
    "more": (frame(literals(b"xx"), size=1), "more than it says"),
    "before the start": (frame(b"\x10a\x02\x00\x10!", size=6), "outside"),
    "zero back": (frame(b"\x10a\x00\x00\x10!", size=6), "outside"),
    "literals cut": (frame(b"\x50ab", size=5), "ends too early"),
    "length cut": (frame(b"\xf0\xff", size=5), "ends too early"),
    "offset cut": (frame(b"\x10a\x01", size=5), "ends too early"),
    "block cut": (MAGIC + struct.pack("<I", 99) + b"ab" + struct.pack("<I", 2), "too early"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_frame_is_refused(name: str) -> None:
    data, reason = REFUSED[name]
    with pytest.raises(ValueError, match=reason):
        unpack(data, max_bytes=1000)


def test_a_small_frame_cannot_unpack_to_more_than_a_block() -> None:
    bomb = b"\x1fa\x01\x00" + b"\xff" * 40_000 + b"\x00\x10!"  # 10 MiB out of 40 kB
    with pytest.raises(ValueError, match="outside"):
        unpack(frame(bomb, size=11_000_000), max_bytes=20_000_000)


@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_bytes_are_unpacked_or_refused(data: bytes, size: int) -> None:
    with contextlib.suppress(ValueError):
        assert len(unpack(frame(data, size=size), max_bytes=1000)) == size


@given(st.binary(max_size=1000))
def test_what_is_packed_without_matches_comes_back(data: bytes) -> None:
    assert unpack(frame(literals(data), size=len(data)), max_bytes=1000) == data
