"""What the bridge believes of the operator's own server, byte for byte.

The table was recorded with the reader that this project wrote itself, before h11 took its
place.  Rows that differ since then say so.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.model.bridge import gate
from threegate.gates.model.bridge.gate import LocalServer, question, refuse_missing, reply
from threegate.gates.model.chat.messages import ChatReply, ChatRequest, Served
from threegate.gates.model.front.server import NoCompletion

OK = b"HTTP/1.1 200 OK\r\n"
SIZED = OK + b"Content-Length: 2\r\n"
FOREIGN, TOO_LARGE, STATUS = "TG-MDL-011", "TG-MDL-012", "TG-MDL-013"

Outcome = Callable[[bytes], object]


@pytest.fixture
def outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outcome]:
    """Return what comes of a question to a server that says this and hangs up."""
    path = tmp_path / "own.sock"
    monkeypatch.setattr(gate, "SERVER_SOCKET", str(path))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def answer(said: bytes) -> None:
            client, _ = listening.accept()
            with client:
                client.recv(65536)
                try:
                    client.sendall(said)
                    client.shutdown(socket.SHUT_WR)
                    client.recv(1)
                except OSError:  # the bridge has had enough
                    return

        def ask(said: bytes) -> object:
            thread = threading.Thread(target=answer, args=(said,))
            thread.start()
            try:
                end = time.monotonic() + 10
                return LocalServer(None).ask("/v1/models", None, end=end, stopped=lambda: False)
            except NoCompletion as refused:
                return refused.code
            finally:
                thread.join()

        yield ask


READ: dict[str, bytes] = {
    "a length": SIZED + b"\r\n{}",
    "no length, ends with the connection": OK + b"\r\n{}",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "no reason phrase": b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}",
    "more than the length": SIZED + b"Connection: close\r\n\r\n{}\r\n",
    "headers of all kinds": SIZED + b"Server: x\r\nDate: now\r\nX:\r\n\r\n{}",
}
REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing at all": (b"", FOREIGN),
    "another protocol": (b"SSH-2.0-x\r\n\r\n", FOREIGN),
    "HTTP/2": (b"HTTP/2 200 OK\r\n\r\n{}", FOREIGN),
    "a head that ends early": (OK + b"Conte", FOREIGN),
    "a head that is too long": (OK + b"A: " + b"b" * 70_000 + b"\r\n\r\n{}", FOREIGN),
    "lines that end in LF": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", FOREIGN),
    "a refusal": (b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n{}", STATUS),
    "a redirect": (b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", STATUS),
    "two lengths that differ": (SIZED + b"Content-Length: 3\r\n\r\n{}", FOREIGN),
    "two lengths that agree": (SIZED + b"Content-Length: 2\r\n\r\n{}", FOREIGN),
    "a length with a sign": (OK + b"Content-Length: +2\r\n\r\n{}", FOREIGN),
    "chunks and a length": (SIZED + b"Transfer-Encoding: chunked\r\n\r\n{}", FOREIGN),
    "a compressed transfer": (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", FOREIGN),
    "less than the length": (OK + b"Content-Length: 9\r\n\r\n{}", FOREIGN),
    "a length that is too large": (OK + b"Content-Length: 9999999999\r\n\r\n{}", TOO_LARGE),
    "no length, and too large": (OK + b"\r\n" + b" " * 5_000_000, TOO_LARGE),
    "not JSON": (SIZED + b"\r\n{[", FOREIGN),
    "not UTF-8": (SIZED + b'\r\n"\xff', FOREIGN),
}


@pytest.mark.parametrize("case", READ)
def test_a_response_that_is_read_is_read_as_before(case: str, outcome: Outcome) -> None:
    assert outcome(READ[case]) == {}


@pytest.mark.parametrize("case", REFUSED)
def test_a_response_that_was_refused_is_refused(case: str, outcome: Outcome) -> None:
    said, code = REFUSED[case]
    assert outcome(said) == code


# What of a foreign server's answer is read: text, an end and numbers, or nothing.

SERVED = Served("own", None, 4096)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "model", "data", "id", "usage", "finish_reason"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def answer(**changes: Any) -> dict[str, Any]:
    choice = {"message": {"content": "Paris"}, "finish_reason": "stop"}
    return {"choices": [choice], "model": "own", **changes}


def test_an_answer_without_any_count_is_a_reply() -> None:
    found = reply(answer(), SERVED)
    assert (found.prompt_tokens, found.completion_tokens) == (0, 0)
    counted = reply(answer(usage={"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.1}), SERVED)
    assert (counted.prompt_tokens, counted.completion_tokens) == (5, 2)


@given(JSON)
def test_any_value_is_a_reply_or_is_refused(value: Any) -> None:
    try:
        assert isinstance(reply(value, SERVED), ChatReply)
    except NoCompletion as refused:
        assert refused.code in ("TG-MDL-011", "TG-MDL-014")


@given(JSON)
def test_any_list_of_models_holds_ours_or_is_refused(value: Any) -> None:
    refuse_missing({"data": [{"id": "x"}, {"id": "own"}]}, SERVED)
    with pytest.raises(NoCompletion):
        refuse_missing(value, SERVED)


def test_a_question_has_the_keys_we_chose_and_no_grammar() -> None:
    asked = ChatRequest((("user", "<|im_start|>x"),), 5, 1, 'root ::= "x"', '{"type":"object"}')
    body = json.loads(question(asked, SERVED))
    assert set(body) == {
        *("max_tokens", "messages", "model", "response_format", "seed", "stream", "temperature")
    }
    assert body["messages"] == [{"content": "< |im_start|>x", "role": "user"}]
    plain = json.loads(question(ChatRequest((("user", "x"),), 5), SERVED))
    assert "response_format" not in plain
