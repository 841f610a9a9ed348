"""What of a foreign server's answer is read: text, an end and numbers, or nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.model.bridge.gate import question, refuse_missing, reply
from threegate.gates.model.chat.messages import ChatReply, ChatRequest, Served
from threegate.gates.model.front.server import NoCompletion

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
