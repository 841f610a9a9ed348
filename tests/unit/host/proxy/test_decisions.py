"""Notes of the proxy: decisions in one form, or the proxy is not believed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base import canonical
from threegate.base.errors import ProtocolBroken
from threegate.host.proxy.supervisor import parse_decision

LINE = {
    "address": "104.18.0.1",
    "addresses": ["104.18.0.1"],
    "detail": "",
    "event": "tunnel",
    "host": "api.crossref.org",
    "reason": "opened",
    "rule": "policy/fetch.policy.md:69",
    "verdict": "allow",
}


def test_a_decision_goes_into_the_log_as_it_is() -> None:
    told = parse_decision(canonical.encode({**LINE, "down": 10, "up": 3}))
    assert told == {**{k: v for k, v in LINE.items() if k != "event"}, "down": 10, "up": 3}


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "perhaps"},
        {"event": "other"},
        {"host": 7},
        {"reason": None},
        {"detail": "line\nbreak"},
        {"detail": "\u202e"},
        {"detail": "x" * 513},
        {"addresses": "104.18.0.1"},
        {"addresses": ["1.1.1.1"] * 65},
        {"addresses": [1]},
        {"down": -1},
        {"down": True},
        {"more": ""},
    ],
)
def test_anything_else_is_not_a_decision(change: dict[str, Any]) -> None:
    assert parse_decision(canonical.encode(LINE))["verdict"] == "allow", "control"
    with pytest.raises(ProtocolBroken):
        parse_decision(canonical.encode({**LINE, **change}))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_decision_or_refused(data: bytes) -> None:
    try:
        parse_decision(data)
    except ProtocolBroken:
        return
    raise AssertionError("nobody guesses a decision")
