"""One CONNECT in one spelling; everything else is refused, each for its own reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.fetch.proxy.request import (
    MAX_REQUEST_BYTES,
    TunnelReason,
    TunnelRefused,
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
