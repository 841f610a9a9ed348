"""The lite lane with a box that answers whatever a test wants, as an owned one could."""

from collections.abc import Callable

import pytest

from threegate.gates.tool_exec.monty.messages import LiteJob, LiteOutcome
from threegate.host.run import lifecycle
from threegate.host.run.lite import Ran
from threegate.host.run.results import box_of
from threegate.policy.bundle import Bundle

Answer = Callable[[LiteJob], Ran]
BOX = box_of("0" * 64, ("seccomp:socket",), {"monty": "0", "threegate": "0"})


def ran(outcome: LiteOutcome) -> Ran:
    """Return an ordinary run with this outcome."""
    return Ran(outcome, wall_ms=1, peak_memory_bytes=1)


def ok(_: LiteJob) -> Ran:
    return ran(LiteOutcome("ok", value=b"1"))


def install(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    """Let `run_requests` talk to boxes that answer like this."""

    class FakeBox:
        box = BOX

        def run(self, job: LiteJob, *, wall_ms: int) -> Ran:
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
