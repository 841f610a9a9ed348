"""Safetensors, read strictly: a length, a header of JSON, then numbers, and nothing beside.

Accepted is what the format's own writer writes: offsets that follow each other from the first
to the last byte, in any order of names, 32-bit floats and 64-bit integers.

SECURITY
    Reads a file somebody published.  Its digest is known to be the one of the policy, which
    says who chose it and not that it is well made.  Every length is checked before it is
    used; the arrays are views of the bytes, so nothing can lie outside of them.
"""

import json
from math import prod
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from threegate.gates.model.embedder.refused import EmbedderRefusal, EmbedderRefused

MAX_HEADER_BYTES: Final = 1024 * 1024
MAX_TENSORS: Final = 1024
MAX_DIMENSIONS: Final = 4
MAX_SIDE: Final = 2**24
_TYPES: Final[dict[str, "np.dtype[Any]"]] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8")}
_LENGTH_BYTES: Final = 8

Tensor = npt.NDArray[Any]


def read_tensors(data: bytes) -> dict[str, Tensor]:
    """Return the arrays in `data` by name, as views of it; raise `Refused`."""
    header, body = _header(data)
    header.pop("__metadata__", None)
    if not 0 < len(header) <= MAX_TENSORS:
        raise EmbedderRefused(EmbedderRefusal.BAD_TENSOR)
    places = {name: _place(entry) for name, entry in header.items()}
    at = 0
    for _, _, begin, end in sorted(places.values(), key=lambda place: place[2:]):
        if begin != at:  # no gap to hide in, no byte that is two numbers
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
    """Return type, shape, first byte and the byte after the last one of a tensor."""
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
