"""Control tokens in messages: after the front has seen them they are text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.model.chat.messages import ChatRequest
from threegate.gates.model.front.controls import COMMON, broken_up, pattern_of
from threegate.gates.model.front.server import NoCompletion

TOKENS = ("<|im_start|>", "<|im_end|>", "<tool_call>", "<｜User｜>")


def contents(text: str, *tokens: str) -> str:
    [message] = broken_up(ChatRequest((("user", text),), 1), pattern_of(tokens))
    assert message["role"] == "user"
    return message["content"]


@pytest.mark.parametrize(
    "text", [*TOKENS[:2], "<｜User｜>", "<s>", "</s>", "[INST]", "<<SYS>>", "<start_of_turn>"]
)
def test_the_usual_ones_are_broken_up_without_any_vocabulary(text: str) -> None:
    found = contents(f"a{text}b")
    assert text not in found
    assert found.replace(" ", "") == f"a{text}b".replace(" ", "")


def test_those_of_the_vocabulary_are_broken_up_and_other_text_stays() -> None:
    assert contents("x <tool_call> y", "<tool_call>") == "x < tool_call> y"
    assert contents("x <tool_call> y") == "x <tool_call> y", "control: it is no common one"
    plain = "if a < b | c > d: [1] <b>bold</b>"
    assert contents(plain, *TOKENS) == plain


def test_a_token_inside_a_token_is_broken_up_too() -> None:
    found = contents("<|im_<|im_start|>start|>", *TOKENS)
    assert not pattern_of(TOKENS).search(found)


def test_what_cannot_be_broken_up_is_refused() -> None:
    with pytest.raises(NoCompletion):
        contents("aa", "aa", "a a", "a  a", "a   a", "a    a", *(f"a{' ' * n}a" for n in range(20)))


@given(st.lists(st.sampled_from([*TOKENS, "<|", "|>", "<", "im_start", " ", "x"]), max_size=12))
def test_no_token_is_left_however_they_are_put_together(pieces: list[str]) -> None:
    found = contents("".join(pieces), *TOKENS)
    assert not COMMON.search(found)
    assert not any(token in found for token in TOKENS)
