"""Checkpoints: one spelling, and any bytes."""

import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.audit.checkpoint import Checkpoint, emit_checkpoint, parse_checkpoint
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted

ROOT = bytes(range(32))
GOOD = emit_checkpoint(Checkpoint("ab-9", 7, ROOT))


def parse(data: bytes) -> Checkpoint:
    return parse_checkpoint(Untrusted(data))


def test_text_is_the_body_of_a_c2sp_checkpoint() -> None:
    text = emit_checkpoint(Checkpoint("ab-9", 7, ROOT))
    assert text == b"threegate/ab-9\n7\n" + base64.b64encode(ROOT) + b"\n"
    assert parse(GOOD) == Checkpoint("ab-9", 7, ROOT)


BAD = {
    "empty": b"",
    "no newline at the end": GOOD[:-1],
    "another line": GOOD + b"\n",
    "carriage returns": GOOD.replace(b"\n", b"\r\n"),
    "another origin": GOOD.replace(b"threegate/", b"fourgate/"),
    "no workspace": GOOD.replace(b"ab-9", b""),
    "upper case": GOOD.replace(b"ab-9", b"AB-9"),
    "path in the workspace": GOOD.replace(b"ab-9", b"../x"),
    "leading zero": GOOD.replace(b"\n7\n", b"\n07\n"),
    "sign": GOOD.replace(b"\n7\n", b"\n+7\n"),
    "negative": GOOD.replace(b"\n7\n", b"\n-7\n"),
    "other digits": GOOD.replace(b"\n7\n", "\n٧\n".encode()),
    "too many entries": GOOD.replace(b"\n7\n", b"\n9007199254740992\n"),
    "short root": GOOD[:-5] + b"=\n",
    "long root": b"threegate/ab-9\n7\n" + base64.b64encode(ROOT + b"x") + b"\n",
    "spare bits in the root": GOOD[:-3] + b"9=\n",
    "oversize": GOOD + b"x" * 10_000,
}


@pytest.mark.parametrize("name", BAD)
def test_any_other_spelling_is_rejected(name: str) -> None:
    with pytest.raises(ArtifactRejected) as caught:
        parse(BAD[name])
    assert caught.value.code == "TG-AUD-004"


@pytest.mark.parametrize(
    ("origin", "size", "root"),
    [("", 1, ROOT), ("a\nb", 1, ROOT), ("ab", -1, ROOT), ("ab", 2**53, ROOT), ("ab", 1, ROOT[1:])],
)
def test_a_value_without_a_text_cannot_be_made(origin: str, size: int, root: bytes) -> None:
    with pytest.raises(ArtifactRejected):
        Checkpoint(origin, size, root)


@given(st.binary(max_size=300))
def test_any_bytes_are_parsed_or_rejected(data: bytes) -> None:
    try:
        assert emit_checkpoint(parse(data)) == data
    except ArtifactRejected as exc:
        assert exc.code == "TG-AUD-004"


@given(
    st.from_regex(r"[0-9a-z][0-9a-z-]{0,63}", fullmatch=True),
    st.integers(0, 2**53 - 1),
    st.binary(min_size=32, max_size=32),
)
def test_round_trip(origin: str, size: int, root: bytes) -> None:
    checkpoint = Checkpoint(origin, size, root)
    assert parse(emit_checkpoint(checkpoint)) == checkpoint


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_a_changed_byte_never_means_the_same(place: int, change: int) -> None:
    data = bytearray(GOOD)
    data[place] ^= change
    with suppress(ArtifactRejected):
        assert parse(bytes(data)) != parse(GOOD)
