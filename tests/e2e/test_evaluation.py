"""The evaluation through the real lane, as far as it needs no model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.evaluate import CHAT, DEFAULT_MODEL
from bench.evaluation import systems
from bench.evaluation.answers import Answer
from bench.evaluation.material import COMPUTED, material
from bench.evaluation.programs import run_program
from bench.evaluation.scoring import score
from bench.evaluation.systems import Place, extractive, furnish, threegate
from bench.lite_requests import workspace
from tests.support.core_doubles import FakeAskGates, claim, program, said
from threegate.host.request.code import asking

FOUND = material()
QUESTIONS = {question.key: question for question in FOUND.questions}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    ws = workspace(tmp_path / "home")
    models = tmp_path / "models"  # none is needed
    model = CHAT[DEFAULT_MODEL]
    found = furnish(ws, FOUND, model, models=models, runtime=tmp_path, context=4096)
    yield found
    found.index.close()


def test_a_program_counts_by_what_it_comes_to_in_the_lane(place: Place) -> None:
    question, sources = QUESTIONS["d6"], {"s1": place.ids["tanaka"]}
    with asking(place.ws) as ask:
        right = run_program(place.ws, question.program, sources, ask)
        failed = run_program(place.ws, "s1['number']", sources, ask)
        refused = run_program(place.ws, "class A(dict):\n    pass\nA", {}, ask)
    assert score(question, Answer(draft=right), FOUND.works)["computed"], right
    assert (failed.refused, failed.exit) == (None, "error")
    assert refused.refused
    assert not score(question, Answer(draft=failed), FOUND.works)["runs"]
    assert not score(question, Answer(draft=refused), FOUND.works)["valid"]


@pytest.mark.slow
def test_every_question_has_a_program_that_is_right_in_the_lane(place: Place) -> None:
    computed = [question for question in FOUND.questions if question.kind in COMPUTED]
    assert len(computed) >= 10
    with asking(place.ws) as ask:
        for question in computed:
            sources = {f"s{number}": place.ids[key] for number, key in enumerate(question.works, 1)}
            draft = run_program(place.ws, question.program, sources, ask)
            found = score(question, Answer(draft=draft), FOUND.works)
            assert found["computed"], (question.key, draft)


def test_an_answer_of_threegate_is_scored_with_its_program(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = QUESTIONS["d6"]
    right = said(claim("Twice.", (1, 1, 2)), drafts=(program(question.program, 1),))
    wrong = said(claim("Once.", (1, 1, 1)), drafts=(program("1", 1),))
    found = []
    for answer in (right, wrong):
        monkeypatch.setattr(systems, "Boxed", lambda *_, said=answer: FakeAskGates(said))
        with threegate(place) as system:
            found.append(system(question))
    assert found[0].cited == found[0].shown == ("tanaka",)
    assert found[0].quotes[0].startswith("Ploughed plots held 64 earthworms")
    assert found[0].cost.model == pytest.approx(0.005), "as CORE says it"
    verdicts = [score(question, one, FOUND.works)["computed"] for one in found]
    assert verdicts == [True, False]


def test_the_direct_call_gets_the_works_that_threegate_shows(place: Place) -> None:
    named, free = QUESTIONS["v1"], QUESTIONS["v13"]
    assert set(place.shown(named)) == set(named.works)
    assert "moreau" in place.shown(free), "chosen from all works, as much as fits"
    assert len(place.shown(free)) < len(FOUND.works)
    with extractive(place) as system:
        assert system(QUESTIONS["v12"]).cited[0] == "nyberg"
