"""What `run` claims, and when it stops claiming."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from tests.support.heavy import ENABLED, Task, request_for
from tests.support.requests import approve_for, live_workspace, now
from tests.support.workspaces import OPEN, take_in
from tests.unit.host.review.test_approval import edit_policy
from threegate.artifacts import registry
from threegate.base.errors import GateUnavailable, StorageFailed
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era.messages import DID_NOT_WAKE, NOT_AS_PROMISED, HeavyOutcome
from threegate.handoff import states
from threegate.handoff.approvals import was_used
from threegate.handoff.claims import claim_group
from threegate.host.images.store import Image, Images
from threegate.host.run import lifecycle
from threegate.host.run.heavy.backend import HeavyRun
from threegate.host.run.heavy.lane import HeavyAnswer, HeavyLane
from threegate.host.run.lifecycle import MAX_RUBBISH_BYTES, run_requests
from threegate.host.run.ready import Ready
from threegate.host.run.results import Confinement
from threegate.host.workspace.workspace import Workspace, open_workspace
from threegate.sandbox.launch import Evidence

PROOF = Evidence("tool-heavy", "0" * 64, "0" * 64, "6.1", 4, mdwe=True, own_uid=False, proofs=())


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


class Answers(StubLane):
    """A lane whose one machine ends as it is told."""

    def __init__(self, ws: Workspace, outcome: HeavyOutcome, refused: bytes | None = None) -> None:
        super().__init__(ws)
        self.outcome = outcome
        self.refused = None if refused is None else Untrusted(refused)

    def run(self, ready: Ready, started: str) -> HeavyAnswer:
        assert ready.request.backend == "era"
        self.ran += 1
        ran = HeavyRun(self.outcome, 1, 1, 1, (PROOF, PROOF), "0" * 64, self.refused)
        return HeavyAnswer(started, ran, Confinement("0" * 64, (), (), "qemu-emulation"))


# claim TG-C-322
def test_what_was_never_handed_to_its_guest_goes_back_to_a_human(ws: Workspace) -> None:
    places: list[str | None] = []
    mute = HeavyOutcome(DID_NOT_WAKE, note="the guest did not wake up")
    for outcome in (HeavyOutcome("ok", 0), HeavyOutcome(NOT_AS_PROMISED), mute):
        request = approved(ws, f"print({len(places)})")
        (report,) = run_requests(ws, [request], heavy=partial(Answers, ws, outcome))
        assert report.made is not None
        assert report.made.result.exit == outcome.exit
        places.append(ws.store.locate(request))
        # Spent either way: that is durable before a machine is started, and no crash grants one.
        assert was_used(ws.store, report.made.result.approval)
    held = states.directory_of("tr", "held")
    assert places == [states.directory_of("tr", "done"), held, held]


def test_a_disk_without_room_refuses_one_request_and_spends_nothing(ws: Workspace) -> None:
    class Full(StubLane):
        def prove(self, ready: Ready) -> None:
            super().prove(ready)
            if self.proved == 1:
                raise StorageFailed("cannot keep a snapshot: No space left on device")

    first, second = approved(ws, "print(1)"), approved(ws, "print(2)")
    lane = Full(ws)
    reports = list(run_requests(ws, [first, second], heavy=lambda: lane))
    assert [type(report.error) for report in reports] == [StorageFailed, GateUnavailable]
    assert ws.store.locate(first) == states.directory_of("tr", "approved")
    assert lane.ran == 1, "control: the next one is proved and runs"


# claim TG-C-442
def test_a_claim_reserves_what_the_run_may_leave_whatever_the_policy_keeps_free(
    ws: Workspace,
) -> None:
    assert ws.bundle.integer("handoff", "reserve_bytes") == 64 * 2**20
    small, large = request_for(Task("1")), request_for(Task("2").limited(disk_bytes=200 * 2**20))
    reserved = []
    for request in (small, large):
        made = replace(request, created=ws.now())
        take_in(ws, made)
        approve_for(ws, made, functions_sha256=None)
        with mock.patch.object(lifecycle, "claim_group", wraps=claim_group) as claim:
            list(run_requests(ws, [registry.id_of(made)], heavy=lambda: StubLane(ws)))
        reserved.append(claim.call_args.kwargs["reserve_bytes"])
    assert reserved[0] == 64 * 2**20, "control: the policy's, where the run may leave less"
    assert reserved[1] >= 200 * 2**20 + large.limits.output_bytes


# claim TG-C-243
def test_of_an_answer_that_is_none_little_is_kept(ws: Workspace) -> None:
    lane = Answers(ws, HeavyOutcome("crashed"), b"rubbish" * 100_000)
    request = approved(ws, "print(1)")
    (report,) = run_requests(ws, [request], heavy=lambda: lane)
    assert report.made is not None
    assert report.made.result.exit == "crashed"
    kept = [name for name in ws.store.names(states.QUARANTINE) if name.endswith(".bytes")]
    assert len(kept) == 1, "control: it is kept"
    data = ws.store.read_file(states.QUARANTINE, kept[0])
    assert data == (b"rubbish" * 100_000)[:MAX_RUBBISH_BYTES]
