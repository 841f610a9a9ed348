"""The arithmetic: values the publisher shows, a second reckoning, the same bytes every time."""

import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import models
from threegate.gates.model.embedder.gate import opened
from threegate.gates.model.embedder.messages import EmbedderOpening, nearness, numbers_of
from threegate.gates.model.embedder.minilm import (
    MAX_HEADER_BYTES,
    MAX_SIDE,
    MiniLm,
    Tensor,
    _gelu,
    read_tensors,
    shapes,
)
from threegate.gates.model.embedder.pieces import EmbedderRefused, Pieces, read_vocabulary

# The first example of the publisher's library, with the cosines it prints for this model.
SENTENCES = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
)
COSINES = ((1.0, 0.6660, 0.1046), (0.6660, 1.0, 0.1411), (0.1046, 0.1411, 1.0))


@pytest.fixture(scope="module")
def tensors() -> dict[str, Tensor]:
    return read_tensors(models.minilm()[0].read_bytes())


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return Pieces(read_vocabulary(models.minilm()[1].read_bytes()))


@pytest.fixture(scope="module")
def model(tensors: dict[str, Tensor], pieces: Pieces) -> MiniLm:
    return MiniLm(tensors, pieces)


def test_cosines_are_those_the_publisher_shows(model: MiniLm) -> None:
    found = [numbers_of(model.vector(text)) for text in SENTENCES]
    for row, expected in zip(found, COSINES, strict=True):
        near = [nearness(row, other) for other in found]
        assert near == pytest.approx(expected, abs=6e-5)


def test_the_same_text_has_the_same_bytes_whatever_came_before(model: MiniLm) -> None:
    first = [model.vector(text) for text in SENTENCES]
    again = [model.vector(text) for text in reversed(SENTENCES)]
    assert first == again[::-1]
    assert len(set(first)) == 3, "control: texts differ"


def test_a_text_of_any_length_has_a_vector(model: MiniLm) -> None:
    for text in ("", " ", "x", "word " * 5_000, "\0", "中" * 300):
        row = numbers_of(model.vector(text))
        assert math.fsum(number * number for number in row) == pytest.approx(1.0, abs=1e-5)


def test_the_activation_is_the_exact_one() -> None:
    x = np.linspace(-8, 8, 4001, dtype=np.float32)
    exact = [float(v) * 0.5 * (1 + math.erf(float(v) / math.sqrt(2))) for v in x]
    assert float(np.abs(_gelu(x) - np.array(exact)).max()) < 2e-6


def test_a_second_reckoning_in_double_precision_agrees(
    model: MiniLm, tensors: dict[str, Tensor], pieces: Pieces
) -> None:
    text = "Fracture toughness of sea ice was measured at minus ten degrees."
    row = np.frombuffer(model.vector(text), "<f4")
    assert float(np.abs(row - _reckoned(tensors, pieces.numbers(text))).max()) < 2e-6


def _reckoned(tensors: dict[str, Tensor], numbers: list[int]) -> Tensor:
    """Return the vector of a text by another way: 64 bits, one head after the other."""
    t = {name: array.astype(np.float64) for name, array in tensors.items()}

    def level(x: Tensor, name: str) -> Tensor:
        even = (x - x.mean(1)[:, None]) / np.sqrt(x.var(1)[:, None] + 1e-12)
        found: Tensor = even * t[f"{name}.weight"] + t[f"{name}.bias"]
        return found

    def line(x: Tensor, name: str) -> Tensor:
        found: Tensor = np.einsum("nd,od->no", x, t[f"{name}.weight"]) + t[f"{name}.bias"]
        return found

    x = t["embeddings.word_embeddings.weight"][numbers]
    x = x + t["embeddings.position_embeddings.weight"][np.arange(len(numbers))]
    x = level(x + t["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(6):
        at = f"encoder.layer.{layer}"
        q, k, v = (line(x, f"{at}.attention.self.{name}") for name in ("query", "key", "value"))
        heads = []
        for head in range(12):
            cut = slice(32 * head, 32 * head + 32)
            score = np.exp(q[:, cut] @ k[:, cut].T / math.sqrt(32))
            heads.append(score / score.sum(1)[:, None] @ v[:, cut])
        seen = line(np.hstack(heads), f"{at}.attention.output.dense")
        x = level(x + seen, f"{at}.attention.output.LayerNorm")
        wide = line(x, f"{at}.intermediate.dense")
        wide = wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
        x = level(x + line(wide, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    mean: Tensor = x.mean(0)
    found: Tensor = mean / np.linalg.norm(mean)
    return found


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("missing", "TG-EMB-005"),
        ("shape", "TG-EMB-005"),
        ("type", "TG-EMB-005"),
        ("infinite", "TG-EMB-007"),
        ("none", "TG-EMB-007"),
    ],
)
# claim TG-C-145
def test_weights_of_another_model_are_refused(
    name: str, code: str, tensors: dict[str, Tensor], pieces: Pieces
) -> None:
    key = "encoder.layer.3.output.dense.bias"
    other = tensors[key].copy()
    other[7] = {"infinite": np.inf, "none": np.nan}.get(name, 0.0)
    changed = {
        "missing": {k: v for k, v in tensors.items() if k != key},
        "shape": {**tensors, key: other[:-1]},
        "type": {**tensors, key: tensors[key].astype("<i8")},
    }.get(name, {**tensors, key: other})
    assert MiniLm(tensors, pieces).vector("x"), "control"
    with pytest.raises(EmbedderRefused) as caught:
        MiniLm(changed, pieces)
    assert caught.value.code == code


def test_every_tensor_it_reads_is_in_the_file(tensors: dict[str, Tensor]) -> None:
    unread = set(tensors) - set(shapes())
    assert unread == {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"}


def test_files_of_another_digest_are_not_read(tmp_path: Path) -> None:
    own = tmp_path / "file"
    own.write_bytes(b"not the one")
    right = hashlib.sha256(b"not the one").hexdigest()
    for opening, code in (
        (EmbedderOpening("0" * 64, "0" * 64), "TG-EMB-002"),
        (EmbedderOpening("0" * 64, right), "TG-EMB-001"),
        (EmbedderOpening(right, right), "TG-EMB-003"),  # control: both are right, so they are read
    ):
        with pytest.raises(EmbedderRefused) as caught:
            opened(opening, own, own)
        assert caught.value.code == code


# Safetensors, read strictly: what the format's writer writes, and a refusal for all else.

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
