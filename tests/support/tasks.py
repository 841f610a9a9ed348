"""Tasks for CORE, and replies to them."""

import json
from dataclasses import replace
from typing import Any

from threegate.gates.core.messages import CoreTask, TaskBudget, TaskSource
from threegate.gates.model.chat.messages import ChatRequest

MARKER = "5eed" * 8
TASK = CoreTask(
    question="How strong is ice?",
    policy=("Nothing here runs without a signature.",),
    brief=("You answer from the quoted sources.",),
    may_draft=(),
    marker=MARKER,
    model="scripted",
    budget=TaskBudget(4096, 512, 10, 4, 1, 20_000),
    denied=(),
    sources=(
        TaskSource(
            "packet, from example.org", ("Ice broke at 1.2 MPa. It was cold.", "Wind blew.")
        ),
        TaskSource("packet, from example.net", ("Snow is weaker than ice.",)),
    ),
)


def task(**changes: Any) -> CoreTask:
    return replace(TASK, **changes)


def claims(*made: tuple[str, list[int]]) -> str:
    return json.dumps({"claims": [{"text": text, "from": numbers} for text, numbers in made]})


def wanted(compute: str = "", *fetch: tuple[str, str]) -> str:
    sources = [{"reference": reference, "why": why} for reference, why in fetch]
    return json.dumps({"compute": compute, "fetch": sources})


def step_of(request: ChatRequest) -> str:
    """Tell which step a request is: answer, map, next or code."""
    last = request.messages[-1][1]
    for word, start in (("answer", "Answer in"), ("map", "Which of"), ("next", "Decide")):
        if last.startswith(start):
            return word
    return "code"
