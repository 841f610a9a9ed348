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
MAX_INTEGER_BITS: Final = 16_384


class TooLarge(ValueError):
    """The value does not fit the budget."""


class NotJson(ValueError):
    """The value has no JSON form."""


def to_json(value: Any, *, most_bytes: int) -> str:
    """Return `value` as JSON text with sorted keys; raise `TooLarge` or `NotJson`."""
    budget = _Budget(most_bytes)
    plain = budget.copy(value, 0)
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False, allow_nan=False)
    if len(text.encode("utf-8")) > most_bytes:
        raise TooLarge("the value is larger than the output limit")
    return text


class _Budget:
    """What is left of nodes and characters."""

    def __init__(self, characters: int) -> None:
        self._nodes, self._characters = MAX_NODES, characters

    def copy(self, value: Any, depth: int) -> Any:
        self._nodes -= 1
        if self._nodes < 0 or depth > MAX_DEPTH:
            raise TooLarge("the value has too many parts or is too deep")
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind in (list, tuple):
            return [self.copy(item, depth + 1) for item in value]
        if kind is dict:
            return self._object(value, depth)
        return self._number(value)

    def _text(self, value: str) -> str:
        self._characters -= len(value)
        if self._characters < 0:
            raise TooLarge("the value holds too much text")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as exc:
            raise NotJson("a lone surrogate") from exc
        return value

    def _object(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        if not all(type(key) is str for key in value):
            raise NotJson("a key that is not a text")
        return {self._text(key): self.copy(item, depth + 1) for key, item in value.items()}

    def _number(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            if value.bit_length() > MAX_INTEGER_BITS:
                raise TooLarge("a number is too large")
            return value
        if kind is float:
            if not isfinite(value):
                raise NotJson("NaN or Infinity")
            return value
        raise NotJson(f"a {kind.__name__}")
