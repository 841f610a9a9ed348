"""Responses of servers, byte for byte: which are read, as what, and why the others are refused.

The table was recorded with the reader that this project wrote itself, before h11 took its
place.  A row that changes is a change in what a gate believes of a foreign server.
"""

import socket
import threading

import pytest

from threegate.gates.https.bodies import read_body
from threegate.gates.https.refused import NotRetrieved, Stale, Why
from threegate.gates.https.stream import Deadline, Stream

MOST_HEAD, MOST_BODY = 4096, 1000
OK = b"HTTP/1.1 200 OK\r\n"
SIZED = OK + b"Content-Length: 5\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"


def outcome(said: bytes, method: str = "GET") -> tuple[int, bytes] | Why:
    """Return status and body of what a server says before it hangs up, or why it is refused."""
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def say() -> None:
            try:
                theirs.sendall(said)
                theirs.shutdown(socket.SHUT_WR)
            except OSError:  # the reader has had enough
                return

        thread = threading.Thread(target=say)
        thread.start()
        stream, deadline = Stream(ours), Deadline(10)
        try:
            head = stream.head(MOST_HEAD, deadline)
            if method == "HEAD" or head.status in (204, 304):
                return head.status, b""
            body = read_body(stream, head, most=MOST_BODY, deadline=deadline)
        except NotRetrieved as exc:
            return exc.why
        except Stale:
            return Why.CUT
        else:
            return head.status, body
        finally:
            ours.close()
            thread.join()


READ: dict[str, tuple[bytes, tuple[int, bytes]]] = {
    "a length": (SIZED + b"\r\nhello", (200, b"hello")),
    "a length of nothing": (OK + b"Content-Length: 0\r\n\r\n", (200, b"")),
    "no length, ends with the connection": (OK + b"\r\nhello", (200, b"hello")),
    "HTTP/1.0 and its end": (b"HTTP/1.0 200 OK\r\n\r\nhello", (200, b"hello")),
    "HTTP/1.0 and a length": (
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        (200, b"hello"),
    ),
    "no reason phrase": (b"HTTP/1.1 404\r\nContent-Length: 2\r\n\r\nno", (404, b"no")),
    "an empty reason phrase": (b"HTTP/1.1 404 \r\nContent-Length: 2\r\n\r\nno", (404, b"no")),
    "a reason phrase beyond ASCII": (b"HTTP/1.1 200 \xe4\r\n\r\nhello", (200, b"hello")),
    "names in any case": (OK + b"cOnTeNt-LeNgTh:5\r\n\r\nhello", (200, b"hello")),
    "space around a value": (OK + b"Content-Length: \t 5 \t\r\n\r\nhello", (200, b"hello")),
    "a value beyond ASCII": (SIZED + b"X: \xc3\xa4\r\n\r\nhello", (200, b"hello")),
    "an empty value": (SIZED + b"X:\r\n\r\nhello", (200, b"hello")),
    "two of a header that is a list": (SIZED + b"X: a\r\nX: b\r\n\r\nhello", (200, b"hello")),
    "no encoding": (SIZED + b"Content-Encoding: identity\r\n\r\nhello", (200, b"hello")),
    "more behind the last answer of a connection": (
        SIZED + b"Connection: close\r\n\r\nhello!",
        (200, b"hello"),
    ),
    "hints before the answer": (EARLY * 2 + SIZED + b"\r\nhello", (200, b"hello")),
    "chunks": (CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", (200, b"hello")),
    "chunks, announced in capitals": (
        OK + b"Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        (200, b"hello"),
    ),
    "a chunk with leading zeros": (CHUNKED + b"00005\r\nhello\r\n0\r\n\r\n", (200, b"hello")),
    "a chunk with an extension": (CHUNKED + b"5;a=b\r\nhello\r\n0\r\n\r\n", (200, b"hello")),
    "a chunk size and a space": (CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n", (200, b"hello")),
    "a last chunk of many zeros": (CHUNKED + b"5\r\nhello\r\n000\r\n\r\n", (200, b"hello")),
    "a trailer, which is dropped": (CHUNKED + b"5\r\nhello\r\n0\r\nA: b\r\n\r\n", (200, b"hello")),
    "not changed": (b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", (304, b"")),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
    "as long as it may be": (
        OK + b"Content-Length: 1000\r\n\r\n" + b"x" * 1000,
        (200, b"x" * 1000),
    ),
}

REFUSED: dict[str, tuple[bytes, Why]] = {
    # the first line
    "nothing at all": (b"", Why.CUT),
    "an empty line": (b"\r\n\r\n", Why.ANSWER),
    "an empty line before the head": (b"\r\n" + SIZED + b"\r\nhello", Why.ANSWER),
    "another protocol": (b"SSH-2.0-x\r\n\r\n", Why.ANSWER),
    "HTTP/0.9": (b"<html>\r\n\r\n", Why.ANSWER),
    "HTTP/2": (b"HTTP/2 200 OK\r\n\r\n", Why.ANSWER),
    "HTTP/2.0": (b"HTTP/2.0 200 OK\r\n\r\n", Why.ANSWER),
    "HTTP/1.2": (b"HTTP/1.2 200 OK\r\n\r\n", Why.ANSWER),
    "a lower-case protocol": (b"http/1.1 200 OK\r\n\r\n", Why.ANSWER),
    "a status of four digits": (b"HTTP/1.1 2000 OK\r\n\r\n", Why.ANSWER),
    "a status nobody defined": (b"HTTP/1.1 700 OK\r\n\r\n", Why.ANSWER),
    "a status below 100": (b"HTTP/1.1 099 OK\r\n\r\n", Why.ANSWER),
    "two spaces": (b"HTTP/1.1  200 OK\r\n\r\n", Why.ANSWER),
    "a control character in the reason": (b"HTTP/1.1 200 \x1b[2J\r\n\r\n", Why.ANSWER),
    "a NUL in the reason": (b"HTTP/1.1 200 O\0K\r\n\r\n", Why.ANSWER),
    "another protocol from now on": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        Why.ANSWER,
    ),
    # lines and headers
    "a head that ends early": (OK + b"Conte", Why.CUT),
    "lines that end in LF": (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello\r\n\r\n", Why.ANSWER),
    "one line that ends in LF": (OK + b"A: b\nContent-Length: 5\r\n\r\nhello", Why.ANSWER),
    "an LF inside a value": (SIZED + b"A: b\nB: c\r\n\r\nhello", Why.ANSWER),
    "a CR inside a value": (SIZED + b"A: b\rB: c\r\n\r\nhello", Why.ANSWER),
    "a folded line": (SIZED + b"A: b\r\n c\r\n\r\nhello", Why.ANSWER),
    "a folded first header": (OK + b" A: b\r\n\r\nhello", Why.ANSWER),
    "no colon": (SIZED + b"no colon\r\n\r\nhello", Why.ANSWER),
    "a space before the colon": (OK + b"Content-Length : 5\r\n\r\nhello", Why.ANSWER),
    "no name": (SIZED + b": b\r\n\r\nhello", Why.ANSWER),
    "a name beyond ASCII": (SIZED + b"\xc3\xa4: b\r\n\r\nhello", Why.ANSWER),
    "a name that never ends": (SIZED + b"A" * 201 + b": b\r\n\r\nhello", Why.ANSWER),
    "a NUL in a value": (SIZED + b"A: \0\r\n\r\nhello", Why.ANSWER),
    "a control character in a value": (SIZED + b"A: \x01\r\n\r\nhello", Why.ANSWER),
    "a DEL in a value": (SIZED + b"A: \x7f\r\n\r\nhello", Why.ANSWER),
    "too many headers": (OK + b"A: b\r\n" * 101 + b"\r\nhello", Why.ANSWER),
    "a head that is too long": (OK + b"A: " + b"b" * 5000 + b"\r\n\r\nhello", Why.ANSWER),
    "too many hints": (EARLY * 5 + SIZED + b"\r\nhello", Why.ANSWER),
    "hints without end": (EARLY * 1000, Why.ANSWER),
    # where the body ends
    "two lengths that differ": (SIZED + b"Content-Length: 6\r\n\r\nhello", Why.ANSWER),
    "two lengths that agree": (SIZED + b"Content-Length: 5\r\n\r\nhello", Why.ANSWER),
    "a list of lengths": (OK + b"Content-Length: 5, 5\r\n\r\nhello", Why.ANSWER),
    "a negative length": (OK + b"Content-Length: -5\r\n\r\nhello", Why.ANSWER),
    "a length with a sign": (OK + b"Content-Length: +5\r\n\r\nhello", Why.ANSWER),
    "a length with a zero before it": (OK + b"Content-Length: 05\r\n\r\nhello", Why.ANSWER),
    "a hexadecimal length": (OK + b"Content-Length: 0x5\r\n\r\nhello", Why.ANSWER),
    "a length with an underscore": (OK + b"Content-Length: 1_0\r\n\r\nhellohello", Why.ANSWER),
    "an empty length": (OK + b"Content-Length:\r\n\r\nhello", Why.ANSWER),
    "a length of nineteen digits": (OK + b"Content-Length: " + b"9" * 19 + b"\r\n\r\n", Why.ANSWER),
    "a length and chunks": (
        SIZED + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Why.ANSWER,
    ),
    "chunks and a length": (
        CHUNKED[:-2] + b"Content-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Why.ANSWER,
    ),
    "two transfer codings": (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", Why.ANSWER),
    "chunks, twice": (CHUNKED[:-2] + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Why.ANSWER),
    "no transfer coding": (OK + b"Transfer-Encoding: identity\r\n\r\nhello", Why.ANSWER),
    "an unknown transfer coding": (OK + b"Transfer-Encoding: xchunked\r\n\r\n", Why.ANSWER),
    "an obscured transfer coding": (OK + b"Transfer-Encoding: \x0bchunked\r\n\r\n", Why.ANSWER),
    # headers that are believed, and may have one value
    "two locations": (SIZED + b"Location: /a\r\nLocation: /b\r\n\r\nhello", Why.ANSWER),
    "two content types": (
        SIZED + b"Content-Type: a/b\r\nContent-Type: c/d\r\n\r\nhello",
        Why.ANSWER,
    ),
    "two ETags": (SIZED + b"ETag: a\r\nETag: b\r\n\r\nhello", Why.ANSWER),
    # bodies with a length, or none
    "less than the length": (OK + b"Content-Length: 6\r\n\r\nhello", Why.CUT),
    "more than the length": (OK + b"Content-Length: 4\r\n\r\nhello", Why.CUT),
    "a second answer": (SIZED + b"\r\nhello" + SIZED + b"\r\nhello", Why.CUT),
    "a length that is too large": (OK + b"Content-Length: 1001\r\n\r\n", Why.TOO_LARGE),
    "a length that is far too large": (OK + b"Content-Length: 999999999999\r\n\r\n", Why.TOO_LARGE),
    "no length, and too large": (OK + b"\r\n" + b"x" * 1001, Why.TOO_LARGE),
    "compressed": (SIZED + b"Content-Encoding: gzip\r\n\r\nhello", Why.ENCODED),
    # bodies in chunks
    "a chunk that ends early": (CHUNKED + b"5\r\nhel", Why.CUT),
    "no last chunk": (CHUNKED + b"5\r\nhello\r\n", Why.CUT),
    "no end of the trailer": (CHUNKED + b"5\r\nhello\r\n0\r\n", Why.CUT),
    "half an end of the trailer": (CHUNKED + b"5\r\nhello\r\n0\r\n\r", Why.CUT),
    "a chunk longer than its size": (CHUNKED + b"4\r\nhello\r\n0\r\n\r\n", Why.ANSWER),
    "a chunk without its line end": (CHUNKED + b"5\r\nhello0\r\n\r\n", Why.ANSWER),
    "two other bytes for the line end": (CHUNKED + b"5\r\nhelloXX0\r\n\r\n", Why.ANSWER),
    "a negative chunk": (CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n", Why.ANSWER),
    "a chunk size with a sign": (CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n", Why.ANSWER),
    "a chunk size with a prefix": (CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n", Why.ANSWER),
    "a chunk size with a space before it": (CHUNKED + b" 5\r\nhello\r\n0\r\n\r\n", Why.ANSWER),
    "no chunk size": (CHUNKED + b"\r\nhello\r\n0\r\n\r\n", Why.ANSWER),
    "an extension without end": (
        CHUNKED + b"5;" + b"x" * 2000 + b"\r\nhello\r\n0\r\n\r\n",
        Why.ANSWER,
    ),
    "an LF in an extension": (CHUNKED + b"5;a\nb\r\nhello\r\n0\r\n\r\n", Why.ANSWER),
    "chunk lines that end in LF": (CHUNKED + b"5\nhello\n0\n\n" + b" " * 2000, Why.ANSWER),
    "a body that ends in LF": (CHUNKED + b"5\r\nhello\r\n0\r\n\n", Why.CUT),
    "a trailer that ends in LF": (CHUNKED + b"5\r\nhello\r\n0\r\nA: b\n\n", Why.CUT),
    "a trailer without end": (CHUNKED + b"0\r\n" + b"A: b\r\n" * 400 + b"\r\n", Why.ANSWER),
    "an answer behind the last chunk": (
        CHUNKED + b"5\r\nhello\r\n0\r\n\r\n" + OK + b"\r\n",
        Why.CUT,
    ),
    "a chunk that is too large": (CHUNKED + b"3e9\r\n" + b"x" * 1001 + b"\r\n", Why.TOO_LARGE),
    "chunks that are too large": (
        CHUNKED + b"1f4\r\n%b\r\n1f5\r\n%b\r\n0\r\n\r\n" % (b"x" * 500, b"x" * 501),
        Why.TOO_LARGE,
    ),
    "a chunk size of nine digits": (CHUNKED + b"100000000\r\n" + b"x" * 2000, Why.ANSWER),
}


@pytest.mark.parametrize("case", READ)
def test_a_response_that_is_read_is_read_as_before(case: str) -> None:
    said, wanted = READ[case]
    assert outcome(said) == wanted


@pytest.mark.parametrize("case", REFUSED)
def test_a_response_that_was_refused_is_refused(case: str) -> None:
    said, why = REFUSED[case]
    assert outcome(said) is why


def test_the_body_that_an_answer_to_head_announces_is_not_waited_for() -> None:
    said = OK + b"Content-Length: 5\r\n\r\n"
    assert outcome(said, "HEAD") == (200, b"")
    assert outcome(said) is Why.CUT, "control: to another question a body belongs"
