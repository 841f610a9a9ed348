"""The scores of the evaluation: right answers count, and each way of being wrong does not."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bench.evaluation import direct
from bench.evaluation.answers import Answer, Drafted
from bench.evaluation.material import material
from bench.evaluation.reading import (
    abstains,
    holds,
    is_verbatim,
    numbers_of,
    program_in,
    quotes_of,
    works_named,
)
from bench.evaluation.scoring import MEASURES, Score, is_result, score

FOUND = material()
WORKS = FOUND.works
QUESTIONS = {question.key: question for question in FOUND.questions}
QUOTE = "At -15 °C the mean was 0.94 MPa."
RIGHT = Answer(
    text="The mean was 0.94 MPa.",
    cited=("holm",),
    quotes=(QUOTE,),
    labels=("quote found",),
    shown=QUESTIONS["v1"].works,
)


def scored(key: str, answer: Answer) -> Score:
    return score(QUESTIONS[key], answer, WORKS)


def lacking(found: Score) -> set[str]:
    return {name for name, held in found.items() if held is False}


def test_a_right_answer_has_everything_that_applies() -> None:
    found = scored("v1", RIGHT)
    assert lacking(found) == set()
    applied = {name for name, held in found.items() if held}
    assert applied == {"value", "precise", "cites", "only", "leads", "quotes", "supports"}
    assert set(found) == set(MEASURES)


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({"text": "The mean was 0.61 MPa."}, {"value", "precise"}),
        ({"text": "It was 0.94 MPa, or 0.72 MPa."}, {"precise"}),
        ({"text": "It was 10.94 MPa."}, {"value", "precise"}),
        ({"text": ""}, {"value", "precise"}),
        ({"cited": ("castellan",)}, {"cites", "only", "leads"}),
        ({"cited": ("castellan", "holm")}, {"only", "leads"}),
        ({"cited": ("holm", "castellan")}, {"only"}),
        ({"cited": ()}, {"cites", "only", "leads"}),
        ({"quotes": ()}, {"quotes", "supports"}),
        ({"quotes": (QUOTE, "At -15 °C the mean was 0.96 MPa.")}, {"quotes"}),
        ({"quotes": ("We broke 48 beams of first-year sea ice",)}, {"supports"}),
        # It stands in a work, but not in one that was shown.
        ({"quotes": (QUOTE,), "shown": ("ueda",)}, {"quotes"}),
    ],
)
def test_each_way_of_being_wrong_is_seen(changes: dict[str, Any], lacks: set[str]) -> None:
    assert lacking(scored("v1", replace(RIGHT, **changes))) == lacks


def test_a_label_is_not_believed() -> None:
    forged = replace(RIGHT, quotes=("No work says such a thing.",), labels=("quote found",))
    assert {"quotes", "supports"} <= lacking(scored("v1", forged))


def test_a_question_that_nothing_answers_is_answered_by_saying_so() -> None:
    said = Answer(text="The sources do not mention a forest.", shown=QUESTIONS["v15"].works)
    assert lacking(scored("v15", said)) == set()
    made_up = replace(said, text="There were 171 earthworms.")
    assert lacking(scored("v15", made_up)) == {"value", "precise"}
    assert lacking(scored("v15", replace(said, text="", error="no model"))) == {"value", "precise"}


def test_who_tells_of_a_retraction_has_warned() -> None:
    answer = Answer(text="It was 41.3 mS/cm.", cited=("marlow",), shown=("marlow",))
    assert "warned" in lacking(scored("v6", answer))
    assert "warned" not in lacking(scored("v6", replace(answer, labels=("source retracted",))))
    told = replace(answer, text="It was 41.3 mS/cm; the work was retracted.")
    assert "warned" not in lacking(scored("v6", told))
    assert scored("v1", RIGHT)["warned"] is None


@pytest.mark.parametrize(
    ("draft", "lacks"),
    [
        (None, {"drafted", "valid", "runs", "computed"}),
        (Drafted("import os", "not offered"), {"valid", "runs", "computed"}),
        (Drafted("1/0", exit="error"), {"runs", "computed"}),
        (Drafted("1/0", exit="error", value="180.0"), {"runs", "computed"}),
        (Drafted("12", exit="ok", value="5400"), {"computed"}),
        (Drafted("12", exit="ok", value="[180, 5400]"), {"computed"}),
        (Drafted("12", exit="ok", value="true"), {"computed"}),
        (Drafted("12", exit="ok", value="180.0"), set()),
        (Drafted("12", exit="ok", value='{"alarms": 180}'), set()),
        (Drafted("12", exit="ok", value='"180 alarms"'), set()),
    ],
)
def test_a_program_counts_by_what_it_comes_to(draft: Drafted | None, lacks: set[str]) -> None:
    answer = Answer(cited=("hale",), shown=("hale", "grant"), draft=draft)
    assert lacking(scored("d4", answer)) == lacks


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ('["K4", "K3", "K2", "K1"]', True),
        ('[["K4", 9.0], ["K3", 7.4], ["K2", 5.2], ["K1", 3.1]]', True),
        ('{"K4": 9.0, "K3": 7.4, "K2": 5.2, "K1": 3.1}', True),
        ('"K4, K3, K2, K1"', True),
        ('["K1", "K2", "K3", "K4"]', False),
        ('["K4", "K3", "K2"]', False),
        ('["K4", "K3", "K2", "K1", "K1"]', False),
        ("4", False),
        ("", False),
    ],
)
def test_an_order_is_right_as_a_whole_or_wrong(value: str, right: bool) -> None:
    assert is_result(value, ("K4", "K3", "K2", "K1"), WORKS) is right


def test_works_in_an_order_may_be_named_by_title_or_author() -> None:
    title = WORKS["holm"].title
    assert is_result(json.dumps(["Ueda", title]), ("ueda", "holm"), WORKS)
    assert not is_result('["Holm", "Ueda"]', ("ueda", "holm"), WORKS)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("64,800 alarms", [64800]),
        ("at -15 °C, 0.94 MPa.", [-15, 0.94]),
        ("kg/m3 and K3 and CO2", []),
        ("nine of twelve", [9, 12]),
        ("from 1.4-1.8 cm", [1.4, 1.8]),
        ("11%", [11]),
    ],
)
def test_numbers_of_a_text(text: str, numbers: list[float]) -> None:
    assert numbers_of(text) == numbers


def test_a_value_may_have_several_spellings() -> None:
    value = QUESTIONS["v10"].values[0]
    assert holds("It was read on June 3, 1926.", value)
    assert not holds("It was read on 13 June 1926.", value)
    assert not holds("In 1926.", value)


def test_a_direct_answer_is_read_leniently() -> None:
    shown = ("holm", "castellan", "ueda")
    for text in ("[S2]", "[2]", "source 2", "S2", "Castellan found", "P2"):
        assert works_named(text, shown, WORKS) == ["castellan"], text
    assert works_named("S1, 3 and S9", shown, WORKS) == ["holm", "ueda"]
    assert works_named("Nobody and nothing, 0.94 MPa", shown, WORKS) == []
    assert quotes_of(f'It says "{QUOTE}" and “another four words here” but not "this".') == [
        QUOTE,
        "another four words here",
    ]
    assert is_verbatim("At -15 °C  the mean\nwas 0.94 MPa", WORKS["holm"].texts)
    assert not is_verbatim("At -15 °C the mean was 0.95 MPa", WORKS["holm"].texts)


def test_a_reply_gives_an_answer_and_its_program() -> None:
    reply = f'[S1] 0.94 MPa, "{QUOTE}"\n```python\nresult = 0.5\nresult\n```\nDone.'
    answer, code = direct.read(reply, ("holm", "ueda"), WORKS)
    assert code == "result = 0.5\nresult"
    assert (answer.cited, answer.quotes) == (("holm",), (QUOTE,))
    assert not holds(answer.text, "0.5"), "a number of the program is not said"
    assert program_in("No program at all.") is None
    assert program_in("```\nx = 1\nx") == "x = 1\nx", "cut off"


def test_the_prompt_of_a_direct_call_holds_the_same_works_and_asks_for_the_same() -> None:
    question = QUESTIONS["v6"]
    _, (_, user) = direct.messages(question, question.works, WORKS)
    assert "[S1] A sodium electrolyte with record conductivity (retracted)." in user
    assert all(text in user for key in question.works for text in WORKS[key].texts)
    assert f"Question: {question.ask}\n\n{direct.FORM}" in user
    assert "python" not in user
    assert "python" in direct.messages(QUESTIONS["d1"], ("ueda",), WORKS)[1][1]


@pytest.mark.parametrize(
    "text", ["", "The sources do not say.", "No information is given.", "It isn't mentioned."]
)
def test_an_answer_that_has_none_is_known(text: str) -> None:
    assert abstains(text)


@pytest.mark.parametrize(
    "text", ["There were 171.", "No-till plots were found to hold 171 earthworms."]
)
def test_an_answer_is_not_taken_for_none(text: str) -> None:
    assert not abstains(text)
