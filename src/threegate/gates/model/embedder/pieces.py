"""From text to the numbers of word pieces, as the model was trained: lower case, longest first.

A text cannot contain a control token of the model: `[SEP]` in a text is a bracket, letters and
a bracket.

SECURITY
    Reads texts of strangers, and a vocabulary whose digest is pinned.  Work is bounded: words
    of more than 100 characters are unknown, and no more pieces are made than the model reads.
"""

import unicodedata
from collections.abc import Iterator
from enum import Enum
from itertools import chain, islice
from typing import Final


class EmbedderRefusal(Enum):
    """Why the embedder computes no vectors: code and sentence."""

    OTHER_WEIGHTS = ("TG-EMB-001", "the weights are not those of the policy")
    OTHER_VOCABULARY = ("TG-EMB-002", "the vocabulary is not the pinned one")
    NO_HEADER = ("TG-EMB-003", "the file of weights has no header that can be read")
    BAD_TENSOR = ("TG-EMB-004", "the header of the weights names what is not in the file")
    OTHER_MODEL = ("TG-EMB-005", "the weights are not those of this kind of model")
    BAD_VOCABULARY = ("TG-EMB-006", "the vocabulary is not one")
    NOT_FINITE = ("TG-EMB-007", "the weights are not all numbers")


class EmbedderRefused(Exception):
    """The embedder cannot compute vectors."""

    def __init__(self, why: EmbedderRefusal) -> None:
        super().__init__(why.value[1])
        self.code, self.sentence = why.value


# Word pieces.

WORDS: Final = 30_522
MAX_PIECES: Final = 256  # the model's own bound, with its two control tokens
MAX_WORD_CHARS: Final = 100
MAX_PIECE_CHARS: Final = 64
_CLASSIFY, _SEPARATE, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
_CONTROLS: Final = frozenset({_CLASSIFY, _SEPARATE, _UNKNOWN, "[PAD]", "[MASK]"})
_DROPPED: Final = frozenset({"\0", "\ufffd"})
_CONTROL: Final = ("Cc", "Cf", "Co")
_ASCII_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_IDEOGRAPHS: Final = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


def read_vocabulary(data: bytes) -> dict[str, int]:
    """Return the pieces in `data`, one per line, with their numbers; raise `EmbedderRefused`."""
    try:
        lines = data.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as exc:
        raise EmbedderRefused(EmbedderRefusal.BAD_VOCABULARY) from exc
    found = {line: number for number, line in enumerate(lines)}
    if len(lines) != WORDS or len(found) != WORDS or not found.keys() >= _CONTROLS:
        raise EmbedderRefused(EmbedderRefusal.BAD_VOCABULARY)
    if not all(1 <= len(line) <= MAX_PIECE_CHARS for line in lines):
        raise EmbedderRefused(EmbedderRefusal.BAD_VOCABULARY)
    return found


class Pieces:
    """Cuts texts into pieces of one vocabulary."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._first, self._last = vocabulary[_CLASSIFY], vocabulary[_SEPARATE]
        self._unknown = vocabulary[_UNKNOWN]
        self._known = {piece: n for piece, n in vocabulary.items() if piece not in _CONTROLS}

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a text, between the model's two control tokens."""
        words = chain.from_iterable(map(self._word, _words(_normal(text))))
        return [self._first, *islice(words, MAX_PIECES - 2), self._last]

    def _word(self, word: str) -> list[int]:
        if len(word) > MAX_WORD_CHARS:
            return [self._unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            number, end = self._longest(word, start)
            if number is None:
                return [self._unknown]  # the whole word, as the model was trained
            found.append(number)
            start = end
        return found

    def _longest(self, word: str, start: int) -> tuple[int | None, int]:
        mark = "##" if start else ""
        for end in range(min(len(word), start + MAX_PIECE_CHARS), start, -1):
            number = self._known.get(mark + word[start:end])
            if number is not None:
                return number, end
        return None, start


def _normal(text: str) -> str:
    """Return a text in lower case without control characters and accents, ideographs separated."""
    if text.isascii():
        kept = "".join(c if c.isprintable() else " " * (c in "\t\n\r") for c in text)
        return kept.lower()
    shown = "".join(map(_shown, text))
    plain = unicodedata.normalize("NFD", shown)
    return "".join(c for c in plain if unicodedata.category(c) != "Mn").lower()


def _shown(character: str) -> str:
    if character in "\t\n\r ":
        return " "
    kind = unicodedata.category(character)
    if character in _DROPPED or kind in _CONTROL:
        return ""
    if kind == "Zs":
        return " "
    point = ord(character)
    alone = any(low <= point <= high for low, high in _IDEOGRAPHS)
    return f" {character} " if alone else character


def _words(text: str) -> Iterator[str]:
    """Yield words and single punctuation marks."""
    for chunk in text.split():
        start = 0
        for at, character in enumerate(chunk):
            if _is_mark(character):
                if at > start:
                    yield chunk[start:at]
                yield character
                start = at + 1
        if start < len(chunk):
            yield chunk[start:]


def _is_mark(character: str) -> bool:
    if character.isascii():
        return character in _ASCII_PUNCTUATION
    return unicodedata.category(character)[0] == "P"
