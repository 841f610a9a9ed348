"""Nearness in meaning: by vectors, kept by digest, the same whatever was known before."""

import math
from collections.abc import Iterator, Sequence

import pytest

from tests.support.holdings import paper, shelf
from tests.support.workspaces import take_in
from threegate.base.untrusted import Untrusted
from threegate.gates.model.embedder.messages import DIMENSIONS, need_vector
from threegate.host.ask.answer import TypedQuestion, answer_by_extracts
from threegate.host.ask.nearness import Meaning
from threegate.host.workspace.index import Index
from threegate.host.workspace.vectors import FILE as VECTORS
from threegate.host.workspace.vectors import VectorStore
from threegate.host.workspace.workspace import Workspace

# Two words for the same thing point the same way; every other word has its own direction.
SAME = {"frost": "ice", "frozen": "ice", "fowl": "tern"}


class FakeEmbedder:
    """Adds up a direction for each word."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[Untrusted[str]]) -> list[bytes]:
        self.texts += [text.open_for_validation() for text in texts]
        return [vector(text.open_for_validation()) for text in texts]


def vector(text: str) -> bytes:
    from array import array

    numbers = [0.0] * DIMENSIONS
    for word in text.lower().replace("?", " ").replace(".", " ").split():
        word = SAME.get(word, word)
        numbers[sum(word.encode()) * 31 % DIMENSIONS] += 1.0 if len(word) > 2 else 0.01
    length = math.sqrt(sum(number * number for number in numbers))
    row = array("f", [number / length for number in numbers]).tobytes()
    need_vector(row)
    return row


@pytest.fixture
def vectors(ws: Workspace) -> Iterator[VectorStore]:
    vectors = VectorStore(ws.root, "e" * 64, ws.seals)
    yield vectors
    vectors.close()


def test_a_packet_without_a_word_of_the_question_is_found(
    ws: Workspace, index: Index, vectors: VectorStore
) -> None:
    ice, *_ = take_in(ws, paper(1, "Ice floats."), paper(2, "Stars shine brightly at night."))
    index.catch_up()
    meaning = Meaning(vectors, FakeEmbedder())
    assert meaning.packets("frost", 5) == [], "not before every packet has its vectors"
    assert meaning.fill(ws, index) == 0
    assert meaning.packets("frost", 5) == [ice]
    made = answer_by_extracts(ws, index, TypedQuestion("frost"), meaning)
    assert made.stored.analysis.selection == (ice,)
    assert "words and vectors" in made.stored.analysis.notes[0].open_for_display()


def test_vectors_are_computed_once_and_ranking_is_the_same_again(
    ws: Workspace, index: Index, vectors: VectorStore
) -> None:
    take_in(ws, *shelf())
    index.catch_up()
    embedder = FakeEmbedder()
    asked = []
    for _ in range(2):
        meaning = Meaning(vectors, embedder)
        meaning.fill(ws, index)
        asked.append(answer_by_extracts(ws, index, TypedQuestion("Which fowl flies far?"), meaning))
    first, second = (one.stored.analysis for one in asked)
    assert (first.claims, first.notes) == (second.claims, second.notes)
    assert embedder.texts.count("Which fowl flies far?") == 2
    others = [text for text in embedder.texts if text != "Which fowl flies far?"]
    assert len(others) == len(set(others))
    assert first.quotes[0].open_for_display() == "The arctic tern flies 70,900 km a year."


def test_many_packets_get_theirs_in_steps(
    ws: Workspace, index: Index, vectors: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threegate.host.ask.nearness.FILL_PASSAGES", 4)
    take_in(ws, *(paper(n, f"Ice number {n} floats.") for n in range(10)))
    index.catch_up()
    meaning = Meaning(vectors, FakeEmbedder())
    assert [meaning.fill(ws, index) for _ in range(3)] == [6, 2, 0]


def test_another_embedder_has_its_own_vectors(
    ws: Workspace, index: Index, vectors: VectorStore
) -> None:
    take_in(ws, *shelf())
    index.catch_up()
    Meaning(vectors, FakeEmbedder()).fill(ws, index)
    other = VectorStore(ws.root, "f" * 64, ws.seals)
    assert list(other.all()) == []
    assert list(vectors.all()) != [], "control"
    other.close()


def test_a_broken_file_is_built_again(ws: Workspace, index: Index) -> None:
    take_in(ws, *shelf())
    index.catch_up()
    vectors = VectorStore(ws.root, "e" * 64, ws.seals)
    Meaning(vectors, FakeEmbedder()).fill(ws, index)
    assert vectors.complete() != set(), "control"
    vectors.close()
    assert (ws.root / VECTORS).stat().st_mode & 0o077 == 0
    (ws.root / VECTORS).write_bytes(b"no database" * 1000)
    again = VectorStore(ws.root, "e" * 64, ws.seals)
    assert again.complete() == set()
    again.close()
