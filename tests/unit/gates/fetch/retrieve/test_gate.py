"""The gate: rules once, then questions; what goes wrong in it leaves as a code, or not at all."""

import os
import subprocess
import sys

import pytest

from tests.support.retrieving import ASK, bundle
from threegate.base.greeting import GateReady
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.retrieve import gate
from threegate.gates.fetch.retrieve.answers import bug
from threegate.gates.fetch.retrieve.messages import (
    GREETING,
    NotGot,
    RetrieveOpening,
    parse_answer,
)
from threegate.sandbox import payload
from threegate.sandbox.channel import END, HEADER, FrameReader, frames

OPENING = frames(RetrieveOpening(bundle().bundle_bytes()).to_bytes())
QUESTION = frames(ASK.to_bytes())
_START = "import os; os.dup2(1, 3); os.dup2(2, 1)\nimport {0} as gate\n"
# Somebody who fails on the first question, with words of a server, and answers every other.
_RETRIEVER = """
from threegate.gates.fetch.retrieve.messages import NotGot
class Failing:
    asked = 0
    def answer(self, ask):
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("what a server said")
        return NotGot("TG-FET-018", "not-found", "no such thing", ask.url, (), None, 404)
    def close(self):
        pass
gate.open_with = lambda _: Failing()
"""
_BROKEN = """
def open_with(_):
    raise RuntimeError("what a file said")
gate.open_with = open_with
"""


def served(data: bytes, before: str = _RETRIEVER) -> tuple[int, list[bytes], bytes]:
    """Return how a gate ended that was sent these bytes, its answers, and its stderr."""
    program = f"{_START.format(gate.__name__)}{before}\ngate.serve()"
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, input=data, capture_output=True, check=False)
    answers, held = [], b""
    for kind, piece in FrameReader().feed(ended.stdout):
        held += piece
        if kind == END:
            answers.append(held)
            held = b""
    assert not held
    return ended.returncode, answers, ended.stderr


def test_an_error_nobody_thought_of_is_an_answer_without_its_text() -> None:
    code, (greeting, first, second), err = served(OPENING + QUESTION * 2)
    assert (code, err) == (os.EX_OK, b"")
    assert isinstance(GREETING.parse(Untrusted(greeting)), GateReady)
    assert first == bug().to_bytes(), "nothing of what was raised"
    told = parse_answer(Untrusted(first))
    assert isinstance(told, NotGot)
    assert (told.code, told.status) == ("TG-FET-025", None), "so the host ends this box"
    control = parse_answer(Untrusted(second))
    assert isinstance(control, NotGot)
    assert control.code == "TG-FET-018", "control: it still answers"


def test_an_error_before_the_first_question_ends_the_box_without_a_word() -> None:
    assert len(served(OPENING)[1]) == 1, "control"
    assert served(OPENING + QUESTION, _BROKEN) == (payload.EX_SOFTWARE, [], b"")


@pytest.mark.parametrize("data", [frames(b""), b"\xff" * 100, HEADER.pack(1, 5) + b"abc"])
def test_a_host_that_breaks_the_protocol_is_not_served(data: bytes) -> None:
    assert served(b"") == (os.EX_OK, [], b""), "a host that says nothing is told nothing"
    assert served(data) == (payload.EX_PROTOCOL, [], b""), "and not a word"
    code, answers, err = served(OPENING + data)
    assert (code, len(answers), err) == (payload.EX_PROTOCOL, 1, b""), "nor after the opening"
