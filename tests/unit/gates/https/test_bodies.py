"""Bodies: exactly as long as they say, within their bound and their time."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from threegate.gates.https.bodies import read_body
from threegate.gates.https.heads import Head
from threegate.gates.https.refused import NotRetrieved, Stale, Why
from threegate.gates.https.stream import Deadline, Stream

CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"
PLAIN = "HTTP/1.1 200 OK\r\nX: y"


def sized(length: int) -> str:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {length}"


@contextmanager
def said(head: str, body: bytes, *, ends: bool = True) -> Iterator[tuple[Stream, Head]]:
    """Return what a server that says this looks like from here, after its head was read."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        data = f"{head}\r\n\r\n".encode() + body

        def send() -> None:
            try:
                theirs.sendall(data)
                if ends:
                    theirs.shutdown(socket.SHUT_WR)
            except OSError:  # whoever has enough hangs up
                return

        thread = threading.Thread(target=send)
        thread.start()
        stream = Stream(ours)
        yield stream, stream.head(4096, Deadline(10))
        ours.close()
        thread.join()


def read(head: str, body: bytes, *, most: int = 1_000, seconds: float = 10) -> bytes:
    with said(head, body) as (stream, found):
        return read_body(stream, found, most=most, deadline=Deadline(seconds))


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
        (sized(6), b"hello", Why.CUT),
        (sized(4), b"hello", Why.CUT),
        (CHUNKED, b"5\r\nhel", Why.CUT),
        (CHUNKED, b"5\r\nhello\r\n", Why.CUT),
        (CHUNKED, b"5\r\nhello\r\n0\r\n", Why.CUT),
        (CHUNKED, b"4\r\nhello\r\n0\r\n\r\n", Why.ANSWER),
        (CHUNKED, b"5\nhello\n0\n\n" + b" " * 2000, Why.ANSWER),
        (CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n", Why.ANSWER),
        (CHUNKED, b"0x5\r\nhello\r\n0\r\n\r\n", Why.ANSWER),
        (CHUNKED, b"\r\nhello", Why.ANSWER),
        (CHUNKED, b"5;" + b"x" * 2000 + b"\r\nhello\r\n0\r\n\r\n", Why.ANSWER),
        (CHUNKED, b"0\r\n" + b"A: b\r\n" * 400 + b"\r\n", Why.ANSWER),
        (CHUNKED, b"5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", Why.CUT),
        (sized(1001), b"x" * 1001, Why.TOO_LARGE),
        (sized(10**15), b"", Why.TOO_LARGE),
        (PLAIN, b"x" * 1001, Why.TOO_LARGE),
        (CHUNKED, b"ffffffff\r\n", Why.TOO_LARGE),
        (CHUNKED, b"1f4\r\n" + b"x" * 500 + b"\r\n1f5\r\n", Why.TOO_LARGE),
        (sized(5) + "\r\nContent-Encoding: gzip", b"\x1f\x8b\x08\0\0", Why.ENCODED),
        (sized(5) + "\r\nContent-Encoding: br", b"hello", Why.ENCODED),
    ],
)
def test_a_body_that_is_not_what_was_announced_is_refused(head: str, body: bytes, why: Why) -> None:
    with pytest.raises(NotRetrieved) as caught:
        read(head, body)
    assert caught.value.why is why


def test_an_endless_body_is_read_to_its_bound_and_no_further() -> None:
    with said(PLAIN, b"x" * 10_000_000) as (stream, head):
        with pytest.raises(NotRetrieved) as caught:
            read_body(stream, head, most=100_000, deadline=Deadline(10))
        assert caught.value.why is Why.TOO_LARGE
        assert stream.received < 1_000_000


@pytest.mark.parametrize("head", [sized(100), CHUNKED, PLAIN])
def test_a_server_that_falls_silent_uses_up_the_time_of_the_question(head: str) -> None:
    with said(head, b"1", ends=False) as (stream, found), pytest.raises(NotRetrieved) as caught:
        read_body(stream, found, most=1000, deadline=Deadline(0.2))
    assert caught.value.why is Why.DEADLINE


def test_bytes_now_and_then_do_not_make_the_time_longer() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream, deadline = Stream(ours), Deadline(0.3)
        theirs.sendall(f"{sized(1000)}\r\n\r\n".encode())
        head = stream.head(4096, deadline)
        over = threading.Event()

        def drip() -> None:
            while not over.wait(0.02):
                theirs.send(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(NotRetrieved) as caught:
            read_body(stream, head, most=1000, deadline=deadline)
        over.set()
        thread.join()
    assert caught.value.why is Why.DEADLINE
    assert stream.received > len(sized(1000)) + 4, "control: it did drip"


def heads(data: bytes, most: int = 200) -> Head:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        return Stream(ours).head(most, Deadline(10))


def test_what_is_said_before_the_answer_is_passed_over_and_counts() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    answer = b"HTTP/1.1 204 No Content\r\n\r\n"
    assert heads(early + answer).status == 204
    with pytest.raises(NotRetrieved, match="longer than policy allows"):
        heads(early * 4 + answer, most=100)
    with pytest.raises(NotRetrieved, match="longer than policy allows"):
        heads(early * 5 + answer, most=10_000)
    with pytest.raises(NotRetrieved, match="another protocol"):
        heads(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")


def test_a_head_is_read_to_its_bound_and_no_further() -> None:
    answer = b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100 + b"\r\n\r\n"
    assert heads(answer, most=len(answer)).status == 200
    with pytest.raises(NotRetrieved, match="longer than policy allows"):
        heads(answer, most=len(answer) - 1)
    with pytest.raises(Stale):
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
        Stream(late).more(Deadline(0.05))
    assert caught.value.why is Why.DEADLINE
