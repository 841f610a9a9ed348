"""An artifact's name is its digest; short forms are for people and never too short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.samples import digest, one_of_each
from threegate.artifacts import ids
from threegate.artifacts.registry import emit, id_of

WHOLE = "rp-" + digest("x")


@given(st.sampled_from(ids.PREFIXES), st.binary(max_size=50))
def test_every_made_id_is_an_id_and_comes_apart_again(prefix: str, data: bytes) -> None:
    made = ids.make_id(prefix, data)
    assert ids.is_id(made)
    assert (ids.prefix_of(made), ids.digest_of(made)) == (prefix, ids.sha256_hex(data))
    assert made.startswith(ids.short(made))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rp-",
        WHOLE[:-1],
        WHOLE + "0",
        WHOLE + "\n",
        WHOLE.upper(),
        "zz" + WHOLE[2:],
        f" {WHOLE}",
    ],
)
def test_nothing_else_is_an_id(text: str) -> None:
    assert ids.is_id(WHOLE), "control"
    assert not ids.is_id(text)


def test_a_short_form_needs_twelve_digits() -> None:
    assert ids.is_short_id(WHOLE[: 3 + 12])
    assert ids.is_short_id(WHOLE)
    assert not ids.is_short_id(WHOLE[: 3 + 11])
    assert not ids.is_short_id(WHOLE[: 3 + 12] + "\n")


def test_a_digest_has_no_prefix_and_no_upper_case() -> None:
    assert ids.is_digest(digest("x"))
    assert not any(map(ids.is_digest, (WHOLE, digest("x").upper(), digest("x") + "\n", "")))


def test_the_id_is_the_digest_of_the_bytes() -> None:
    for prefix, artifact in one_of_each().items():
        assert id_of(artifact) == ids.make_id(prefix, emit(artifact))
