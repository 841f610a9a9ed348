"""The control tokens of a model file: the strings that its tokenizer reads as structure.

Reads only the metadata at the head of a GGUF file, and of it only two lists.

SECURITY
    Reads a file whose digest was checked.  Every length is bounded before it is used; metadata
    that cannot be understood refuse the model.
"""

import struct
from pathlib import Path
from typing import BinaryIO, Final

from threegate.gates.model.front.server import NoCompletion, Unanswered

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
MAX_ENTRIES: Final = 10_000
MAX_ITEMS: Final = 4_000_000  # the largest vocabularies have a quarter of a million tokens
MAX_TEXT_BYTES: Final = 16 * 1024 * 1024  # a chat template, at most
_STRING, _ARRAY = 8, 9
_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_INT32: Final = 5
_TOKENS, _TYPES = b"tokenizer.ggml.tokens", b"tokenizer.ggml.token_type"
_CONTROL: Final = (2, 3)  # `unknown` and `control`


def control_tokens(path: Path) -> tuple[str, ...]:
    """Return the control tokens of a model file; raise `NoCompletion`."""
    with path.open("rb") as file:
        try:
            return _control_tokens(file)
        except (ValueError, struct.error) as exc:
            raise NoCompletion(Unanswered.NOT_LOADED, "its metadata cannot be read") from exc


def _control_tokens(file: BinaryIO) -> tuple[str, ...]:
    if file.read(4) != MAGIC or _number(file, "<I") not in VERSIONS:
        raise ValueError("not a GGUF file")
    file.read(8)  # the number of tensors
    tokens: list[bytes] = []
    kinds: tuple[int, ...] = ()
    for _ in range(_bounded(_number(file, "<Q"), MAX_ENTRIES)):
        key, kind = _text(file), _number(file, "<I")
        if key == _TOKENS:
            tokens = _texts(file, kind)
        elif key == _TYPES:
            kinds = _numbers(file, kind)
        else:
            _skip(file, kind)
    if len(tokens) != len(kinds):
        raise ValueError("tokens without a kind")
    named = zip(tokens, kinds, strict=True)
    return tuple(token.decode("utf-8") for token, kind in named if kind in _CONTROL)


def _texts(file: BinaryIO, kind: int) -> list[bytes]:
    inner, count = _array(file, kind)
    if inner != _STRING:
        raise ValueError("not a list of texts")
    return [_text(file) for _ in range(count)]


def _numbers(file: BinaryIO, kind: int) -> tuple[int, ...]:
    inner, count = _array(file, kind)
    if inner != _INT32:
        raise ValueError("not a list of numbers")
    return struct.unpack(f"<{count}i", file.read(4 * count))


def _array(file: BinaryIO, kind: int) -> tuple[int, int]:
    if kind != _ARRAY:
        raise ValueError("not a list")
    return _number(file, "<I"), _bounded(_number(file, "<Q"), MAX_ITEMS)


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        _text(file)
    elif kind == _ARRAY:
        inner, count = _array(file, kind)
        if inner == _STRING:
            for _ in range(count):
                _text(file)
        else:
            file.seek(_size(inner) * count, 1)
    else:
        file.seek(_size(kind), 1)


def _size(kind: int) -> int:
    if kind not in _SIZES:  # also a list of lists: no model file has one
        raise ValueError("an unknown kind")
    return _SIZES[kind]


def _text(file: BinaryIO) -> bytes:
    length = _bounded(_number(file, "<Q"), MAX_TEXT_BYTES)
    text = file.read(length)
    if len(text) < length:
        raise ValueError("the file ends inside its metadata")
    return text


def _number(file: BinaryIO, form: str) -> int:
    value: int = struct.unpack(form, file.read(struct.calcsize(form)))[0]
    return value


def _bounded(value: int, most: int) -> int:
    if value > most:
        raise ValueError("too long")
    return value
