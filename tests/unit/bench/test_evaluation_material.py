"""The evaluation's own material: what its questions expect is what its works say."""

import json
from collections import Counter

import pytest

from bench.evaluation.material import COMPUTED, KINDS, Question, material
from bench.evaluation.reading import holds
from bench.evaluation.scoring import is_result
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.base.untrusted import Untrusted
from threegate.host.workspace.text_form import shown

FOUND = material()
QUESTIONS = {question.key: question for question in FOUND.questions}


def texts_of(*keys: str) -> str:
    return "\n".join(text for key in keys for text in FOUND.works[key].texts)


def test_there_are_enough_works_and_questions_of_every_kind() -> None:
    assert len(FOUND.works) >= 20
    assert len(FOUND.questions) >= 30
    kinds = Counter(question.kind for question in FOUND.questions)
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 5
    assert sum(question.absent for question in FOUND.questions) >= 2
    assert sum(question.retracted for question in FOUND.questions) >= 1


def test_every_work_makes_a_packet_of_its_own() -> None:
    packets = [registry.emit(packet) for packet in FOUND.packets.values()]
    assert len(set(packets)) == len(FOUND.works)
    for data in packets:
        registry.parse(Untrusted(data))
    assert FOUND.packets["marlow"].retraction == "retracted"


@pytest.mark.parametrize("question", [q for q in FOUND.questions if q.values], ids=lambda q: q.key)
def test_a_value_stands_in_the_works_to_be_cited_and_in_no_question(question: Question) -> None:
    cited = texts_of(*question.cites)
    others = texts_of(*(set(question.works or FOUND.works) - set(question.cites)))
    for value in question.values:
        assert holds(cited, value)
        assert not holds(question.ask, value), "it would be right to repeat the question"
        # Where a value could come from another work, a wrong source would look right.
        assert question.key == "v5" or not holds(others, value), value


@pytest.mark.parametrize("question", [q for q in FOUND.questions if q.decoys], ids=lambda q: q.key)
def test_a_decoy_can_be_found_and_is_no_answer(question: Question) -> None:
    given = texts_of(*(question.works or FOUND.works))
    for decoy in question.decoys:
        assert holds(given, decoy), decoy
        assert decoy not in question.values
        assert not holds(question.ask, decoy)


@pytest.mark.parametrize("key", [q.key for q in FOUND.questions if q.kind in COMPUTED])
def test_a_computation_has_a_program_that_comes_to_its_result(key: str) -> None:
    question = QUESTIONS[key]
    given: dict[str, object] = {}
    for number, work in enumerate(question.works, 1):
        view = shown(FOUND.packets[work])
        given[f"s{number}"] = {"fields": view.fields, "sections": view.sections}
    exec(question.program, given)  # noqa: S102  # our own, from questions.toml
    assert question.result is not None
    assert is_result(json.dumps(given["result"]), question.result, FOUND.works)


def test_what_is_named_leads_to_what_is_to_be_cited() -> None:
    for question in FOUND.questions:
        assert set(question.cites) <= set(question.works or FOUND.works), question.key


def test_a_question_that_changes_is_asked_again() -> None:
    first, second = QUESTIONS["v1"], QUESTIONS["v2"]
    assert first.works == second.works
    assert FOUND.digest_of(first) != FOUND.digest_of(second)
    assert FOUND.digest_of(first) == FOUND.digest_of(first)
    assert len(FOUND.digest_of(first)) == len(sha256_hex(b""))
