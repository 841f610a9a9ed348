"""Responses within their bounds: heads with one reading, bodies as long as they say, in time."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.http_library.client import (
    MAX_HEADERS,
    ByteStream,
    ConnectionLost,
    Deadline,
    Exchange,
    Failure,
    NotRetrieved,
    ResponseCut,
    ResponseHead,
)

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"
PLAIN = "HTTP/1.1 200 OK\r\nX: y"


def sized(length: int) -> str:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {length}"


def exchange(most: int = 4096) -> Exchange:
    return Exchange("GET", "/", [("Host", "x")], max_head_bytes=most)


@contextmanager
def said(head: str, body: bytes, *, ends: bool = True) -> Iterator[tuple[ByteStream, Exchange]]:
    """Return what a server that says this looks like from here, after its head was read."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        data = f"{head}\r\n\r\n".encode() + body

        def send() -> None:
            try:
                theirs.sendall(data)
                if ends:
                    theirs.shutdown(socket.SHUT_WR)
            except OSError:  # the reader has had enough
                return

        thread = threading.Thread(target=send)
        thread.start()
        stream, asked = ByteStream(ours), exchange()
        asked.head(stream, Deadline(10))
        yield stream, asked
        ours.close()
        thread.join()


def read(head: str, body: bytes, *, most: int = 1_000, seconds: float = 10) -> bytes:
    with said(head, body) as (stream, asked):
        return asked.body(stream, most=most, deadline=Deadline(seconds))


def heads(data: bytes, most: int = 10_000) -> ResponseHead:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        return exchange(most).head(ByteStream(ours), Deadline(10))


def parsed(data: bytes) -> ResponseHead:
    """Return the head that these lines are."""
    return heads(data + b"\r\n\r\n")


def test_a_request_has_its_host_first_and_its_headers_in_order() -> None:
    asked = Exchange(
        "POST",
        "/v1?a=b",
        [("Host", "x.org"), ("Accept", "*/*"), ("Content-Length", "2")],
        b"{}",
        max_head_bytes=1,
    )
    head = b"POST /v1?a=b HTTP/1.1\r\nHost: x.org\r\nAccept: */*\r\nContent-Length: 2\r\n\r\n"
    assert asked.request == head + b"{}"


def test_names_are_lower_case_and_values_have_no_space_around_them() -> None:
    head = parsed(OK + b"Content-Type:  text/html \r\nX-One: a\r\nx-one: b\r\nEmpty:")
    headers = {"content-type": "text/html", "x-one": "a, b", "empty": ""}
    assert head == ResponseHead(200, headers, None, False)


@pytest.mark.parametrize(
    ("line", "rest", "keeps"),
    [
        ("HTTP/1.1 200 OK", "Content-Length: 3", True),
        ("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", True),
        ("HTTP/1.1 200 OK", "X: y", False),
        ("HTTP/1.0 200 OK", "Content-Length: 3", False),
        ("HTTP/1.1 200 OK", "Content-Length: 3\r\nConnection: close", False),
        ("HTTP/1.1 200 OK", "Content-Length: 3\r\nConnection: upgrade", False),
        ("HTTP/1.1 304 Not Modified", "X: y", True),
        ("HTTP/1.1 200", "Content-Length: 0", True),
    ],
)
def test_a_connection_is_kept_if_the_end_of_the_body_is_known(
    line: str, rest: str, keeps: bool
) -> None:
    assert parsed(f"{line}\r\n{rest}".encode()).keeps is keeps


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (OK + b"\r\n".join([b"A: b"] * (MAX_HEADERS + 1)), "more than 100 headers"),
        (OK + b"Content-Length: 3\r\ncontent-length: 3", "two headers content-length"),
        (OK + b"Location: /a\r\nLocation: /b", "two headers location"),
        (OK + b"Location: " + b"a" * 9000, "more than 8192 bytes"),
        (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 3", "both a length and chunks"),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked", "chunks in HTTP/1.0"),
        (OK + b"A: b\r\n folded", "a name, a colon"),
        (OK + b"secret of a server", "h11 does not accept it"),
    ],
)
def test_a_head_with_two_readings_is_refused_for_a_reason_in_our_own_words(
    data: bytes, reason: str
) -> None:
    with pytest.raises(NotRetrieved) as caught:
        parsed(data)
    assert caught.value.failure is Failure.ANSWER
    assert reason in caught.value.message
    assert "secret" not in caught.value.message


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: OK + data))
def test_any_bytes_are_a_head_or_refused(data: bytes) -> None:
    try:
        head = heads(data)
    except NotRetrieved as exc:
        assert exc.failure is Failure.ANSWER
    except ResponseCut:
        pass
    else:
        assert all("\r" not in value and "\n" not in value for value in head.headers.values())


@pytest.mark.parametrize(
    ("head", "body", "wanted"),
    [
        (sized(5), b"hello", b"hello"),
        (sized(0), b"", b""),
        (PLAIN, b"hello", b"hello"),
        (CHUNKED, b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n", b"hello"),
        (CHUNKED, b"00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", b"0123456789"),
        (CHUNKED, b"0\r\n\r\n", b""),
        (sized(1000), b"x" * 1000, b"x" * 1000),
        (sized(5) + "\r\nContent-Encoding: identity", b"hello", b"hello"),
    ],
)
def test_a_whole_body_is_read(head: str, body: bytes, wanted: bytes) -> None:
    assert read(head, body) == wanted


@pytest.mark.parametrize(
    ("head", "body", "why"),
    [
        (sized(6), b"hello", Failure.CUT),
        (sized(4), b"hello", Failure.CUT),
        (CHUNKED, b"5\r\nhel", Failure.CUT),
        (CHUNKED, b"5\r\nhello\r\n", Failure.CUT),
        (CHUNKED, b"5\r\nhello\r\n0\r\n", Failure.CUT),
        (CHUNKED, b"4\r\nhello\r\n0\r\n\r\n", Failure.ANSWER),
        (CHUNKED, b"5\nhello\n0\n\n" + b" " * 2000, Failure.ANSWER),
        (CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n", Failure.ANSWER),
        (CHUNKED, b"0x5\r\nhello\r\n0\r\n\r\n", Failure.ANSWER),
        (CHUNKED, b"\r\nhello", Failure.ANSWER),
        (CHUNKED, b"5;" + b"x" * 2000 + b"\r\nhello\r\n0\r\n\r\n", Failure.ANSWER),
        (CHUNKED, b"0\r\n" + b"A: b\r\n" * 400 + b"\r\n", Failure.ANSWER),
        (CHUNKED, b"5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", Failure.CUT),
        (sized(1001), b"x" * 1001, Failure.TOO_LARGE),
        (sized(10**15), b"", Failure.TOO_LARGE),
        (PLAIN, b"x" * 1001, Failure.TOO_LARGE),
        (CHUNKED, b"ffffffff\r\n", Failure.CUT),  # h11 does not tell what a chunk announces
        (CHUNKED, b"ffffffff\r\n" + b"x" * 1001, Failure.TOO_LARGE),
        (CHUNKED, b"1f4\r\n%b\r\n1f5\r\n%b" % (b"x" * 500, b"x" * 501), Failure.TOO_LARGE),
        (sized(5) + "\r\nContent-Encoding: gzip", b"\x1f\x8b\x08\0\0", Failure.ENCODED),
        (sized(5) + "\r\nContent-Encoding: br", b"hello", Failure.ENCODED),
    ],
)
def test_a_body_that_is_not_what_was_announced_is_refused(
    head: str, body: bytes, why: Failure
) -> None:
    with pytest.raises(NotRetrieved) as caught:
        read(head, body)
    assert caught.value.failure is why


def test_an_endless_body_is_read_to_its_bound_and_no_further() -> None:
    with said(PLAIN, b"x" * 10_000_000) as (stream, asked):
        with pytest.raises(NotRetrieved) as caught:
            asked.body(stream, most=100_000, deadline=Deadline(10))
        assert caught.value.failure is Failure.TOO_LARGE
        assert stream.received < 1_000_000


@pytest.mark.parametrize("head", [sized(100), CHUNKED, PLAIN])
def test_a_server_that_falls_silent_uses_up_the_time_of_the_question(head: str) -> None:
    with said(head, b"1", ends=False) as (stream, asked), pytest.raises(NotRetrieved) as caught:
        asked.body(stream, most=1000, deadline=Deadline(0.2))
    assert caught.value.failure is Failure.DEADLINE


def test_bytes_now_and_then_do_not_make_the_time_longer() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream, deadline, asked = ByteStream(ours), Deadline(0.3), exchange()
        theirs.sendall(f"{sized(1000)}\r\n\r\n".encode())
        asked.head(stream, deadline)
        over = threading.Event()

        def drip() -> None:
            while not over.wait(0.02):
                theirs.send(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(NotRetrieved) as caught:
            asked.body(stream, most=1000, deadline=deadline)
        over.set()
        thread.join()
    assert caught.value.failure is Failure.DEADLINE
    assert stream.received > len(sized(1000)) + 4, "control: it did drip"


def test_what_is_said_before_the_answer_is_passed_over_and_counts() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    answer = b"HTTP/1.1 204 No Content\r\n\r\n"
    assert heads(early + answer).status == 204
    with pytest.raises(NotRetrieved, match="longer than policy allows"):
        heads(early * 4 + answer, most=100)
    with pytest.raises(NotRetrieved, match="longer than policy allows"):
        heads(early * 5 + answer, most=10_000)
    with pytest.raises(NotRetrieved, match="h11 does not accept it"):
        heads(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")


def test_a_head_is_read_to_its_bound_and_no_further() -> None:
    answer = b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100 + b"\r\n\r\n"
    assert heads(answer, most=len(answer)).status == 200
    with pytest.raises(NotRetrieved, match="longer than policy allows"):
        heads(answer, most=len(answer) - 1)
    with pytest.raises(ConnectionLost):
        heads(answer[:-1])


@pytest.mark.parametrize("ending", [b"", ConnectionResetError()])
def test_a_connection_that_ends_when_the_time_is_up_was_too_slow(ending: bytes | OSError) -> None:
    """The proxy ends tunnels after the same time; whichever is seen first, the reason is one."""

    class Late:
        def settimeout(self, seconds: float) -> None:
            self.seconds = seconds

        def recv(self, _: int) -> bytes:
            threading.Event().wait(self.seconds + 0.02)  # seen only once somebody looks
            if isinstance(ending, OSError):
                raise ending
            return ending

    late: Any = Late()
    with pytest.raises(NotRetrieved) as caught:
        ByteStream(late).receive(Deadline(0.05))
    assert caught.value.failure is Failure.DEADLINE
