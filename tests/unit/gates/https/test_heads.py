"""Heads of answers: one reading or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.https.heads import Head, parse_head
from threegate.gates.https.limits import MAX_HEADERS
from threegate.gates.https.refused import NotRetrieved, Why

OK = b"HTTP/1.1 200 OK\r\n"


def refused(data: bytes) -> str:
    with pytest.raises(NotRetrieved) as caught:
        parse_head(data)
    assert caught.value.why is Why.ANSWER
    return caught.value.message


def test_names_are_lower_case_and_values_have_no_space_around_them() -> None:
    head = parse_head(OK + b"Content-Type:  text/html \r\nX-One: a\r\nx-one: b\r\nEmpty:")
    assert head == Head(200, False, {"content-type": "text/html", "x-one": "a, b", "empty": ""})


@pytest.mark.parametrize(
    ("line", "rest", "keeps"),
    [
        ("HTTP/1.1 200 OK", "Content-Length: 3", True),
        ("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", True),
        ("HTTP/1.1 200 OK", "X: y", False),
        ("HTTP/1.0 200 OK", "Content-Length: 3", False),
        ("HTTP/1.1 200 OK", "Content-Length: 3\r\nConnection: close", False),
        ("HTTP/1.1 304 Not Modified", "X: y", True),
        ("HTTP/1.1 200", "Content-Length: 0", True),
    ],
)
def test_a_connection_is_kept_if_the_end_of_the_body_is_known(
    line: str, rest: str, keeps: bool
) -> None:
    assert parse_head(f"{line}\r\n{rest}".encode()).keeps is keeps


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "status line"),
        (b"HTTP/2 200 OK", "status line"),
        (b"HTTP/1.1 2000 OK", "status line"),
        (b"HTTP/1.1 700 OK", "status line"),
        (b"HTTP/1.1  200 OK", "status line"),
        (b"ICY 200 OK", "status line"),
        (b"HTTP/1.1 200 O\x00K", "status line"),
        (OK + b"no colon", "a name, a colon"),
        (OK + b"Name : value", "a name, a colon"),
        (OK + b" folded: value", "a name, a colon"),
        (OK + b"A: b\r\n c", "a name, a colon"),
        (OK + b"A: b\nB: c", "a name, a colon"),
        (OK + b"A: b\rB: c", "a name, a colon"),
        (OK + b"A: \x00", "a name, a colon"),
        (OK + b"A: \x1b[2J", "a name, a colon"),
        (OK + b": b", "a name, a colon"),
        (OK + b"\xc3\xa4: b", "a name, a colon"),
        (OK + b"A" * 201 + b": b", "a name, a colon"),
        (OK + b"\r\n".join([b"A: b"] * (MAX_HEADERS + 1)), "more than 100 headers"),
        (OK + b"Content-Length: 3\r\nContent-Length: 4", "two headers content-length"),
        (OK + b"Content-Length: 3\r\ncontent-length: 3", "two headers content-length"),
        (OK + b"Content-Length: 3, 3", "not a number"),
        (OK + b"Content-Length: -1", "not a number"),
        (OK + b"Content-Length: +3", "not a number"),
        (OK + b"Content-Length: 0x3", "not a number"),
        (OK + b"Content-Length: 03", "not a number"),
        (OK + b"Content-Length: 9999999999999999999", "not a number"),
        (OK + b"Content-Length:", "not a number"),
        (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 3", "both a length and chunks"),
        (OK + b"Transfer-Encoding: gzip, chunked", "other than chunked"),
        (OK + b"Transfer-Encoding: identity", "other than chunked"),
        (OK + b"Location: /a\r\nLocation: /b", "two headers location"),
        (OK + b"Content-Type: a/b\r\nContent-Type: c/d", "two headers content-type"),
        (OK + b"Location: " + b"a" * 9000, "more than 8192 bytes"),
    ],
)
def test_a_head_with_two_readings_is_refused(data: bytes, reason: str) -> None:
    assert reason in refused(data)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: OK + data))
def test_any_bytes_are_a_head_or_refused(data: bytes) -> None:
    try:
        head = parse_head(data)
    except NotRetrieved as exc:
        assert exc.why is Why.ANSWER
    else:
        assert all("\r" not in value and "\n" not in value for value in head.headers.values())
