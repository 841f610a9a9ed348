"""Depth of JSON: counted exactly, whatever stands in its strings."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.sources.limits import MAX_JSON_BRACKETS, MAX_JSON_DEPTH
from threegate.gates.fetch.sources.strict_json import JsonRefused, parse_json

TEXTS = st.text(alphabet='[]{}"\\\n,:a\u00e9', max_size=12)
VALUES = st.recursive(
    TEXTS | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=30,
)


def reason(document: bytes) -> str:
    with pytest.raises(JsonRefused) as refused:
        parse_json(Untrusted(document))
    return refused.value.reason


def rows(count: int) -> bytes:
    return b"[" + b"[],{}," * count + b"0]"


def test_lists_and_objects_are_bounded() -> None:
    assert isinstance(parse_json(Untrusted(rows(1000))), list), "control"
    assert reason(rows(MAX_JSON_BRACKETS // 2)) == "too-large"


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def wrapped(value: Any, levels: int) -> Any:
    for level in range(levels):
        value = [value, '"]}'] if level % 2 else {'a\\"[{': value}
    return value


@given(VALUES, st.integers(min_value=0, max_value=MAX_JSON_DEPTH + 4), st.booleans())
def test_depth_is_counted_exactly(value: Any, levels: int, ascii_only: bool) -> None:
    # Many brackets, so that counting them all does not already answer.
    whole = [wrapped(value, levels), [[]] * MAX_JSON_DEPTH, '[{"']
    document = json.dumps(whole, ensure_ascii=ascii_only).encode("utf-8")
    if depth(whole) <= MAX_JSON_DEPTH:
        assert parse_json(Untrusted(document)) == whole
    else:
        assert reason(document) == "too-deep"
