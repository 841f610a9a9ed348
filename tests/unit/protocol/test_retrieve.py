"""Messages of fetch-retrieve: any bytes parse or are refused; one spelling each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.artifacts import limits as artifact_limits
from threegate.artifacts.research_packet import GAP_REASONS, TRUST_ANCHOR
from threegate.artifacts.shapes import URL
from threegate.errors import ProtocolBroken
from threegate.policy.leaves import Number
from threegate.policy.limits import MAX_URL_CHARS
from threegate.policy.schema import Group
from threegate.policy.sections.fetch import RECORD
from threegate.protocol import limits, retrieve, tool_lite
from threegate.protocol.retrieve import (
    REASONS,
    Ask,
    Authority,
    Got,
    NotGot,
    Opening,
    Ready,
    Refused,
    parse_answer,
    parse_ask,
    parse_greeting,
    parse_opening,
)
from threegate.untrusted import Untrusted

Message = Opening | Ready | Refused | Ask | Got | NotGot
PARSERS: dict[type, Callable[[Untrusted[bytes]], Message]] = {
    Opening: parse_opening,
    Ready: parse_greeting,
    Refused: parse_greeting,
    Ask: parse_ask,
    Got: parse_answer,
    NotGot: parse_answer,
}
WHERE = "https://api.crossref.org/works/10.5555%2F12345678"
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
ASK = Ask(WHERE, "application/json", 4096)
GOT = Got(
    status=200,
    url=WHERE,
    hops=(("https://doi.org/10.5555/12345678", 302),),
    media_type="application/json",
    read_as="application/json",
    etag='W/"abc"',
    last_modified=DATE,
    retry_after=None,
    limits={"x-rate-limit-limit": "50", "x-rate-limit-interval": "1s"},
    trust_anchor="system",
    body=b"\x00{}",
)
NOT_GOT = NotGot("TG-FET-007", "timed-out", "no answer within 90 seconds", WHERE, GOT.hops, 7, 503)
SAMPLES: tuple[Message, ...] = (
    Opening(b"{}"),
    Opening(b"{}", (b"-----BEGIN", b"x")),
    Ready({"ada": "2.9", "threegate": "0.1"}),
    Refused("TG-POL-002", "the policy cannot be read"),
    ASK,
    replace(ASK, etag='"x"', last_modified=DATE, credential="Bearer abc"),
    replace(ASK, authority=Authority(b"request", b"approval", b"")),
    GOT,
    replace(GOT, status=304, body=b"", trust_anchor="a" * 64),
    NOT_GOT,
    NotGot("TG-FET-001", "denied", "not an https:// URL", None, ()),
)


def again(message: Message) -> Message:
    return PARSERS[type(message)](Untrusted(message.to_bytes()))


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_message_comes_back_with_the_same_bytes(message: Message) -> None:
    assert again(message) == message
    assert again(message).to_bytes() == message.to_bytes()


@given(st.binary())
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    for parse in PARSERS.values():
        with pytest.raises(ProtocolBroken):  # no message is this short and this random
            parse(Untrusted(data))


@given(st.sampled_from(SAMPLES), st.data())
def test_a_damaged_message_is_refused_or_spelled_the_same(sample: Message, data: Any) -> None:
    raw = bytearray(sample.to_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    kind = data.draw(st.sampled_from(["change", "cut", "insert"]))
    if kind == "change":
        raw[at] = data.draw(st.integers(0, 255))
    elif kind == "cut":
        del raw[at:]
    else:
        raw[at:at] = data.draw(st.binary(min_size=1, max_size=5))
    try:
        parsed = PARSERS[type(sample)](Untrusted(bytes(raw)))
    except ProtocolBroken as exc:
        assert exc.code == "TG-PRO-001"
    else:
        assert parsed.to_bytes() == bytes(raw)


def test_a_message_of_another_protocol_is_none_of_this() -> None:
    assert parse_opening(Untrusted(Opening(b"{}").to_bytes())) == Opening(b"{}"), "control"
    with pytest.raises(ProtocolBroken, match="not a message of this protocol"):
        parse_opening(Untrusted(tool_lite.Opening(b"{}").to_bytes()))


@pytest.mark.parametrize(
    "changes",
    [
        {"url": ""},
        {"url": "https://a.org/ b"},
        {"url": "https://a.org/\r\nX: y"},
        {"url": "https://bücher.org/"},
        {"url": "https://a.org/" + "a" * 2048},
        {"url": None},
        {"accept": "text/html\r\nX: y"},
        {"accept": ""},
        {"most_bytes": 0},
        {"most_bytes": True},
        {"most_bytes": limits.MAX_BODY_BYTES + 1},
        {"etag": "no quotes"},
        {"etag": '"a"\r\n'},
        {"etag": '"a" , "b"'},
        {"last_modified": "yesterday"},
        {"last_modified": DATE + "\n"},
        {"credential": ""},
        {"credential": "abcdefgh\r\nHost: evil.org"},
        {"credential": "abcdefgh "},
        {"credential": "short"},
        {"credential": "üüüüüüüüüü"},
        {"credential": "a" * 1025},
    ],
)
def test_a_question_that_could_carry_more_than_it_says_cannot_be_built(
    changes: dict[str, Any],
) -> None:
    with pytest.raises(ProtocolBroken):
        replace(ASK, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": 404},
        {"status": 206},
        {"status": True},
        {"status": 304},  # with a body
        {"url": "http://a.org/"},
        {"url": "https://user@a.org/"},
        {"url": "https://a.org:443/"},
        {"url": "https://a.org/" + "a" * 2048},
        {"hops": (("https://a.org/", 200),)},
        {"hops": (("https://a.org/", 304),)},
        {"hops": (("ftp://a.org/", 301),)},
        {"hops": (("https://a.org/", 301),) * 11},
        {"media_type": "text/html; charset=utf-8"},
        {"media_type": "TEXT/HTML"},
        {"read_as": "text"},
        {"read_as": "a/" + "b" * 100},
        {"etag": "x"},
        {"retry_after": -1},
        {"retry_after": 86_401},
        {"limits": {"set-cookie": "a=b"}},
        {"limits": {"x-ratelimit-limit": "1\r\n"}},
        {"limits": {f"x-ratelimit-{'a' * n}": "1" for n in range(1, 18)}},
        {"trust_anchor": "none"},
        {"body": "text"},
    ],
)
def test_an_answer_that_breaks_a_rule_cannot_be_built(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolBroken):
        replace(GOT, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"code": "TG-FET-1"},
        {"reason": "because"},
        {"message": "two\nlines"},
        {"message": "\u202eright to left"},
        {"message": ""},
        {"url": "javascript:alert(1)"},
        {"retry_after": 2**40},
        {"status": 600},
    ],
)
def test_a_refusal_that_breaks_a_rule_cannot_be_built(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolBroken):
        replace(NOT_GOT, **changes)


def test_an_opening_holds_what_policy_can_list_and_no_more() -> None:
    most = (b"x" * limits.MAX_ANCHOR_BYTES,) * limits.MAX_ANCHORS
    assert again(Opening(b"{}", most)) == Opening(b"{}", most), "control"
    with pytest.raises(ProtocolBroken, match="too many anchors"):
        Opening(b"{}", (*most, b""))
    with pytest.raises(ProtocolBroken, match="too large"):
        Opening(b"{}", (most[0] + b"x",))


def test_a_credential_does_not_show_in_what_a_question_prints() -> None:
    ask = replace(ASK, credential="canary-4711")
    assert "canary-4711" not in repr(ask)
    assert b"canary-4711" in ask.to_bytes(), "control: it travels to the box"


def test_bounds_agree_with_the_formats_that_travel() -> None:
    rules = {item.name: item.kind for item in RECORD.fields}
    anchors, redirects = rules["trust_anchors"], rules["redirects"]
    assert isinstance(anchors, Group)
    assert anchors.most == limits.MAX_ANCHORS
    assert isinstance(redirects, Number)
    assert redirects.high == limits.MAX_HOPS
    assert GAP_REASONS == REASONS
    assert limits.MAX_URL_CHARS == MAX_URL_CHARS == artifact_limits.MAX_URL_CHARS
    assert limits.MAX_HOPS == artifact_limits.MAX_HOPS
    assert URL.pattern == retrieve._URL.pattern
    assert TRUST_ANCHOR.pattern == retrieve._ANCHOR.pattern
