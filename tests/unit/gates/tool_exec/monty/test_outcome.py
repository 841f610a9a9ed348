"""A value out of the interpreter: as JSON, or refused before it costs anything."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.tool_exec.monty.outcome import MAX_DEPTH, MAX_NODES, NotJson, TooLarge, to_json

text = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(VALUES)
def test_plain_values_are_json_with_sorted_keys(value: Any) -> None:
    expected = json.dumps(value, sort_keys=True, ensure_ascii=False)
    assert to_json(value, most_bytes=2**20) == expected


def shared(levels: int) -> list[Any]:
    value: list[Any] = ["x"]
    for _ in range(levels):
        value = [value, value]
    return value


def shared_in_objects(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"x": "y"}
    for _ in range(levels):
        value = {"a": value, "b": (value, value)}
    return value


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (shared(40), TooLarge),
        (shared_in_objects(30), TooLarge),
        (nested(MAX_DEPTH + 1), TooLarge),
        ([0] * MAX_NODES, TooLarge),
        (["x" * 1000] * 100, TooLarge),
        ([{"x" * 1000: 0}] * 100, TooLarge),
        ([10**4000] * 100, TooLarge),  # each takes quadratic time to spell
        ([10**4300], TooLarge),
        (math.nan, NotJson),
        (-math.inf, NotJson),
        ("\ud800", NotJson),
        ({"\udfff": 1}, NotJson),
        ({1: 2}, NotJson),
        ({1, 2}, NotJson),
        (b"x", NotJson),
        (1j, NotJson),
        (object(), NotJson),
    ],
)
def test_what_is_not_json_or_too_large_is_refused(value: Any, error: type[Exception]) -> None:
    fits = [shared(5), shared_in_objects(5), nested(MAX_DEPTH - 2), 10**4299]
    assert to_json(fits, most_bytes=2**16), "control"
    with pytest.raises(error):
        to_json(value, most_bytes=50_000)


def test_the_bound_is_on_bytes() -> None:
    assert to_json("é" * 10, most_bytes=22) == '"' + "é" * 10 + '"'
    with pytest.raises(TooLarge):
        to_json("é" * 10, most_bytes=21)
