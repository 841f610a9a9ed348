"""The real box of the embedder: what it answers, and what files and texts can do to it.

What arbitrary Python in this box can reach is asked by the sandbox's own suite, which attacks
the profile `embedder` like every other: test_sandbox_escape.py.
"""

import json
import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support import models
from tests.support.boxes import start_with
from tests.support.policies import policy
from threegate.base.errors import GateUnavailable
from threegate.base.greeting import GateReady, GateRefused
from threegate.base.untrusted import Untrusted
from threegate.gates.model.embedder.messages import (
    GREETING,
    MAX_TEXTS,
    VECTOR_BYTES,
    EmbedderOpening,
    nearness,
    numbers_of,
)
from threegate.host.models.catalogue import MINILM, MINILM_VOCABULARY
from threegate.host.models.embedder import Embedder
from threegate.host.open_box import GATES
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import EMBEDDER
from threegate.sandbox.session import Session

TEXTS = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]


def boxed(texts: list[str]) -> list[Untrusted[str]]:
    return [Untrusted(text) for text in texts]


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    models.minilm()
    with Embedder.start(policy().bundle(), find_machine(), models.model_cache()) as found:
        yield found


def test_near_texts_have_near_vectors(embedder: Embedder) -> None:
    rows = [numbers_of(row) for row in embedder.vectors(boxed(TEXTS))]
    assert nearness(rows[0], rows[1]) == pytest.approx(0.6660, abs=1e-3)
    assert nearness(rows[0], rows[2]) == pytest.approx(0.1046, abs=1e-3)
    assert embedder.evidence.profile == "embedder"


# claim TG-C-146
def test_the_same_text_has_the_same_bytes_in_every_batch_and_every_box(
    embedder: Embedder,
) -> None:
    first = embedder.vectors(boxed(TEXTS))
    done: list[int] = []
    many = embedder.vectors(boxed((TEXTS * 23)[: MAX_TEXTS + 5]), progress=done.append)
    assert done == [MAX_TEXTS, 5]
    assert many[: len(TEXTS)] == first
    assert many[MAX_TEXTS:] == (first * 30)[MAX_TEXTS : MAX_TEXTS + 5]
    embedder.close()
    assert embedder.vectors(boxed(TEXTS[::-1])) == first[::-1], "a new box"
    assert len(set(first)) == len(TEXTS), "control: texts differ"


def test_odd_texts_have_vectors_too(embedder: Embedder) -> None:
    texts = [
        "",
        "\0\x1b[31m",
        "[SEP]" * 1000,
        "中" * 20_000,
        "x" * 1_000_000,
        "\u202eabc",
        "\ud800",
    ]
    rows = embedder.vectors(boxed(texts))
    assert [len(row) for row in rows] == [VECTOR_BYTES] * len(texts)


def greeted(place: Path, opening: EmbedderOpening) -> GateReady | GateRefused:
    """Open a box over two files of a directory; return what it says."""
    given = {"model-file": str(place / "weights"), "vocabulary": str(place / "words")}
    session = Session.open(find_machine(), Start(EMBEDDER, GATES[EMBEDDER.name].payload, given))
    try:
        reply = session.ask(opening.to_bytes(), deadline_seconds=60)
        assert reply.why == "done"
        return GREETING.parse(Untrusted(reply.message))
    finally:
        session.close()


def _header(header: object, body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


HUGE = {"dtype": "F32", "shape": [2**24, 2**24], "data_offsets": [0, 2**50]}
HOSTILE = {
    "empty": (b"", "TG-EMB-003"),
    "a length without end": (b"\xff" * 8 + b"{}", "TG-EMB-003"),
    "deep": (struct.pack("<Q", 100_000) + b"[" * 100_000, "TG-EMB-003"),
    "huge": (_header({"embeddings.word_embeddings.weight": HUGE}), "TG-EMB-004"),
    "another model": (
        _header({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
        "TG-EMB-005",
    ),
    "a pickle": (b"\x80\x04\x95" + bytes(100), "TG-EMB-003"),
}


@pytest.mark.parametrize("what", HOSTILE)
# claim TG-C-145
def test_a_hostile_file_ends_as_a_refusal_of_the_box(what: str, tmp_path: Path) -> None:
    data, code = HOSTILE[what]
    model, words = models.minilm()
    shutil.copyfile(words, tmp_path / "words")
    shutil.copyfile(model, tmp_path / "weights")
    honest = greeted(tmp_path, EmbedderOpening(MINILM.sha256, MINILM_VOCABULARY.sha256))
    assert isinstance(honest, GateReady), "control"
    (tmp_path / "weights").write_bytes(data)
    # Somebody signed a policy with the digest of this very file: that alone makes it no model.
    found = greeted(tmp_path, EmbedderOpening(sha256(data).hexdigest(), MINILM_VOCABULARY.sha256))
    assert isinstance(found, GateRefused)
    assert found.code == code


def test_a_file_that_was_changed_is_not_read(tmp_path: Path) -> None:
    model, words = models.minilm()
    shutil.copyfile(model, tmp_path / "weights")
    shutil.copyfile(words, tmp_path / "words")
    opening = EmbedderOpening(MINILM.sha256, MINILM_VOCABULARY.sha256)
    assert isinstance(greeted(tmp_path, opening), GateReady), "control"
    with (tmp_path / "weights").open("r+b") as file:
        file.seek(50_000_000)
        file.write(b"\0")
    found = greeted(tmp_path, opening)
    assert isinstance(found, GateRefused)
    assert found.code == "TG-EMB-001"
    (tmp_path / "words").write_bytes(words.read_bytes().replace(b"\nsea\n", b"\naes\n"))
    found = greeted(tmp_path, opening)
    assert isinstance(found, GateRefused)
    assert found.code == "TG-EMB-002"


LIAR = """
from threegate.base import wire

ONE = b"\\0" * 1532 + b"\\0\\0\\x80\\x3f"

def vectors(count, row=ONE):
    return wire.pack("embed/1", "vectors", {{}}, [row] * count)

def main():
    read_message(0, 1 << 20)
    {act}
"""
LIES = {
    "nothing": ("pass", "TG-EMB-021"),
    "too few": ("write_message(3, vectors(1))", "TG-PRO-001"),
    "no numbers": ("write_message(3, vectors(2, bytes([255]) * 1536))", "TG-PRO-001"),
    "too long": ("write_message(3, vectors(2, ONE * 2))", "TG-PRO-001"),
    "a flood": ("write_message(3, bytes(20_000_000))", "TG-EMB-021"),
}


def lying(tmp_path: Path, act: str) -> Embedder:
    """Return an embedder whose box is owned."""
    weights_file, words = map(str, models.minilm())
    given = {"model-file": weights_file, "vocabulary": words}
    start = start_with(tmp_path, LIAR.format(act=act), EMBEDDER)
    found = Embedder(policy().bundle(), find_machine(), given)
    found._session = Session.open(find_machine(), replace(start, given={**start.given, **given}))
    return found


@pytest.mark.parametrize("what", LIES)
# claim TG-C-146
def test_what_an_owned_embedder_says_is_a_vector_or_is_not_taken(what: str, tmp_path: Path) -> None:
    honest = lying(tmp_path, "write_message(3, vectors(2))")
    assert len(honest.vectors(boxed(TEXTS[:2]))) == 2, "control"
    honest.close()
    act, code = LIES[what]
    owned = lying(tmp_path, act)
    with pytest.raises(GateUnavailable) as caught:
        owned.vectors(boxed(TEXTS[:2]))
    assert caught.value.code == code
    assert owned._session is None, "it is asked nothing more"
