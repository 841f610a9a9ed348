"""CORE in its real box, with a model server of the test behind its one socket."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.core_doubles import TASK, Scripted, claims, step_of, task, wanted
from threegate.base.untrusted import Untrusted
from threegate.gates.core.messages import Cited, CoreNotSaid, CoreSaid, CoreTask, parse_said
from threegate.gates.model.chat.messages import ChatRequest
from threegate.sandbox.box import Start
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import CORE
from threegate.sandbox.session import run_gate

PAYLOAD = "threegate.gates.core.gate:serve"


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="threegate-core-") as directory:
        Path(directory).chmod(0o755)  # a gate has a uid of its own
        yield Path(directory)


def run(model: Scripted, task: CoreTask, notes: list[bytes]) -> CoreSaid | CoreNotSaid:
    start = Start(CORE, PAYLOAD, {"model": str(model.path)})
    answer = run_gate(find_machine(), start, task.to_bytes(), note=notes.append)
    with answer.message as message:
        assert answer.ended.why == "done", answer.ended
        return parse_said(Untrusted(message.read()))


def script(request: ChatRequest) -> str:
    replies = {
        "answer": claims(("Ice breaks at 1.2 MPa.", [1])),
        "next": wanted("the mean"),
        "code": '{"code":"result = 1.2\\nresult"}',
    }
    return replies[step_of(request)]


def test_core_answers_from_its_box(place: Path) -> None:
    notes: list[bytes] = []
    with Scripted(place, script) as model:
        said = run(model, task(may_draft=("tool-request",)), notes)
    assert isinstance(said, CoreSaid)
    assert said.claims[0].cites == (Cited(1, 1, 1),)
    assert len(said.drafts) == 1
    assert notes == [
        b"asking the model for an answer",
        b"asking the model what is needed next",
        b"asking the model for a program",
    ]


def test_a_task_that_is_none_is_not_answered(place: Path) -> None:
    with Scripted(place, script) as model:
        assert isinstance(run(model, TASK, []), CoreSaid), "control: a task is"
        start = Start(CORE, PAYLOAD, {"model": str(model.path)})
        answer = run_gate(find_machine(), start, TASK.to_bytes() + b"more")
        asked = len(model.asked)
    answer.message.close()
    assert (answer.ended.why, answer.ended.exit_code) == ("exit", 76)
    assert asked == 1, "the model was asked nothing"
