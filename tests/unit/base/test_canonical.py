"""Canonical JSON: what `encode` writes is all that `decode` reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import JSON
from threegate.base import canonical

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_every_value_has_one_spelling_and_comes_back(value: object) -> None:
    assert canonical.decode(canonical.encode(value)) == value


@given(st.binary(max_size=80) | JSON.map(lambda value: repr(value).encode("utf-8", "replace")))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    try:
        value = canonical.decode(data)
    except ValueError:
        return
    assert canonical.encode(value) == data


@pytest.mark.parametrize(
    "data",
    [
        b'{"b":1,"a":2}', b'{"a":1,"a":1}', b'{"a": 1}', b"[1, 2]", b" 1", b"1 ", b"1\n", b"-0",
        b"01", b"1.0", b"1e2", b"1e999", b"NaN", b"Infinity", b'"\\u0041"', b'"\\/"', b'"\\ud800"',
        b"\xff", b'"\xed\xa0\x80"', b"", b"[" * 100_000, b"9" * 5000, b"[" * 17 + b"]" * 17,
    ],
    ids=lambda data: repr(data[:12]),
)  # fmt: skip
def test_another_spelling_is_refused(data: bytes) -> None:
    assert canonical.decode(b'{"a":[1,-2,null,true,"\xc3\xa9\\n"]}') == {
        "a": [1, -2, None, True, "\u00e9\n"]
    }
    with pytest.raises(ValueError):
        canonical.decode(data)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_what_has_no_spelling_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        canonical.encode(value)


def test_nesting_has_a_limit() -> None:
    assert canonical.decode(b"[" * 15 + b"]" * 15) is not None
