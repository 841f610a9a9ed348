"""Answers of the evaluation: kept as they come, and told in tables that can say `missed`."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from bench import evaluate
from bench.evaluation.answers import Answer, Cost, Drafted, Kept, Key
from bench.evaluation.material import material
from bench.evaluation.systems import SYSTEMS, System, answered
from bench.evaluation.table import asked_of_all, count, overhead, scored, tables
from threegate.base.errors import GateUnavailable
from threegate.gates.core.client import NoModel

FOUND = material()
KEY = Key("direct", "model/4096", "v1", "0" * 64)
FULL = Answer(
    text="0.94 MPa",
    cited=("holm",),
    quotes=("At -15 °C the mean was 0.94 MPa.",),
    labels=("quote found",),
    shown=("holm", "castellan"),
    draft=Drafted("1", None, "ok", "1"),
    fetches=2,
    cost=Cost(12.5, 2.0, 10.0, 900, 40, 2),
    told=("draft 2 was not kept",),
)
POOR = replace(FULL, text="0.61 MPa", cited=("ueda",), quotes=())


def test_what_was_kept_is_read_again_also_after_a_line_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "answers.jsonl"
    kept = Kept(path)
    assert kept.answers == {}
    kept.add(KEY, FULL)
    kept.add(replace(KEY, question="v2"), Answer(error="no model"))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"key": {"system": "dir')
    again = Kept(path)
    assert again.answers == kept.answers
    assert again.answers[KEY] == FULL
    assert len(again.answers) == 2


def test_what_the_model_alone_wrote_is_kept_and_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    model = f"{evaluate.DEFAULT_MODEL}/{evaluate.DEFAULT_CONTEXT}"
    question = next(one for one in FOUND.questions if one.key == "v1")
    for system, answer in (("threegate", replace(FULL, own=POOR)), ("direct", FULL)):
        Kept(path).add(evaluate.key_of(system, model, question, FOUND), answer)
    args = argparse.Namespace(systems=["threegate", "direct"], only=[])
    answers = evaluate.collected(FOUND, args, Kept(path), model)
    assert answers["own"] == {"v1": POOR}
    lines = list(tables(FOUND, answers))
    (value,) = (line for line in lines if line.startswith("- no worse"))
    assert value.endswith("ThreeGate 1 against 1: met; its model's claims 0 against 1: missed"), (
        "the one does not hide the other"
    )
    assert sum("seconds an answer" in line for line in lines) == 1
    assert not any(line.startswith("| its model's claims") for line in lines), "one cost of both"


def test_the_last_answer_to_a_question_counts(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "answers.jsonl")
    kept.add(KEY, FULL)
    kept.add(KEY, POOR)
    assert Kept(tmp_path / "answers.jsonl").answers == {KEY: POOR}


def test_an_answer_belongs_to_its_system_model_and_question() -> None:
    first, second = FOUND.questions[:2]
    cases = [
        evaluate.key_of(system, model, question, FOUND)
        for system in SYSTEMS
        for model in ("small/4096", "large/4096")
        for question in (first, second)
    ]
    assert len(set(cases)) == len(cases) - 2, "without a model there is one answer for all models"
    assert len({evaluate.made_by(system) for system in SYSTEMS}) == len(SYSTEMS)


def test_only_what_every_system_answered_is_compared() -> None:
    answers = {"threegate": {"v1": FULL, "v2": FULL}, "direct": {"v1": POOR}}
    assert asked_of_all(FOUND.questions, answers) == ["v1"]
    scores = scored(FOUND, answers)
    assert count(scores["threegate"], "value", ["v1"]) == (1, 1)
    assert count(scores["direct"], "value", ["v1"]) == (0, 1)
    assert count(scores["direct"], "warned", ["v1"]) == (0, 0)


def test_the_overhead_is_what_is_neither_tokens_nor_loading() -> None:
    assert overhead([FULL]) == pytest.approx(0.05)
    assert overhead([Answer()]) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "verdicts"),
    [(FULL, POOR, ["met"] * 4), (POOR, FULL, ["missed"] * 3 + ["met"])],
)
def test_targets_are_met_or_missed(ours: Answer, theirs: Answer, verdicts: list[str]) -> None:
    lines = list(tables(FOUND, {"threegate": {"v1": ours}, "direct": {"v1": theirs}}))
    targets = [line for line in lines if line.startswith("- ")]
    assert [line.rpartition(": ")[2] for line in targets] == verdicts


def test_an_overhead_above_the_target_is_missed() -> None:
    slow = replace(FULL, cost=Cost(13.5, 2.0, 10.0, 900, 40, 2))
    lines = list(tables(FOUND, {"threegate": {"v1": slow}, "direct": {"v1": FULL}}))
    assert "- overhead under 10% of the tokens' time: 15.0%: missed" in lines


def failing(error: Exception) -> System:
    def system(_: object) -> Answer:
        raise error

    return system


@pytest.mark.parametrize(
    "error",
    [
        GateUnavailable("no answer: a reply was refused", code="TG-COR-002"),
        NoModel("the prompt does not fit", "TG-MDL-006"),
        NoModel("the model did not answer in time"),
    ],
)
def test_a_system_that_gives_no_answer_has_given_an_empty_one(error: Exception) -> None:
    found = answered(failing(error), FOUND.questions[0])
    assert found.error is not None
    assert str(error) in found.error
    lines = list(tables(FOUND, {"direct": {FOUND.questions[0].key: found}}))
    assert any(line.endswith("| no answer |") for line in lines)


@pytest.mark.parametrize(
    "error", [GateUnavailable("not here", code="TG-MDL-021"), NoModel("it does not answer")]
)
def test_a_broken_set_up_is_not_taken_for_a_poor_system(error: Exception) -> None:
    with pytest.raises(type(error)):
        answered(failing(error), FOUND.questions[0])


def test_nothing_is_written_before_all_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "evaluation.md"
    monkeypatch.setattr(evaluate, "DOCUMENT", written)
    args = argparse.Namespace(
        model=evaluate.DEFAULT_MODEL,
        context=4096,
        only=[],
        systems=list(SYSTEMS),
        answers=tmp_path / "answers.jsonl",
        show=True,
        again=False,
        write=True,
    )
    monkeypatch.setattr(evaluate, "parse_arguments", lambda: args)
    assert evaluate.main() == 1
    assert not written.exists()
    kept = Kept(args.answers)
    for system in SYSTEMS:
        for question in FOUND.questions:
            name = f"{args.model}/{args.context}"
            kept.add(evaluate.key_of(system, name, question, FOUND), FULL)
    assert evaluate.main() == 0
    assert "### Targets" in written.read_text("utf-8")
