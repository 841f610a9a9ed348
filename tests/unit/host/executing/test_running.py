"""What `run` claims, and when it stops claiming."""

from pathlib import Path

import pytest

from tests.support.approved import approve_for, live_workspace, now
from tests.support.heavy import ENABLED, ROOM, Task, request_for
from tests.support.workspaces import OPEN, take_in
from tests.unit.host.review.test_approving import edit_policy
from threegate.artifacts import registry
from threegate.errors import GateUnavailable
from threegate.handoff import states
from threegate.host.executing.ready import Ready
from threegate.host.executing.running import run_requests
from threegate.host.heavy.lane import HeavyAnswer, HeavyLane
from threegate.host.workspace import Workspace, open_workspace
from threegate.images.keeping import Image, Images


class StubLane(HeavyLane):
    """A lane that proves at once and never starts a machine."""

    def __init__(self, ws: Workspace) -> None:
        super().__init__(ws.bundle, ws.root, _no_image)
        self.proved, self.ran = 0, 0

    def prove(self, ready: Ready) -> None:
        assert ready.request.backend == "era"
        self.proved += 1

    def run(self, ready: Ready, started: str) -> HeavyAnswer:
        self.ran += 1
        raise GateUnavailable(f"{ready.request_id} of {started}")


def _no_image(_: Images) -> Image:
    raise AssertionError("an image was looked for")


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    made = live_workspace(tmp_path)
    edit_policy(made, *ROOM, name="handoff.policy.md")
    edit_policy(made, *ENABLED)
    found = open_workspace(made.root, clock=now)
    OPEN.append(found)
    return found


def approved(ws: Workspace, code: str) -> str:
    request = request_for(Task(code), created=ws.now())
    take_in(ws, request)
    approve_for(ws, request, functions_sha256=None)
    return registry.id_of(request)


def test_an_interrupt_while_a_machine_is_proved_claims_nothing(ws: Workspace) -> None:
    first, second = approved(ws, "print(1)"), approved(ws, "print(2)")
    lane = StubLane(ws)
    # Proving boots a guest, which may take minutes: the operator gives up meanwhile.
    assert list(run_requests(ws, [first], stop=lambda: lane.proved > 0, heavy=lambda: lane)) == []
    assert (lane.proved, lane.ran) == (1, 0)
    assert ws.store.locate(first) == states.directory_of("tr", "approved"), "its use is not spent"
    (report,) = run_requests(ws, [second], heavy=lambda: lane)
    assert isinstance(report.error, GateUnavailable)
    assert lane.ran == 1, "control: without the interrupt it is claimed and runs"
    assert ws.store.locate(second) == states.directory_of("tr", "held")
