"""The chat protocol: any bytes parse or are refused; one spelling each; everything bounded."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import ASKED, MESSAGES, Message, Parse
from threegate.base import canonical
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.model.chat import messages as chat
from threegate.gates.model.chat.messages import (
    ChatRefused,
    ChatReply,
    ChatRequest,
    Served,
    parse_refused,
    parse_reply,
    parse_request,
)
from threegate.policy.sections.core import MODEL_NAME as POLICY_NAME

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)


@given(st.lists(st.tuples(st.sampled_from(chat.ROLES), TEXT), min_size=1, max_size=5), TEXT)
def test_any_text_survives_the_way(messages: list[tuple[str, str]], grammar: str) -> None:
    asked = ChatRequest(tuple(messages), 5, grammar=grammar or None)
    assert parse_request(Untrusted(asked.to_bytes())) == asked


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(("body", "parse"), MESSAGES["chat"])
@given(data=st.data())
def test_one_value_changed_is_another_message_or_none(
    body: Message, parse: Parse, data: st.DataObject
) -> None:
    """Put any JSON value in the place of any other: it parses to exactly that or is refused."""
    value = canonical.decode(body.to_bytes())
    places = list(_places(value))
    owner, key = data.draw(st.sampled_from(places))
    owner[key] = data.draw(JSON)
    changed = canonical.encode(value)
    try:
        parsed = parse(Untrusted(changed))
    except ProtocolBroken:
        return
    assert parsed.to_bytes() == changed


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"seed":7', b'"seed":7,"tools":[]'),
        (b'"seed":7', b'"seed":-1'),
        (b'"seed":7', b'"seed":true'),
        (b'"seed":7', b'"seed":7.0'),
        (b'"seed":7', b'"seed": 7'),
        (b'"seed":7', b'"seed":7,"stream":true'),
        (b'"temperature":0', b'"temperature":1'),
        (b'"temperature":0', b'"temperature":0.7'),
        (b'"max_tokens":64', b'"max_tokens":0'),
        (b'"max_tokens":64', b'"max_tokens":99999999'),
        (b'"role":"user"', b'"role":"tool"'),
        (b'"role":"user"', b'"name":"x","role":"user"'),
        (b'{"max_tokens', b'{"grammar":null,"max_tokens'),
        (b'{"max_tokens', b'{"grammar":"","max_tokens'),
        (b'{"max_tokens', b'{"max_tokens":1,"max_tokens'),
        (b"Be brief.", b"\\ud800"),
        (b"Be brief.", b"\xff"),
    ],
)
def test_a_request_of_another_shape_is_refused(old: bytes, new: bytes) -> None:
    good = ASKED.to_bytes()
    assert parse_request(Untrusted(good)) == ASKED, "control"
    assert old in good
    with pytest.raises(ProtocolBroken):
        parse_request(Untrusted(good.replace(old, new, 1)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ChatRequest((), 1),
        lambda: ChatRequest((("user", "x"),) * (chat.MAX_MESSAGES + 1), 1),
        lambda: ChatRequest((("user", "\ud800"),), 1),
        lambda: ChatRequest((("user", "x"),), 1, grammar="x" * (chat.MAX_FORM_BYTES + 1)),
        lambda: ChatRequest((("user", "x"),), 1, schema="[]"),
        lambda: ChatRequest((("user", "x"),), 1, schema='{"a": 1}'),
        lambda: ChatRequest((("user", "x" * chat.MAX_CHAT_BYTES),), 1).to_bytes(),
        lambda: ChatReply(Untrusted("x"), "tool_calls", 1, 1, "m"),
        lambda: ChatReply(Untrusted("x"), "stop", -1, 1, "m"),
        lambda: ChatReply(Untrusted("x"), "stop", 1, 1, "a name\n"),
        lambda: ChatReply(Untrusted("x" * (chat.MAX_CONTENT_CHARS + 1)), "stop", 1, 1, "m"),
        lambda: ChatReply(Untrusted("\x01" * 500_000), "stop", 1, 1, "m").to_bytes(),
        lambda: ChatRefused("TG-ABC-001", "x"),
        lambda: ChatRefused("TG-MDL-001", "x\ny"),
        lambda: Served("m", "A" * 64, 1),
        lambda: Served("m", None, 0),
    ],
)
def test_nothing_is_built_that_would_not_be_read(make: Callable[[], object]) -> None:
    with pytest.raises(ProtocolBroken):
        make()


@pytest.mark.parametrize("parse", [parse_reply, parse_refused, parse_request])
def test_a_flood_is_refused_before_it_is_decoded(parse: Parse) -> None:
    for flood in (b"[" * 100_000, b"{" * (chat.MAX_CHAT_BYTES + 1)):
        with pytest.raises(ProtocolBroken):
            parse(Untrusted(flood))


@given(st.from_regex(POLICY_NAME.pattern, fullmatch=True))
def test_every_name_a_policy_can_hold_can_be_served(name: str) -> None:
    if len(name) <= 128 and name.isascii():
        assert Served(name, None, 1).name == name
