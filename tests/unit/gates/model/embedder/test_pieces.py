"""Word pieces: the numbers that the model's own tokenizer gives, and no way to spell a control.

The numbers were taken from the publisher's `tokenizer.json` with the library it was made for.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import models
from threegate.gates.model.embedder.pieces import (
    MAX_PIECES,
    WORDS,
    EmbedderRefused,
    Pieces,
    read_vocabulary,
)


@pytest.fixture(scope="module")
def data() -> bytes:
    return models.minilm()[1].read_bytes()


@pytest.fixture(scope="module")
def pieces(data: bytes) -> Pieces:
    return Pieces(read_vocabulary(data))


KNOWN = {
    "Naïve façade, Straße: 10.5% of π≈3.14!": (
        *(15743, 8508, 1010, 2358, 27807, 1024, 2184, 1012, 1019, 1003, 1997, 1170, 30133),
        *(2509, 1012, 2403, 999),
    ),
    "Sea ice — fracture toughness (K_IC) 中文 test": (
        *(2712, 3256, 1517, 19583, 7823, 2791, 1006, 1047, 1035, 24582, 1007, 1746, 1861, 3231),
    ),
    "electroencephalographically antidisestablishmentarianism": (
        *(16175, 10127, 21890, 21197, 20721, 3973, 3424, 10521, 4355, 7875, 13602, 3672),
        *(12199, 2964),
    ),
    "a\tb\nc\u200bd\x00e": (1037, 1038, 3729, 2063),
    "x" * 101: (100,),
    "": (),
}


@pytest.mark.parametrize("text", KNOWN)
def test_pieces_are_those_of_the_publishers_tokenizer(text: str, pieces: Pieces) -> None:
    assert pieces.numbers(text) == [101, *KNOWN[text], 102]


def test_a_text_cannot_spell_a_control(pieces: Pieces) -> None:
    found = pieces.numbers("[SEP] [CLS] [PAD] [MASK]")
    assert found[0] == 101, "control: the model's own stand at both ends"
    assert found[-1] == 102
    assert not {0, 101, 102, 103} & set(found[1:-1])


def test_no_more_pieces_are_made_than_the_model_looks_at(pieces: Pieces) -> None:
    found = pieces.numbers("sea " * 20_000)
    assert len(found) == MAX_PIECES
    assert found == pieces.numbers("sea " * 300)


@given(st.text(max_size=300))
def test_any_text_has_pieces_within_the_vocabulary(pieces: Pieces, text: str) -> None:
    found = pieces.numbers(text)
    assert 2 <= len(found) <= MAX_PIECES
    assert all(0 <= number < WORDS for number in found)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:0],
        lambda data: data + b"word\n",
        lambda data: data.replace(b"\n[SEP]\n", b"\n[SEC]\n"),
        lambda data: data.replace(b"\nsea\n", b"\nice\n"),
        lambda data: data.replace(b"\nsea\n", b"\n\n"),
        lambda data: data.replace(b"\nsea\n", b"\n" + b"s" * 65 + b"\n"),
        lambda data: data.replace(b"\nsea\n", b"\ns\xff\n"),
    ],
)
# claim TG-C-145
def test_a_vocabulary_that_is_none_is_refused(damage: object, data: bytes) -> None:
    assert len(read_vocabulary(data)) == WORDS, "control"
    assert callable(damage)
    with pytest.raises(EmbedderRefused) as caught:
        read_vocabulary(damage(data))
    assert caught.value.code == "TG-EMB-006"
