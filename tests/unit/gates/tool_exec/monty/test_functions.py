"""The external functions: what the reference returns, or a refusal in our own words."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threegate.gates.tool_exec.monty.functions import REGISTRY, call
from threegate.gates.tool_exec.monty.plain import MAX_NODES, Bounds, FunctionRefused

MOST = 1 << 20
BOUNDS = Bounds(MOST, MOST, 64, 1000)


def sha256_hex(s: Any) -> Any:
    return call("sha256_hex", BOUNDS, [s])


def regex_findall(pattern: Any, text: Any) -> Any:
    return call("regex_findall", BOUNDS, [pattern, text])


def json_loads(s: Any) -> Any:
    return call("json_loads", BOUNDS, [s])


def json_dumps(obj: Any) -> Any:
    return call("json_dumps", BOUNDS, [obj])


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
        ("[" * 66 + "]" * 66, "too deep"),
        ("[" * 100_000, "too deep"),
        ('"\\ud800"', "lone surrogate"),
        ("1" * 3000, "too large"),
        ("", "not JSON"),
        ("[1,]", "not JSON"),
        (" " * (MOST + 1), "too large"),
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
    for function in (
        sha256_hex,
        json_loads,
        lambda v: regex_findall(v, "x"),
        lambda v: regex_findall("x", v),
    ):
        with pytest.raises(FunctionRefused, match=r"not a text|not a JSON value"):
            function(value)


@pytest.mark.parametrize(
    ("name", "arguments", "bounds", "reason"),
    [
        ("sha256_hex", ["xx"], Bounds(1, 64, 1, 1), "too large"),
        ("sha256_hex", ["é"], Bounds(1, 64, 1, 1), "too large"),
        ("sha256_hex", ["x"], Bounds(1, 63, 1, 1), "too large"),
        ("json_loads", ["[[1]]"], Bounds(99, 99, 1, 1), "too deep"),
        ("json_dumps", [[[1]]], Bounds(99, 99, 1, 1), "too deep"),
        ("json_dumps", [[1] * 20], Bounds(99, 99, 1, 1), "too large"),
        ("json_dumps", ["\n" * 50], Bounds(99, 99, 1, 1), "too large"),
        ("json_dumps", [[1] * (MAX_NODES + 1)], Bounds(1 << 30, 1 << 30, 9, 1), "too large"),
        ("regex_findall", ["a", "a" * 10], Bounds(99, 17, 1, 1), "too large"),
        ("sha256_hex", [], BOUNDS, "number of arguments"),
        ("sha256_hex", ["x", "y"], BOUNDS, "number of arguments"),
    ],
)
def test_bounds_are_those_of_policy(
    name: str, arguments: list[Any], bounds: Bounds, reason: str
) -> None:
    with pytest.raises(FunctionRefused, match=reason):
        call(name, bounds, arguments)
    assert call("sha256_hex", Bounds(1, 64, 1, 1), ["x"]), "control: just within"
    assert call("json_dumps", Bounds(99, 99, 1, 1), [[1]]) == "[1]", "control: one level"


def test_the_registry_is_exactly_the_four() -> None:
    assert sorted(REGISTRY) == ["json_dumps", "json_loads", "regex_findall", "sha256_hex"]
    with pytest.raises(TypeError):
        REGISTRY["open"] = REGISTRY["sha256_hex"]  # type: ignore[index]
