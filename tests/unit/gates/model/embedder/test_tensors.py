"""Safetensors, read strictly: what the format's writer writes, and a refusal for all else."""

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.model.embedder.minilm import MAX_HEADER_BYTES, MAX_SIDE, read_tensors
from threegate.gates.model.embedder.pieces import EmbedderRefused

ONE: dict[str, Any] = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
TWO: dict[str, Any] = {"dtype": "I64", "shape": [1], "data_offsets": [16, 24]}
NONE: dict[str, Any] = {"dtype": "F32", "shape": [MAX_SIDE, 0], "data_offsets": [24, 24]}
BODY = struct.pack("<4fq", 1.0, 2.0, 3.0, 4.0, 7)


def file(header: object, body: bytes = BODY, *, length: int | None = None) -> bytes:
    """Return a file with this header, spelled as it is if it is text."""
    text = header if isinstance(header, str) else json.dumps(header)
    head = text.encode("utf-8")
    return struct.pack("<Q", len(head) if length is None else length) + head + body


RIGHT = file({"__metadata__": {"format": "pt"}, "two": TWO, "one": ONE})


def test_numbers_are_where_the_header_says() -> None:
    found = read_tensors(RIGHT)
    assert found["one"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found["two"].tolist() == [7]
    assert not found["one"].flags.writeable


def changed(**fields: object) -> bytes:
    return file({"one": {**ONE, **fields}, "two": TWO})


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "TG-EMB-003"),
        (b"\x10\0\0", "TG-EMB-003"),
        (RIGHT[:40], "TG-EMB-003"),
        (file({"one": ONE, "two": TWO}, length=2**63), "TG-EMB-003"),
        (file({"one": ONE, "two": TWO}, length=MAX_HEADER_BYTES + 1), "TG-EMB-003"),
        (file(json.dumps({"one": ONE, "two": TWO}) + " " * MAX_HEADER_BYTES), "TG-EMB-003"),
        (file({"one": ONE, "two": TWO}, length=1), "TG-EMB-003"),
        (file("[1]"), "TG-EMB-003"),
        (file("[" * 100_000), "TG-EMB-003"),
        (file("{"), "TG-EMB-003"),
        (file('{"one": NaN}'), "TG-EMB-003"),
        (file('{"one": 1.5}'), "TG-EMB-003"),
        (file('{"one": 1, "one": 2}'), "TG-EMB-003"),
        (file("{}"), "TG-EMB-004"),
        (file({"one": 3}), "TG-EMB-004"),
        (file({"one": {**ONE, "more": 1}, "two": TWO}), "TG-EMB-004"),
        (changed(dtype="F16"), "TG-EMB-004"),
        (changed(dtype=["F32"]), "TG-EMB-004"),
        (changed(shape=[4, 2]), "TG-EMB-004"),
        (changed(shape=[-2, -2]), "TG-EMB-004"),
        (changed(shape=[True, 4]), "TG-EMB-004"),
        (changed(shape="22"), "TG-EMB-004"),
        (changed(shape=[2**40, 2**24, 0]), "TG-EMB-004"),
        (file({"one": ONE, "two": TWO, "no": {**NONE, "shape": [MAX_SIDE + 1, 0]}}), "TG-EMB-004"),
        (changed(shape=[1, 1, 1, 1, 4]), "TG-EMB-004"),
        (changed(data_offsets=[16, 0]), "TG-EMB-004"),
        (changed(data_offsets=[0]), "TG-EMB-004"),
        (changed(data_offsets=[8, 24]), "TG-EMB-004"),
        (changed(data_offsets=[2**70, 2**70 + 16]), "TG-EMB-004"),
        (
            file({"one": ONE, "two": {**TWO, "data_offsets": [24, 32]}}, BODY + bytes(8)),
            "TG-EMB-004",
        ),
        (file({"one": ONE, "two": TWO}, BODY + b"\0"), "TG-EMB-004"),
        (file({"one": ONE, "two": TWO}, BODY[:-1]), "TG-EMB-004"),
        (file({str(n): 1 for n in range(2000)}), "TG-EMB-004"),
    ],
)
# claim TG-C-145
def test_a_file_that_is_made_to_be_misread_is_refused(data: bytes, code: str) -> None:
    assert read_tensors(RIGHT), "control"
    assert read_tensors(file({"one": ONE, "two": TWO, "no": NONE})), "control"
    with pytest.raises(EmbedderRefused) as caught:
        read_tensors(data)
    assert caught.value.code == code


def _flipped(at: int, bit: int) -> bytes:
    data = bytearray(RIGHT)
    data[at % len(data)] ^= 1 << bit
    return bytes(data)


@given(at=st.integers(0, 1000), bit=st.integers(0, 7))
def test_one_flipped_bit_gives_arrays_inside_the_file_or_a_refusal(at: int, bit: int) -> None:
    data = _flipped(at, bit)
    try:
        found = read_tensors(data)
    except EmbedderRefused:
        return
    assert sum(array.nbytes for array in found.values()) == len(BODY)
    assert all(array.dtype in (np.dtype("<f4"), np.dtype("<i8")) for array in found.values())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_tensors(data)
    except EmbedderRefused:
        return
