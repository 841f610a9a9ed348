"""The other SHA-256 is the same one."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from threegate.keys.sshsig import sha256_hex


@given(st.binary())
def test_it_is_the_standard_one(data: bytes) -> None:
    assert sha256_hex(data) == hashlib.sha256(data).hexdigest()
