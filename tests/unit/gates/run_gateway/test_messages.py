"""Messages of a gateway: one spelling, and nothing else is one."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.run_gateway.messages import (
    REFUSALS,
    GatewayNote,
    GatewayOpened,
    GatewayOpening,
    parse_note,
    parse_opened,
    parse_opening,
    parse_request,
)

OPENING = GatewayOpening(
    channel_fd=12,
    hosts=("api.example.org",),
    methods=("GET", "POST"),
    up_bytes=10,
    down_bytes=20,
    requests=3,
    seconds=30,
    anchors=(("system", None), ("ab" * 32, b"a certificate")),
    key="0" * 32,
    marks=((8, 97, "1" * 32), (9, 98, "2" * 32)),
    places=dict.fromkeys(REFUSALS, "policy/tool-exec.policy.md:7"),
)
ASK = b'{"headers":{"Accept":"*/*"},"line":3,"method":"GET","url":"https://api.example.org/"}'
TOLD = GatewayNote(20, "api.example.org", 3, "GET", "", 10)


def test_an_opening_has_one_spelling() -> None:
    assert parse_opening(Untrusted(OPENING.to_bytes())) == OPENING


@pytest.mark.parametrize(
    "change",
    [
        {"channel_fd": 3},
        {"hosts": ()},
        {"hosts": ("API.example.org",)},
        {"hosts": ("a.example.org",) * 33},
        {"methods": ("DELETE",)},
        {"up_bytes": 2**24 + 1},
        {"down_bytes": -1},
        {"requests": True},
        {"seconds": 0},
        {"anchors": ()},
        {"anchors": (("other", None),)},
        {"key": "0"},
        {"marks": ((0, 97, "1" * 32),)},
        {"marks": ((8, 256, "1" * 32),)},
        {"marks": ((8, 97, "1"),)},
        {"places": {}},
        {"places": dict.fromkeys(REFUSALS, "nowhere")},
    ],
    ids=str,
)
def test_an_opening_out_of_bounds_is_none(change: dict[str, Any]) -> None:
    with pytest.raises(ProtocolBroken):
        replace(OPENING, **change)


def test_an_answer_and_a_note_have_one_spelling() -> None:
    parse_opened(Untrusted(GatewayOpened().to_bytes()))
    assert parse_note(Untrusted(TOLD.to_bytes())) == TOLD
    assert parse_request(Untrusted(ASK)).url == "https://api.example.org/"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b" " + ASK,
        ASK.replace(b'"line":3,', b""),
        ASK.replace(b"3", b"-3"),
        ASK.replace(b'"GET"', b'"GET /x HTTP/1.1"'),
        ASK.replace(b'"Accept"', b'"Acc ept"'),
        ASK.replace(b"*/*", b"a\\r\\nHost: x"),
        ASK.replace(b'{"Accept":"*/*"}', b"[]"),
        ASK.replace(b'"https://api.example.org/"', b"7"),
        b"[" * 100_000,
    ],
)
def test_other_bytes_are_no_ask(data: bytes) -> None:
    with pytest.raises(ProtocolBroken):
        parse_request(Untrusted(data))


@pytest.mark.parametrize(
    "change",
    [{"reason": "because"}, {"down": -1}, {"host": "a\nb"}, {"method": ""}, {"line": 2**30}],
    ids=str,
)
def test_a_note_out_of_bounds_is_none(change: dict[str, Any]) -> None:
    with pytest.raises(ProtocolBroken):
        replace(TOLD, **change)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for parse in (parse_request, parse_note, parse_opening):
        try:
            parse(Untrusted(data))
        except ProtocolBroken:
            continue
