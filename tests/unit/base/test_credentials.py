"""Credentials that are found without being known."""

import json
from base64 import b64encode, urlsafe_b64encode
from html import escape
from urllib.parse import quote

import pytest

from threegate.base.credentials import Marks, marks_of

KEY = bytes(range(16))
SECRET = 'live/9f8e"7d6c&5b4a+39281706'
MARKS = marks_of([SECRET, "another-credential"], KEY)


def spellings() -> list[bytes]:
    raw = SECRET.encode()
    found = [raw, raw.lower(), quote(SECRET, safe="").encode(), quote(SECRET).lower().encode()]
    found += [json.dumps(SECRET).encode(), escape(SECRET).encode(), raw.hex().encode()]
    for before in range(3):
        for after in range(3):
            around = bytes(before) + raw + bytes(after)
            found += [b64encode(around), urlsafe_b64encode(around)]
    return found


@pytest.mark.parametrize("spelling", spellings())
# claim TG-C-269
def test_a_credential_is_found_in_every_spelling_by_marks_that_do_not_hold_it(
    spelling: bytes,
) -> None:
    marks = Marks(KEY, MARKS)
    assert marks.stand_in(b"before " + spelling + b" after")
    changed = spelling[:4] + bytes([spelling[4] ^ 1]) + spelling[5:]
    assert not marks.stand_in(b"before " + changed + b" after"), "control: one letter is another"
    told = json.dumps(MARKS)
    assert SECRET not in told
    assert SECRET[:6] not in told


def test_percent_encoding_hides_nothing() -> None:
    marks = Marks(KEY, MARKS)
    hidden = "".join(f"%{byte:02X}" for byte in SECRET.encode()).encode()
    assert marks.stand_in(b"/rows?token=" + hidden)


def test_marks_of_one_run_say_nothing_in_another() -> None:
    other = marks_of([SECRET, "another-credential"], bytes(16))
    assert {length for length, _, _ in other} == {length for length, _, _ in MARKS}
    assert not {digest for _, _, digest in other} & {digest for _, _, digest in MARKS}
    assert not Marks(KEY, other).stand_in(SECRET.encode())


def test_without_credentials_nothing_is_found() -> None:
    assert marks_of([], KEY) == ()
    assert not Marks(KEY, ()).stand_in(SECRET.encode())
