"""Messages of fetch-retrieve: any bytes parse or are refused; one spelling each."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.messages import ASK, DATE, GOT, NOT_GOT
from threegate.base import limits
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.retrieve.messages import (
    MAX_BODY_BYTES,
    RetrieveOpening,
    parse_opening,
)
from threegate.gates.tool_exec.monty import messages as tool_lite
from threegate.policy.leaves import Number
from threegate.policy.schema import RuleGroup
from threegate.policy.sections.fetch import RECORD


def test_a_message_of_another_protocol_is_none_of_this() -> None:
    assert parse_opening(Untrusted(RetrieveOpening(b"{}").to_bytes())) == RetrieveOpening(b"{}"), (
        "control"
    )
    with pytest.raises(ProtocolBroken, match="not a message of this protocol"):
        parse_opening(Untrusted(tool_lite.LiteOpening(b"{}").to_bytes()))


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
        {"most_bytes": MAX_BODY_BYTES + 1},
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
    opening = RetrieveOpening(b"{}", most)
    assert parse_opening(Untrusted(opening.to_bytes())) == opening, "control"
    with pytest.raises(ProtocolBroken, match="anchors has too few or too many"):
        RetrieveOpening(b"{}", (*most, b""))
    with pytest.raises(ProtocolBroken, match="too large"):
        RetrieveOpening(b"{}", (most[0] + b"x",))


def test_a_credential_does_not_show_in_what_a_question_prints() -> None:
    ask = replace(ASK, credential="canary-4711")
    assert "canary-4711" not in repr(ask)
    assert b"canary-4711" in ask.to_bytes(), "control: it travels to the box"


def test_bounds_agree_with_what_policy_can_list() -> None:
    rules = {item.name: item.kind for item in RECORD.fields}
    anchors, redirects = rules["trust_anchors"], rules["redirects"]
    assert isinstance(anchors, RuleGroup)
    assert anchors.most == limits.MAX_ANCHORS
    assert isinstance(redirects, Number)
    assert redirects.high == limits.MAX_HOPS
