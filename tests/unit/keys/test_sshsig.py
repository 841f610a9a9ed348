"""SSH signatures: vectors, any bytes, and what a good one says."""

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from tests.support import sshlab
from tests.support.sshlab import APPROVAL, NOW, Forge, Key, armored
from threegate.base.errors import SignatureRefused
from threegate.base.untrusted import Untrusted
from threegate.keys.signers import parse_signers
from threegate.keys.sshsig import SignedBytes, armor, parse_signature, verify

ACCEPT, REJECT = sshlab.load("signature", "accept"), sshlab.load("signature", "reject")
KEY, TOKEN = Key(b"\x01" * 32), Key(b"\x02" * 32, on_token=True)
SIGNERS = parse_signers(KEY.signer_line() + TOKEN.signer_line("second"))
CODES = {f"TG-KEY-00{number}" for number in range(1, 9)}


def judge(signature: bytes, message: bytes = b"approve this") -> SignedBytes:
    return verify(message, Untrusted(signature), namespace=APPROVAL, signers=SIGNERS, at=NOW)


@pytest.mark.parametrize("name", ACCEPT)
def test_accept_vectors(name: str) -> None:
    _, data = ACCEPT[name]
    key, principal = (TOKEN, "second") if "token" in name else (KEY, "operator")
    touched = True if key.on_token else None
    expected = SignedBytes(principal, key.fingerprint, key.type_name.decode(), touched)
    assert judge(data) == expected


@pytest.mark.parametrize("name", REJECT)
def test_reject_vectors(name: str) -> None:
    expected, data = REJECT[name]
    with pytest.raises(SignatureRefused) as refused:
        judge(data)
    assert refused.value.code == expected
    assert refused.value.message.isprintable()


def test_every_code_of_a_single_signature_has_a_vector() -> None:
    # 005 and 006 depend on the list and the time: tests/unit/keys/test_signers.py.
    assert {expected for expected, _ in REJECT.values()} == CODES - {"TG-KEY-005", "TG-KEY-006"}


@given(st.binary(max_size=400))
def test_any_bytes_are_refused_in_our_own_words(data: bytes) -> None:
    for text in (data, armored(data), armored(b"SSHSIG\0\0\0\1" + data)):
        with pytest.raises(SignatureRefused) as refused:
            judge(text)
        assert refused.value.code in CODES


@given(st.binary(max_size=300), st.sampled_from([KEY, TOKEN]), st.integers(0, 2**32 - 1))
def test_any_message_can_be_signed(message: bytes, key: Key, counter: int) -> None:
    good = Forge(key, message=message, counter=counter).armored()
    assert judge(good, message).fingerprint == key.fingerprint
    with pytest.raises(SignatureRefused) as refused:
        judge(good, message + b"\0")
    assert refused.value.code == "TG-KEY-002"


@given(st.binary(max_size=600))
def test_armor_is_the_one_of_ssh_keygen(blob: bytes) -> None:
    assert armor(blob) == armored(blob)


def test_parsed_signature_shows_its_parts() -> None:
    parsed = parse_signature(Untrusted(Forge(TOKEN, flags=5, counter=9).armored()))
    assert (parsed.namespace, parsed.hash_name) == (APPROVAL, "sha512")
    assert (parsed.flags, parsed.counter) == (5, 9)
    assert parsed.key.blob == TOKEN.blob
    plain = parse_signature(Untrusted(Forge(KEY).armored()))
    assert (plain.flags, plain.counter) == (None, None)


def test_ssh_keygen_writes_exactly_these_bytes(tmp_path: Path) -> None:
    # Ed25519 is deterministic, so the two writers must agree to the last byte.
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_bytes(KEY.private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    argv = ["ssh-keygen", "-Y", "sign", "-f", str(path), "-n", APPROVAL]
    done = subprocess.run(argv, input=b"approve this", capture_output=True, check=True, timeout=30)
    assert done.stdout == Forge(KEY).armored()


def test_window_and_revocation_reach_the_verdict() -> None:
    lines = {
        None: KEY.signer_line(),
        "TG-KEY-004": KEY.signer_line().replace(b"threegate-*", b"threegate-policy"),
        "TG-KEY-005": KEY.signer_line(options=',valid-after="20990101000000Z"'),
        "TG-KEY-006": KEY.signer_line(options=',valid-before="20200101000000Z"')[:-1]
        + b" revoked\n",
    }
    for expected, line in lines.items():
        try:
            verify(
                b"approve this",
                Untrusted(Forge(KEY).armored()),
                namespace=APPROVAL,
                signers=parse_signers(line),
                at=NOW,
            )
        except SignatureRefused as exc:
            assert exc.code == expected
        else:
            assert expected is None


def test_revoked_is_only_said_of_what_the_key_signed() -> None:
    revoked = KEY.signer_line(options=',valid-before="20200101000000Z"')[:-1] + b" revoked\n"
    with pytest.raises(SignatureRefused) as refused:
        verify(
            b"something else",
            Untrusted(Forge(KEY).armored()),
            namespace=APPROVAL,
            signers=parse_signers(revoked),
            at=NOW,
        )
    assert refused.value.code == "TG-KEY-002"
