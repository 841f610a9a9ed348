"""all-MiniLM-L6-v2 in plain arithmetic: one text at a time, so that no text changes another's.

Six layers of attention over 384 numbers, the mean over all pieces, length 1.  On one machine
the same text has the same bytes every time: one thread, one order of operations.  Processors
of another kind may differ in the last digits.

SECURITY
    Numbers from a file of a known digest and numbers of pieces within the vocabulary.
"""

import os
from typing import Any, Final

# One thread: sums of several come in the order the threads are done.  Read when it is loaded.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import numpy.typing as npt

from threegate.gates.model.embedder.messages import DIMENSIONS
from threegate.gates.model.embedder.pieces import MAX_PIECES, WORDS, Pieces
from threegate.gates.model.embedder.refused import EmbedderRefusal, EmbedderRefused

del os.environ["OPENBLAS_NUM_THREADS"]  # nobody else reads it

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
    """Return x * Phi(x), by the error function and not by the usual shortcut.

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
