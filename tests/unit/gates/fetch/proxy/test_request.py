"""One CONNECT in one spelling; everything else is refused, each for its own reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.proxies import (
    extension,
    made_hello,
    message,
    name_extension,
    real_hello,
    records,
    sized,
)
from threegate.gates.fetch.proxy.request import (
    MAX_HELLO_BYTES,
    MAX_REQUEST_BYTES,
    Records,
    TunnelReason,
    TunnelRefused,
    check_hello,
    parse_request,
)

GOOD = b"CONNECT api.crossref.org:443 HTTP/1.1\r\nHost: api.crossref.org:443\r\n\r\n"
HOST = b"\r\nHost: api.crossref.org:443\r\n\r\n"


def reason(data: bytes) -> TunnelReason:
    with pytest.raises(TunnelRefused) as caught:
        parse_request(data)
    return caught.value.reason


def test_the_one_spelling_gives_the_name() -> None:
    assert parse_request(GOOD) == "api.crossref.org"


@pytest.mark.parametrize("size", range(len(GOOD)))
def test_a_request_in_pieces_waits_for_the_rest(size: int) -> None:
    assert parse_request(GOOD[:size]) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"GET https://api.crossref.org/ HTTP/1.1", TunnelReason.NOT_CONNECT),
        (b"connect api.crossref.org:443 HTTP/1.1", TunnelReason.NOT_CONNECT),
        (b"CONNECT  api.crossref.org:443 HTTP/1.1", TunnelReason.REQUEST_BROKEN),
        (b"CONNECT api.crossref.org:443 HTTP/1.0", TunnelReason.REQUEST_BROKEN),
        (b"CONNECT api.crossref.org:443 HTTP/1.1 ", TunnelReason.REQUEST_BROKEN),
        (b"CONNECT api.crossref.org:443\tHTTP/1.1", TunnelReason.REQUEST_BROKEN),
        (b"CONNECT API.crossref.org:443 HTTP/1.1", TunnelReason.REQUEST_BROKEN),
        (b"CONNECT api.crossref.org HTTP/1.1", TunnelReason.REQUEST_BROKEN),
        (b"CONNECT [::1]:443 HTTP/1.1", TunnelReason.REQUEST_BROKEN),
        (b"CONNECT a@api.crossref.org:443 HTTP/1.1", TunnelReason.REQUEST_BROKEN),
        (b"CONNECT api.crossref.org:443\0 HTTP/1.1", TunnelReason.REQUEST_BROKEN),
        (b"CONNECT api.crossref.org:443 HTTP/1.1\n", TunnelReason.REQUEST_BROKEN),
        (b"CONNECT api.crossref.org:80 HTTP/1.1", TunnelReason.OTHER_PORT),
        (b"CONNECT api.crossref.org:0443 HTTP/1.1", TunnelReason.OTHER_PORT),
        (b"CONNECT other.crossref.org:443 HTTP/1.1", TunnelReason.HOST_DIFFERS),
    ],
)
def test_other_request_lines_are_refused(line: bytes, expected: TunnelReason) -> None:
    assert reason(line + HOST) == expected


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        b"Host: api.crossref.org",
        b"Host: other.example:443",
        b"host: api.crossref.org:443",
        b"Host: api.crossref.org:443\r\nHost: api.crossref.org:443",
        b"Host: api.crossref.org:443\r\nProxy-Authorization: Basic eDp5",
        b"Host: api.crossref.org:443\r\n folded",
        b"Host: api.crossref.org:443\nX: y",
    ],
)
def test_other_headers_are_refused(headers: bytes) -> None:
    line = GOOD.partition(b"\r\n")[0]
    sent = line + (b"\r\n" + headers if headers else b"") + b"\r\n\r\n"
    assert reason(sent) == TunnelReason.HOST_DIFFERS


def test_bytes_behind_the_request_are_refused() -> None:
    assert reason(GOOD + b"\x16") == TunnelReason.EARLY_BYTES


def test_an_endless_request_ends_at_the_limit() -> None:
    assert reason(GOOD[:-2] + b"X: " + b"a" * MAX_REQUEST_BYTES) == TunnelReason.REQUEST_LONG


def test_other_protocols_are_refused_at_their_first_byte() -> None:
    for first in (b"\x16", b"\x05\x01\x00", b"GET /", b"\r\n"):
        assert reason(first) == TunnelReason.NOT_CONNECT


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: GOOD[:30] + tail))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    try:
        found = parse_request(data)
    except TunnelRefused:
        return
    assert found is None or data == GOOD.replace(b"api.crossref.org", found.encode())


# The name in a ClientHello: real hellos pass whole and in pieces, tricks are told apart.

NAME = "api.crossref.org"
RIGHT = name_extension(NAME.encode())
CHANGE = b"\x14\x03\x03\x00\x01\x01"
SECRET = b"\x17\x03\x03\x00\x05hello"


def hello_reason(data: bytes) -> TunnelReason:
    with pytest.raises(TunnelRefused) as caught:
        check_hello(data, NAME)
    return caught.value.reason


@pytest.mark.parametrize("old", [False, True])
def test_a_real_hello_for_the_name_passes(old: bool) -> None:
    hello = real_hello(NAME, old=old)
    assert check_hello(hello, NAME)
    for size in range(len(hello)):
        assert not check_hello(hello[:size], NAME)


@pytest.mark.parametrize("piece", [1, 2, 3, 4, 5, 7, 64, 511])
def test_a_hello_over_many_records_is_put_together(piece: int) -> None:
    body = real_hello(NAME)[5:]
    assert check_hello(records(body, piece), NAME)
    other = real_hello("evil.example")[5:]
    assert hello_reason(records(other, piece)) == TunnelReason.NAME_DIFFERS


def test_a_name_other_than_the_tunnels_is_refused() -> None:
    assert check_hello(made_hello(RIGHT), NAME)
    for name in ("evil.example", "www.crossref.org", "crossref.org", f"x.{NAME}"):
        assert hello_reason(real_hello(name)) == TunnelReason.NAME_DIFFERS
    for spelled in (b"API.crossref.org", b"api.crossref.org.", b"api.crossref.org\0", b""):
        assert hello_reason(made_hello(name_extension(spelled))) == TunnelReason.NAME_DIFFERS


def test_a_hello_without_a_name_is_refused() -> None:
    assert hello_reason(real_hello(None)) == TunnelReason.NAME_MISSING
    assert hello_reason(made_hello(b"")) == TunnelReason.NAME_MISSING
    assert hello_reason(made_hello(None)) == TunnelReason.NAME_MISSING


@pytest.mark.parametrize(
    "name", [b"127.0.0.1", b"8.8.8.8", b"::1", b"[::1]", b"0x7f.1", b"2130706433", b"1.2.3.0x4"]
)
def test_an_address_as_name_is_refused(name: bytes) -> None:
    assert hello_reason(made_hello(name_extension(name))) == TunnelReason.NAME_IS_ADDRESS


@pytest.mark.parametrize("kind", [0xFE0D, 0xFFCE])
def test_an_encrypted_name_is_refused_beside_the_right_one(kind: int) -> None:
    assert hello_reason(made_hello(RIGHT + extension(kind, b"x"))) == TunnelReason.NAME_ENCRYPTED
    assert hello_reason(made_hello(extension(kind, b"") + RIGHT)) == TunnelReason.NAME_ENCRYPTED


@pytest.mark.parametrize(
    "extensions",
    [
        RIGHT + RIGHT,
        RIGHT + name_extension(b"evil.example"),
        extension(0, b""),
        extension(0, sized(2, b"")),
        extension(0, sized(2, b"\x01" + sized(2, NAME.encode()))),
        extension(0, sized(2, 2 * (b"\0" + sized(2, NAME.encode())))),
        extension(0, sized(2, b"\0" + sized(2, NAME.encode())) + b"x"),
        RIGHT[:-1],
        RIGHT + b"\0",
        RIGHT + b"\x00\x0a\xff\xff",
        RIGHT + b"".join(extension(1000 + n, b"") for n in range(64)),
    ],
)
def test_extensions_that_two_servers_could_read_differently(extensions: bytes) -> None:
    assert hello_reason(made_hello(extensions)) == TunnelReason.HELLO_BROKEN


def test_more_than_one_hello_at_once_is_refused() -> None:
    one, other = message(RIGHT), message(name_extension(b"evil.example"))
    assert check_hello(records(one), NAME)
    assert hello_reason(records(one + other)) == TunnelReason.HELLO_BROKEN
    assert hello_reason(records(one) + records(other)) == TunnelReason.HELLO_BROKEN
    assert hello_reason(records(one) + SECRET) == TunnelReason.HELLO_BROKEN


@pytest.mark.parametrize(
    "first",
    [
        *(b"GET / HTTP/1.1\r\n", b"SSH-2.0-x", b"\x80\x2e\x01", b"\0", CHANGE, SECRET),
        *(b"\x16\x02", b"\x16\x03\x01\0\0", b"\x16\x03\x01\xff\xff"),
    ],
)
def test_bytes_that_are_not_tls_are_refused(first: bytes) -> None:
    assert hello_reason(first) == TunnelReason.NOT_TLS


def test_another_handshake_message_is_refused() -> None:
    assert hello_reason(records(message(RIGHT, kind=2))) == TunnelReason.NOT_HELLO


def test_a_hello_without_end_is_refused_at_the_limit() -> None:
    assert hello_reason(records(b"\x01\xff\xff\xff")) == TunnelReason.HELLO_LONG
    almost = b"\x01" + (MAX_HELLO_BYTES - 4).to_bytes(3, "big")
    assert (
        hello_reason(records(almost + bytes(MAX_HELLO_BYTES - 100), 1)) == TunnelReason.HELLO_LONG
    )


@given(st.binary(max_size=300), st.integers(0, 500))
def test_a_damaged_hello_is_read_or_refused(damage: bytes, at: int) -> None:
    whole = made_hello(RIGHT)
    data = whole[:at] + damage + whole[at + len(damage) :]
    try:
        found = check_hello(data, NAME)
    except TunnelRefused:
        return
    assert not found or NAME.encode() in data


def follow(*sent: bytes) -> TunnelReason | None:
    follower = Records(NAME)
    try:
        for piece in sent:
            follower.feed(piece)
    except TunnelRefused as refused:
        return refused.reason
    return None


def test_records_behind_the_hello_pass_in_any_pieces() -> None:
    stream = CHANGE + records(b"\x10\0\0\x01x") + CHANGE + records(b"\x01anything") + 3 * SECRET
    assert follow(stream) is None
    assert follow(*(bytes([byte]) for byte in stream)) is None


def test_bytes_behind_the_hello_that_are_not_tls_are_refused() -> None:
    for tail in (b"GET / HTTP/1.1", b"\x17\x02", b"\x17\x03\x03\0\0", b"\x17\x03\x03\xff\xff"):
        assert follow(SECRET) is None
        assert follow(SECRET, tail) == TunnelReason.NOT_TLS


def test_a_second_hello_must_be_for_the_same_name() -> None:
    right, wrong = made_hello(RIGHT), made_hello(name_extension(b"evil.example"))
    assert follow(CHANGE, right) is None
    assert follow(CHANGE, wrong) == TunnelReason.NAME_DIFFERS
    assert follow(*(bytes([byte]) for byte in CHANGE + wrong)) == TunnelReason.NAME_DIFFERS
    assert follow(made_hello(b"")) == TunnelReason.NAME_MISSING
    assert follow(SECRET, wrong) is None  # behind encrypted records it is encrypted itself


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_stream_is_followed_or_refused(pieces: list[bytes]) -> None:
    assert follow(*pieces) == follow(b"".join(pieces))
