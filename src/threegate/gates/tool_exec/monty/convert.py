"""A value out of the interpreter as JSON text, within a budget.

SECURITY
    The value comes from hostile code and may share parts: 26 nodes can expand to
    gigabytes.  Every part is counted each time it occurs, before anything is written.
"""

import json
from math import isfinite
from typing import Any, Final

MAX_NODES: Final = 200_000
MAX_DEPTH: Final = 64
MAX_INTEGER_BITS: Final = 14_284  # Python spells at most 4,300 digits


_TOO_MANY: Final = "the value has too many parts or is too deep"


class TooLarge(ValueError):
    """The value does not fit the budget."""


class NotJson(ValueError):
    """The value has no JSON form."""


_ENCODER: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False)


def to_json(value: Any, *, most_bytes: int) -> str:
    """Return `value` as JSON text with sorted keys; raise `TooLarge` or `NotJson`."""
    _count(value, most_bytes)
    text = _ENCODER.encode(value)
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as exc:
        raise NotJson("a lone surrogate") from exc
    if size > most_bytes:
        raise TooLarge("the value is larger than the output limit")
    return text


def _count(value: Any, characters: int) -> None:
    """Raise unless every part has a JSON form and all of them fit; one depth after the other."""
    nodes, parts = MAX_NODES - 1, [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for part in parts:
            kind = type(part)
            if kind is str:
                characters -= len(part)
            elif kind is dict:
                nodes -= len(part)
                characters -= _keys(part)
                # Before it is taken along: the next depth may be twice as wide, and so on.
                below += part.values() if nodes >= 0 else ()
            elif kind is list or kind is tuple:
                nodes -= len(part)
                below += part if nodes >= 0 else ()
            else:
                characters -= _number(part)
            if nodes < 0:
                raise TooLarge(_TOO_MANY)
            if characters < 0:
                raise TooLarge("the value holds too much text")
        if not below:
            return
        parts = below
    raise TooLarge(_TOO_MANY)


def _keys(value: dict[Any, Any]) -> int:
    """Return the characters of all keys."""
    characters = 0
    for key in value:
        if type(key) is not str:
            raise NotJson("a key that is not a text")
        characters += len(key)
    return characters


def _number(value: Any) -> int:
    """Return by how many characters a part that is no text and holds none is counted."""
    kind = type(value)
    if value is None or kind is bool:
        return 0
    if kind is int:
        if value.bit_length() > MAX_INTEGER_BITS:
            raise TooLarge("a number is too large")
        # Spelling a long number takes quadratic time: count its digits before any is.
        return int(value.bit_length()) // 4
    if kind is float:
        if not isfinite(value):
            raise NotJson("NaN or Infinity")
        return 0
    raise NotJson(f"a {kind.__name__}")
