"""The external functions: what the reference returns, or a refusal in our own words."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threegate.tool_exec.monty.functions import (
    MAX_TEXT_CHARS,
    REGISTRY,
    FunctionRefused,
    json_dumps,
    json_loads,
    regex_findall,
    sha256_hex,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.text())
def test_sha256_is_hashlib(text: str) -> None:
    try:
        expected = hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:
        with pytest.raises(FunctionRefused):
            sha256_hex(text)
        return
    assert sha256_hex(text) == expected


@settings(max_examples=300)
@given(JSON)
def test_dumps_and_loads_are_the_standard_ones(value: Any) -> None:
    try:
        text = json_dumps(value)
    except FunctionRefused:
        return
    assert text == json.dumps(value, sort_keys=True)
    assert json_loads(text) == json.loads(text)


@given(st.text(alphabet='{}[]":,0123456789eE+-.truefalsnNI \\"ab', max_size=40))
def test_loads_answers_like_the_standard_one_or_refuses(text: str) -> None:
    try:
        value = json_loads(text)
    except FunctionRefused:
        return
    assert value == json.loads(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 2}', "duplicate key"),
        ("NaN", "NaN"),
        ("-Infinity", "NaN"),
        ("[" * 65 + "]" * 65, "too deeply"),
        ("[" * 100_000, "too deeply"),
        ('"\\ud800"', "lone surrogate"),
        ("1" * 3000, "too large"),
        ("", "not JSON"),
        ("[1,]", "not JSON"),
        (" " * (MAX_TEXT_CHARS + 1), "too large"),
    ],
)
def test_loads_refuses(text: str, reason: str) -> None:
    assert json_loads('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}  # control
    with pytest.raises(FunctionRefused, match=reason):
        json_loads(text)


def test_shared_parts_are_counted_every_time_they_occur() -> None:
    bomb: list[Any] = ["x"]
    for _ in range(40):
        bomb = [bomb, bomb]
    with pytest.raises(FunctionRefused, match="too large"):
        json_dumps(bomb)


@pytest.mark.parametrize("value", [{1: 2}, {1, 2}, b"x", (1,), object(), float("nan"), 1 << 5000])
def test_dumps_refuses_what_json_does_not_have(value: Any) -> None:
    with pytest.raises(FunctionRefused):
        json_dumps(value)


@pytest.mark.parametrize("value", [None, 1, b"x", ["x"]])
def test_texts_only(value: Any) -> None:
    for call in (
        sha256_hex,
        json_loads,
        lambda v: regex_findall(v, "x"),
        lambda v: regex_findall("x", v),
    ):
        with pytest.raises(FunctionRefused, match="not a text"):
            call(value)


def test_the_registry_is_exactly_the_four() -> None:
    assert sorted(REGISTRY) == ["json_dumps", "json_loads", "regex_findall", "sha256_hex"]
    with pytest.raises(TypeError):
        REGISTRY["open"] = open  # type: ignore[index]
