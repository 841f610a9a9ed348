"""Frames as both ends read them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threegate.sandbox.channel import (
    CHUNK,
    END,
    HEADER,
    MAX_CHUNK_BYTES,
    NOTE,
    ChannelBroken,
    FrameReader,
    MessageReader,
    MessageTooLong,
    frames,
    read_message,
)


@contextmanager
def pipe_with(data: bytes) -> Iterator[int]:
    """Give a descriptor from which `data` comes, and then the end."""
    assert len(data) <= 65536, "more would not fit into the pipe"
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)


def test_messages_are_read_one_by_one_until_the_end() -> None:
    with pipe_with(frames(b"one") + frames(b"") + frames(b"three")) as fd:
        assert [read_message(fd, 10) for _ in range(5)] == [b"one", b"", b"three", None, None]


@pytest.mark.parametrize(
    "data",
    [
        HEADER.pack(CHUNK, 3)[:2],
        HEADER.pack(CHUNK, 3),
        HEADER.pack(CHUNK, 3) + b"on",
        HEADER.pack(CHUNK, 3) + b"one",
        HEADER.pack(CHUNK, 3) + b"one" + HEADER.pack(END, 0)[:4],
    ],
)
def test_the_end_inside_a_message_is_not_the_end_of_messages(data: bytes) -> None:
    with pipe_with(frames(b"whole") + data) as fd:
        assert read_message(fd, 10) == b"whole"
        with pytest.raises(ChannelBroken, match="ended inside"):
            read_message(fd, 10)


@pytest.mark.parametrize(
    "data",
    [
        HEADER.pack(CHUNK, 11) + b"12345678901",
        HEADER.pack(CHUNK, MAX_CHUNK_BYTES + 1),
        HEADER.pack(NOTE, 0),
        HEADER.pack(END, 1) + b"x",
        HEADER.pack(9, 0),
        (HEADER.pack(CHUNK, 6) + b"123456") * 2,
    ],
)
def test_what_is_no_message_within_the_limit_is_refused(data: bytes) -> None:
    with pipe_with(data) as fd, pytest.raises(ChannelBroken, match="not a frame"):
        read_message(fd, 10)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(1, 50))
def test_the_hosts_reader_finds_the_same_messages_however_they_arrive(
    messages: list[bytes], size: int
) -> None:
    data = b"".join(map(frames, messages))
    reader, found = FrameReader(), [b""]
    for at in range(0, len(data), size):
        for kind, piece in reader.feed(data[at : at + size]):
            found[-1] += piece
            found += [b""] if kind == END else []
    assert (found, reader.mid_frame) == ([*messages, b""], False)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_frames_or_a_broken_channel(data: bytes) -> None:
    try:
        found = FrameReader().feed(data)
    except ChannelBroken:
        return
    assert all(kind in {CHUNK, END, NOTE} and len(piece) <= len(data) for kind, piece in found)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(1, 50))
def test_a_reader_of_messages_finds_them_however_they_arrive(
    messages: list[bytes], size: int
) -> None:
    data = b"".join(map(frames, messages))
    reader, found = MessageReader(200), []
    for at in range(0, len(data), size):
        found += reader.feed(data[at : at + size])
    assert (found, reader.mid_message) == (messages, False)
    assert reader.feed(frames(b"x")[:-1]) == []
    assert reader.mid_message


def test_a_reader_of_messages_takes_no_note_and_nothing_longer_than_it_accepts() -> None:
    assert MessageReader(10).feed(frames(b"x" * 10)) == [b"x" * 10], "control"
    with pytest.raises(MessageTooLong):
        MessageReader(10).feed(frames(b"x" * 11)[:-5])
    with pytest.raises(ChannelBroken):
        MessageReader(10).feed(HEADER.pack(NOTE, 1) + b"x")
