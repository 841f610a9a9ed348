"""The head of a request: one form, and every other is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.model.chat.messages import COMPLETIONS, MAX_CHAT_BYTES, MODELS
from threegate.gates.model.front.refused import Refused
from threegate.gates.model.front.request import Head, parse_head, response

POST = b"POST /v1/chat/completions HTTP/1.1"
FIELDS = (b"Host: model", b"Content-Type: application/json", b"Content-Length: 12")


def head(*lines: bytes) -> bytes:
    return b"\r\n".join(lines)


def test_the_two_requests_there_are() -> None:
    assert parse_head(head(POST, *FIELDS)) == Head(COMPLETIONS, 12)
    assert parse_head(head(POST, b"HOST: MODEL", *FIELDS[1:])).length == 12
    assert parse_head(b"GET /v1/models HTTP/1.1") == Head(MODELS, 0)
    fuller = head(b"GET /v1/models HTTP/1.1", b"Accept-Encoding: identity")
    assert parse_head(fuller) == Head(MODELS, 0)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ((b"GET /v1/chat/completions HTTP/1.1",), "TG-MDL-002"),
        ((b"POST /v1/models HTTP/1.1", *FIELDS), "TG-MDL-002"),
        ((b"GET /v1/models/ HTTP/1.1",), "TG-MDL-002"),
        ((b"GET /v1/models?a HTTP/1.1",), "TG-MDL-002"),
        ((b"GET /../v1/models HTTP/1.1",), "TG-MDL-002"),
        ((b"GET http://x/v1/models HTTP/1.1",), "TG-MDL-001"),
        ((b"PUT /v1/models HTTP/1.1",), "TG-MDL-001"),
        ((b"GET /v1/models HTTP/1.0",), "TG-MDL-001"),
        ((b"GET  /v1/models HTTP/1.1",), "TG-MDL-001"),
        ((b"GET /v1/models HTTP/1.1", b"Content-Length: 4"), "TG-MDL-001"),
        ((POST, *FIELDS, b"Content-Length: 12"), "TG-MDL-001"),
        ((POST, *FIELDS, b"Transfer-Encoding: chunked"), "TG-MDL-001"),
        ((POST, *FIELDS, b"Expect: 100-continue"), "TG-MDL-001"),
        ((POST, *FIELDS, b"Upgrade: websocket"), "TG-MDL-001"),
        ((POST, *FIELDS, b" folded"), "TG-MDL-001"),
        ((POST, *FIELDS, b"Host : x"), "TG-MDL-001"),
        ((POST, FIELDS[0], FIELDS[1], b"Content-Length: +12"), "TG-MDL-001"),
        ((POST, FIELDS[0], FIELDS[1], b"Content-Length: 012"), "TG-MDL-001"),
        ((POST, FIELDS[0], FIELDS[1], b"Content-Length: 12\n"), "TG-MDL-001"),
        ((POST, FIELDS[0], FIELDS[1]), "TG-MDL-001"),
        ((POST, FIELDS[0], FIELDS[2]), "TG-MDL-001"),
        ((POST, FIELDS[2], b"Content-Type: text/plain"), "TG-MDL-001"),
        ((POST, FIELDS[1], b"Content-Length: %d" % (MAX_CHAT_BYTES + 1)), "TG-MDL-003"),
    ],
)
def test_every_other_form_is_refused(lines: tuple[bytes, ...], code: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_head(head(*lines))
    assert caught.value.code == code
    assert caught.value.status in (400, 404, 413)


LINES = st.lists(st.sampled_from([POST, b"", *FIELDS]) | st.binary(max_size=40), max_size=6)


@given(LINES)
def test_any_bytes_are_a_head_or_are_refused(lines: list[bytes]) -> None:
    try:
        found = parse_head(head(*lines))
    except Refused:
        return
    assert found.path in (COMPLETIONS, MODELS)
    assert 0 <= found.length <= MAX_CHAT_BYTES


def test_a_refusal_has_our_words_only_and_every_answer_ends_the_connection() -> None:
    with pytest.raises(Refused) as caught:
        parse_head(b"GET /secret-of-somebody HTTP/1.1")
    assert b"secret" not in caught.value.body()
    answer = response(404, caught.value.body())
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.endswith(caught.value.body())
