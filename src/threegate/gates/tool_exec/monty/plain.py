"""Plain values that cross between the interpreter and an external function, measured first.

The size of a value is the UTF-8 length of every text and key in it, and eight bytes for
every other part, or as many more as a long number has; its depth is the number of
containers around its innermost part.

SECURITY
    The values are chosen by hostile code and may share parts: 26 nodes can stand for
    gigabytes.  Every part is counted each time it occurs, before anything is done with it.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

MAX_NODES: Final = 100_000
MAX_INTEGER_BITS: Final = 4096
PART_BYTES: Final = 8
TOO_LARGE: Final = "value is too large or too deep"


class FunctionRefused(ValueError):
    """The arguments are not ones the function answers for."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What policy allows of one function."""

    input_bytes: int
    output_bytes: int
    depth: int
    calls: int


def measure(value: Any, *, most_bytes: int, depth: int) -> None:
    """Refuse what is not plain JSON within bounds; looks at one level after the other."""
    level: list[Any] = [value]
    nodes = size = 0
    for _ in range(depth + 1):
        nodes += len(level)
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                size += len(utf8(item))
                continue
            size += PART_BYTES
            if kind is list or kind is dict:
                parts = item if kind is list else _parts(item)
                # Before it is copied: a list may stand in many places.
                if nodes + len(below) + len(parts) > MAX_NODES:
                    raise FunctionRefused(TOO_LARGE)
                below += parts
            else:
                size += _check_scalar(item)
        if size > most_bytes:
            raise FunctionRefused(TOO_LARGE)
        if not below:
            return
        level = below
    raise FunctionRefused(TOO_LARGE)


def utf8(text: str) -> bytes:
    """Return the UTF-8 of a text; a lone surrogate has none."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise FunctionRefused("text holds a lone surrogate") from exc


def _parts(item: dict[Any, Any]) -> list[Any]:
    if not all(type(key) is str for key in item):
        raise FunctionRefused("a key is not a text")
    return [*item, *item.values()]


def _check_scalar(item: Any) -> int:
    """Return how much more than a plain number this is."""
    kind = type(item)
    if kind is int:
        if item.bit_length() > MAX_INTEGER_BITS:
            raise FunctionRefused("number is too large")
        return int(item.bit_length()) // PART_BYTES  # its bytes; it has 2.4 digits for each
    if kind is float and not isfinite(item):
        raise FunctionRefused("NaN and Infinity are not JSON")
    if item is not None and kind not in (bool, float):
        raise FunctionRefused("not a JSON value")
    return 0
