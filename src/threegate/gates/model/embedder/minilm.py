"""all-MiniLM-L6-v2: its file of weights, read strictly, and its arithmetic.

Six layers of attention over 384 numbers, the mean over all pieces, length 1.  One text at a
time, so that no text changes the vector of another.  On one machine the same text has the same
bytes every time: one thread, one order of operations.  Other processors may differ in the last
digits.  A file of weights (safetensors) is a length, a header of JSON, and numbers without a
gap: 32-bit floats and 64-bit integers.

SECURITY
    Reads a published file.  Its digest is the one of the policy, which says who chose the file
    and not that it is well formed.  Every length is checked before it is used; the arrays are
    views of the bytes, so none can lie outside of them.  Piece numbers are within the
    vocabulary.
"""

import json
import os
from math import prod
from typing import Any, Final, NoReturn

# One thread: sums of several depend on which thread is first.  Read when numpy is loaded.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import numpy.typing as npt

from threegate.gates.model.embedder.messages import DIMENSIONS
from threegate.gates.model.embedder.pieces import (
    MAX_PIECES,
    WORDS,
    EmbedderRefusal,
    EmbedderRefused,
    Pieces,
)

del os.environ["OPENBLAS_NUM_THREADS"]  # nothing else reads it

Numbers = npt.NDArray[np.float32]

LAYERS: Final = 6
HEADS: Final = 12
WIDE: Final = 1_536
POSITIONS: Final = 512
VERSION: Final = str(np.__version__)
_EPSILON: Final = np.float32(1e-12)
_WIDTH: Final = DIMENSIONS // HEADS
_ROWS: Final = 16
# Abramowitz and Stegun 7.1.26: the error function within 1.5e-7, as exact as these numbers.
_ERF: Final = tuple(
    map(np.float32, (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
)
_ERF_T: Final = np.float32(0.3275911)


def shapes() -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every tensor this model reads."""
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (WORDS, DIMENSIONS),
        "embeddings.position_embeddings.weight": (POSITIONS, DIMENSIONS),
        "embeddings.token_type_embeddings.weight": (2, DIMENSIONS),
        **_pair("embeddings.LayerNorm", (DIMENSIONS,)),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            found |= _pair(f"{at}attention.{name}", (DIMENSIONS, DIMENSIONS))
        found |= _pair(f"{at}attention.output.LayerNorm", (DIMENSIONS,))
        found |= _pair(f"{at}intermediate.dense", (WIDE, DIMENSIONS))
        found |= _pair(f"{at}output.dense", (DIMENSIONS, WIDE))
        found |= _pair(f"{at}output.LayerNorm", (DIMENSIONS,))
    return found


def _pair(name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


class MiniLm:
    """The loaded model."""

    def __init__(self, tensors: dict[str, npt.NDArray[Any]], pieces: Pieces) -> None:
        for name, shape in shapes().items():
            found = tensors.get(name)
            if found is None or found.shape != shape or found.dtype != np.dtype("<f4"):
                raise EmbedderRefused(EmbedderRefusal.OTHER_MODEL)
            if not np.isfinite(found).all():
                raise EmbedderRefused(EmbedderRefusal.NOT_FINITE)
        self._tensors, self._pieces = tensors, pieces

    def vector(self, text: str) -> bytes:
        """Return the vector of a text: float32, little endian, of length 1."""
        numbers = self._pieces.numbers(text)
        assert len(numbers) <= MAX_PIECES
        state = self._embedded(numbers)
        for layer in range(LAYERS):
            state = self._layer(state, f"encoder.layer.{layer}.")
        mean = state.mean(axis=0)
        return bytes((mean / np.sqrt(mean @ mean)).astype("<f4").tobytes())

    def _embedded(self, numbers: list[int]) -> Numbers:
        at = "embeddings."
        words = self._tensors[f"{at}word_embeddings.weight"][numbers]
        places = self._tensors[f"{at}position_embeddings.weight"][: len(numbers)]
        kind = self._tensors[f"{at}token_type_embeddings.weight"][0]
        return self._levelled(words + places + kind, f"{at}LayerNorm")

    def _layer(self, state: Numbers, at: str) -> Numbers:
        seen = self._linear(self._attended(state, at), f"{at}attention.output.dense")
        state = self._levelled(state + seen, f"{at}attention.output.LayerNorm")
        wide = _gelu(self._linear(state, f"{at}intermediate.dense"))
        narrow = self._linear(wide, f"{at}output.dense")
        return self._levelled(state + narrow, f"{at}output.LayerNorm")

    def _attended(self, state: Numbers, at: str) -> Numbers:
        def heads(name: str) -> Numbers:
            found: Numbers = self._linear(state, f"{at}attention.self.{name}")
            return found.reshape(-1, HEADS, _WIDTH).transpose(1, 0, 2)

        query: Numbers = heads("query") / np.float32(_WIDTH**0.5)
        scores: Numbers = query @ heads("key").transpose(0, 2, 1)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        found: Numbers = (scores @ heads("value")).transpose(1, 0, 2).reshape(-1, DIMENSIONS)
        return found

    def _linear(self, state: Numbers, name: str) -> Numbers:
        found: Numbers = state @ self._tensors[f"{name}.weight"].T
        found += self._tensors[f"{name}.bias"]
        return found

    def _levelled(self, state: Numbers, name: str) -> Numbers:
        centred = state - state.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON)
        scale, shift = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
        found: Numbers = centred / spread * scale + shift
        return found


def _gelu(x: Numbers) -> Numbers:
    """Return x * Phi(x), by the error function and not by the usual approximation.

    In place, a few rows at a time: memory that is new each time costs more than the sums.
    """
    found = np.empty_like(x)
    for at in range(0, len(x), _ROWS):
        _gelu_rows(x[at : at + _ROWS], found[at : at + _ROWS])
    return found


def _gelu_rows(x: Numbers, out: Numbers) -> None:
    scaled = np.abs(x)
    scaled *= np.float32(0.5**0.5)
    t = scaled * _ERF_T
    t += np.float32(1)
    np.reciprocal(t, out=t)
    out.fill(0)
    for factor in _ERF:
        out += factor
        out *= t
    scaled *= scaled
    np.negative(scaled, out=scaled)
    out *= np.exp(scaled, out=scaled)
    np.subtract(np.float32(1), out, out=out)  # the error function of |x|
    np.copysign(out, x, out=out)
    out += np.float32(1)
    out *= x
    out *= np.float32(0.5)


# The file of weights.

MAX_HEADER_BYTES: Final = 1024 * 1024
MAX_TENSORS: Final = 1024
MAX_DIMENSIONS: Final = 4
MAX_SIDE: Final = 2**24
_TYPES: Final[dict[str, "np.dtype[Any]"]] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8")}
_LENGTH_BYTES: Final = 8

Tensor = npt.NDArray[Any]


def read_tensors(data: bytes) -> dict[str, Tensor]:
    """Return the arrays in `data` by name, as views of it; raise `EmbedderRefused`."""
    header, body = _header(data)
    header.pop("__metadata__", None)
    if not 0 < len(header) <= MAX_TENSORS:
        raise EmbedderRefused(EmbedderRefusal.BAD_TENSOR)
    places = {name: _place(entry) for name, entry in header.items()}
    at = 0
    for _, _, begin, end in sorted(places.values(), key=lambda place: place[2:]):
        if begin != at:  # no gap, and no byte in two tensors
            raise EmbedderRefused(EmbedderRefusal.BAD_TENSOR)
        at = end
    if at != len(body):
        raise EmbedderRefused(EmbedderRefusal.BAD_TENSOR)
    return {
        name: np.frombuffer(body[begin:end], kind).reshape(shape)
        for name, (kind, shape, begin, end) in places.items()
    }


def _header(data: bytes) -> tuple[dict[str, Any], memoryview]:
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if len(data) < _LENGTH_BYTES or not 2 <= length <= MAX_HEADER_BYTES or start > len(data):
        raise EmbedderRefused(EmbedderRefusal.NO_HEADER)
    try:
        text = data[_LENGTH_BYTES:start].decode("utf-8")
        found = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_no_number
        )
    except (ValueError, RecursionError) as exc:
        raise EmbedderRefused(EmbedderRefusal.NO_HEADER) from exc
    if type(found) is not dict:
        raise EmbedderRefused(EmbedderRefusal.NO_HEADER)
    return found, memoryview(data)[start:]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name twice")
    return found


def _no_number(_: str) -> NoReturn:
    raise ValueError("not a whole number")


def _place(entry: Any) -> tuple["np.dtype[Any]", tuple[int, ...], int, int]:
    """Return type, shape, first byte and end of a tensor."""
    if type(entry) is not dict or sorted(entry) != ["data_offsets", "dtype", "shape"]:
        raise EmbedderRefused(EmbedderRefusal.BAD_TENSOR)
    name, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    kind = _TYPES.get(name) if type(name) is str else None
    if kind is None or not _whole_numbers(shape) or not _whole_numbers(offsets):
        raise EmbedderRefused(EmbedderRefusal.BAD_TENSOR)
    if len(shape) > MAX_DIMENSIONS or len(offsets) != 2 or max(shape, default=0) > MAX_SIDE:
        raise EmbedderRefused(EmbedderRefusal.BAD_TENSOR)
    begin, end = offsets
    if end - begin != prod(shape) * kind.itemsize:
        raise EmbedderRefused(EmbedderRefusal.BAD_TENSOR)
    return kind, tuple(shape), begin, end


def _whole_numbers(value: Any) -> bool:
    return type(value) is list and all(type(item) is int and item >= 0 for item in value)
