"""The lite lane with a box that answers whatever a test wants, as an owned one could."""

from collections.abc import Callable

import pytest

from threegate.gates.tool_exec.monty.messages import Job, Outcome
from threegate.host.run import lifecycle
from threegate.host.run.lite import Ran
from threegate.host.run.results import box_of
from threegate.policy.bundle import Bundle

Answer = Callable[[Job], Ran]
BOX = box_of("0" * 64, ("seccomp:socket",), {"monty": "0", "threegate": "0"})


def ran(outcome: Outcome) -> Ran:
    """Return an ordinary run with this outcome."""
    return Ran(outcome, wall_ms=1, peak_memory_bytes=1)


def ok(_: Job) -> Ran:
    return ran(Outcome("ok", value=b"1"))


def install(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    """Let `run_requests` talk to boxes that answer like this."""

    class FakeBox:
        box = BOX

        def run(self, job: Job, *, wall_ms: int) -> Ran:
            assert wall_ms > 0
            return answer(job)

        def kill(self) -> None:
            """It has answered already."""

    class FakeBoxes:
        def __init__(self, bundle: Bundle) -> None:
            self.bundle = bundle

        def box(self, confidentiality: str) -> FakeBox:
            assert confidentiality
            return FakeBox()

        def close(self) -> None:
            """Nothing was started."""

    monkeypatch.setattr(lifecycle, "Boxes", FakeBoxes)
