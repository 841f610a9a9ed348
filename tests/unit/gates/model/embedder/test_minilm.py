"""The arithmetic: values the publisher shows, a second reckoning, the same bytes every time."""

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest

from tests.support import weights
from threegate.gates.model.embedder.gate import opened
from threegate.gates.model.embedder.messages import Opening, nearness, numbers_of
from threegate.gates.model.embedder.minilm import MiniLm, Tensor, _gelu, read_tensors, shapes
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
    return read_tensors(weights.minilm()[0].read_bytes())


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return Pieces(read_vocabulary(weights.minilm()[1].read_bytes()))


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
        (Opening("0" * 64, "0" * 64), "TG-EMB-002"),
        (Opening("0" * 64, right), "TG-EMB-001"),
        (Opening(right, right), "TG-EMB-003"),  # control: both are right, so they are read
    ):
        with pytest.raises(EmbedderRefused) as caught:
            opened(opening, own, own)
        assert caught.value.code == code
