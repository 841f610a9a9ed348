"""Public keys: two types, one spelling, no key that everybody holds."""

import base64
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sshlab import PLAIN, SK, Key, s
from threegate.base.errors import SignatureRefused
from threegate.base.untrusted import Untrusted
from threegate.keys.public import parse_key_blob, parse_public_line

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]


def add(a: Point, b: Point) -> Point:
    """Edwards addition, RFC 8032 section 5.1.4, affine."""
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + t, -1, P)
    y = (y1 * y2 + x1 * x2) * pow(1 - t, -1, P)
    return x % P, y % P


def on_curve(encoded: int) -> Point | None:
    """Return the point a 256-bit number spells, if it spells one, canonical or not."""
    y, sign = encoded % 2**255 % P, encoded >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P:
        return None
    return (P - x if x % 2 != sign else x), y


def order_divides_8(point: Point) -> bool:
    for _ in range(3):
        point = add(point, point)
    return point == (0, 1)


def small_order_points() -> list[Point]:
    """Compute the torsion group from scratch: multiply any point by the prime order."""
    order = 2**252 + 27742317777372353535851937790883648493
    for y in range(2, 100):
        base = on_curve(y)
        if base is None:
            continue
        torsion, power = (0, 1), base
        for bit in range(order.bit_length()):
            if order >> bit & 1:
                torsion = add(torsion, power)
            power = add(power, power)
        multiples = [(0, 1)]
        while (following := add(multiples[-1], torsion)) != (0, 1):
            multiples.append(following)
        if len(multiples) == 8:
            return multiples
    raise AssertionError("no generator of the torsion group found")


def test_all_eight_small_order_points_are_refused() -> None:
    points = small_order_points()
    assert all(map(order_divides_8, points)), "control: they really have small order"
    for x, y in points:
        for sign in (0, 1):  # one of the two is no point at all where x is 0; refused as well
            blob = s(PLAIN) + s((y | sign << 255).to_bytes(32, "little"))
            with pytest.raises(SignatureRefused, match="small order") as refused:
                parse_key_blob(blob)
            assert refused.value.code == "TG-KEY-007", (x, y)


@pytest.mark.parametrize("y", range(P, 2**255))
def test_second_spelling_of_a_point_is_refused(y: int) -> None:
    for sign in (0, 1):
        with pytest.raises(SignatureRefused, match="not in canonical form") as refused:
            parse_key_blob(s(PLAIN) + s((y | sign << 255).to_bytes(32, "little")))
        assert refused.value.code == "TG-KEY-007"


@given(st.binary(min_size=32, max_size=32), st.sampled_from([b"ssh:", b"ssh:lab", None]))
def test_keys_round_trip(seed: bytes, application: bytes | None) -> None:
    key = Key(seed, application is not None, application or b"")
    parsed = parse_key_blob(key.blob)
    assert parsed.blob == key.blob
    assert parsed.line == key.public_line
    assert parsed.fingerprint == key.fingerprint
    assert parsed.on_token == key.on_token
    for ending in ("", "\n", " who@where\n", " a comment with words\r\n"):
        assert parse_public_line(Untrusted(f"{key.public_line}{ending}".encode())) == parsed


def test_fingerprint_is_the_one_ssh_keygen_shows(tmp_path: Path) -> None:
    for key in (Key(b"\x05" * 32), Key(b"\x06" * 32, on_token=True)):
        path = tmp_path / "key.pub"
        path.write_text(key.public_line)
        argv = ["ssh-keygen", "-l", "-f", str(path)]
        shown = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout
        assert shown.split()[1] == parse_key_blob(key.blob).fingerprint


@given(st.binary(max_size=200))
def test_any_bytes_are_a_key_or_refused(data: bytes) -> None:
    for parse in (parse_key_blob, lambda raw: parse_public_line(Untrusted(raw))):
        try:
            parse(data)
        except SignatureRefused as exc:
            assert exc.code in {"TG-KEY-001", "TG-KEY-007"}


KEY = Key(b"\x01" * 32)


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        (b"", "TG-KEY-001", "not `type base64"),
        (b"ssh-ed25519", "TG-KEY-001", "not `type base64"),
        (b"x" * 9000, "TG-KEY-001", "9000 bytes"),
        (f"{KEY.public_line}\n{KEY.public_line}\n".encode(), "TG-KEY-001", "more than one line"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\n", "TG-KEY-001", "this is a private key"),
        (KEY.public_line.replace("ssh-", "sk-ssh-", 1).encode(), "TG-KEY-007", "may not sign"),
        (SK + b" " + base64.b64encode(KEY.blob), "TG-KEY-001", "not of the type"),
        (b"ssh-rsa AAAAB3NzaC1yc2E=", "TG-KEY-007", '"ssh-rsa" may not sign'),
        (b"ssh-dss\x1b[2J AAAA", "TG-KEY-007", "u{1b}"),
        (b"ssh-ed25519 AA AA", "TG-KEY-001", "is not base64"),
        (b"ssh-ed25519 " + b"A" * 4000, "TG-KEY-001", "of more than"),
        (b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", "TG-KEY-001", "ends early"),
        (b"ssh-ed25519 AB==", "TG-KEY-001", "not canonical base64"),
    ],
)
def test_public_key_lines_are_refused_with_the_reason(line: bytes, code: str, reason: str) -> None:
    with pytest.raises(SignatureRefused) as refused:
        parse_public_line(Untrusted(line))
    assert refused.value.code == code
    assert reason in refused.value.message
