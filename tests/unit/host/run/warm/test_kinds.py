"""A machine that is ready to be resumed: which rules it can take over, and how a run is stopped."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

import pytest

from tests.support.heavy import ENABLED, Task, request_for
from tests.support.images import kept
from tests.support.policies import altered, policy
from tests.support.pushing import after, settled, signed
from threegate.base.errors import GateUnavailable
from threegate.gates.tool_exec.era.messages import HeavyOutcome
from threegate.host.images.store import Image
from threegate.host.run.heavy import lane as module
from threegate.host.run.heavy.backend import Asked, HeavyRun, Say, Want
from threegate.host.run.heavy.lane import HeavyLane, Lane
from threegate.host.run.ready import Ready
from threegate.host.run.warm.executors import APPLIED, NONE, RESTART, UNAVAILABLE, Signed, Status
from threegate.host.run.warm.kinds import HeavyExecutor, HeavyKind, WarmLane
from threegate.host.run.warm.pool import ExecutorPool
from threegate.policy.bundle import Bundle, Compiled
from threegate.sandbox.launch import Evidence
from threegate.sandbox.service import Companion

PROOF = Evidence("tool-heavy", "0" * 64, "0" * 64, "6.1", 4, mdwe=True, own_uid=False, proofs=())
BASE = policy(tool_exec=ENABLED)
FIRST = signed(BASE.bundle())


@dataclass
class FakeMachine:
    """A machine that runs until it is killed."""

    killed: threading.Event = field(default_factory=threading.Event)

    def kill(self) -> None:
        self.killed.set()


@dataclass
class FakeBackend:
    """An engine that keeps what it was asked, and whose runs last until somebody ends them."""

    image: Image
    name: str = "qemu-emulation"
    prepared: list[str] = field(default_factory=list)
    probed: list[str] = field(default_factory=list)
    machines: list[FakeMachine] = field(default_factory=list)
    mute: bool = False
    patience: float = 60.0

    def prepare(self, want: Want, say: Say = lambda _: None) -> None:
        say("booting")
        self.prepared.append(want.ring.digest)

    def probe(self, want: Want) -> tuple[str, ...]:
        if self.mute:
            raise GateUnavailable("the guest is not as promised", code="TG-ERA-002")
        self.probed.append(want.ring.digest)
        return ()

    def run(self, want: Want, asked: Asked) -> HeavyRun:
        assert want.memory_mib > 0
        machine = FakeMachine()
        self.machines.append(machine)
        asked.begun(cast("Companion", machine))
        ended = machine.killed.wait(self.patience)
        outcome = HeavyOutcome("crashed" if ended else "ok", None if ended else 0)
        return HeavyRun(outcome, 1, 1, 1, (PROOF, PROOF), "0" * 64)

    def under(self, _: Bundle) -> Self:
        return self

    def close(self) -> None:
        """Nothing is open."""

    def versions(self) -> dict[str, str]:
        return {"engine": self.name}


def edited(rules: Compiled, **changes: Any) -> Compiled:
    """Return the policy with other values in its profile of Python."""

    def change(sections: dict[str, Any]) -> None:
        sections["tool-exec"]["interpreter_ring"]["python"].update(changes)

    return altered(rules, change)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    found = FakeBackend(kept(tmp_path))
    monkeypatch.setattr(module, "open_backend", lambda *_: found)
    return found


def opened(
    tmp_path: Path, engine: FakeBackend, first: Signed = FIRST
) -> tuple[ExecutorPool[HeavyExecutor], list[Status]]:
    told: list[Status] = []
    pool = ExecutorPool(HeavyKind(tmp_path, lambda _: engine.image), 1, told.append)
    pool.push(first)
    settled(pool)
    assert [(one.state, one.generation) for one in told] == [(APPLIED, 1)], "control"
    told.clear()
    return pool, told


# claim TG-C-311
def test_another_ring_needs_another_snapshot_and_other_rules_only_a_probe(
    tmp_path: Path, engine: FakeBackend
) -> None:
    pool, told = opened(tmp_path, engine)
    other = altered(BASE, lambda one: one["handoff"].update(held_expiry_seconds=3600))
    second = signed(after(FIRST.bundle, other))
    pool.push(second)
    settled(pool)
    assert [(one.state, one.generation) for one in told] == [(APPLIED, 2)]
    assert (len(engine.prepared), len(engine.probed)) == (1, 2), "the snapshot stays"
    told.clear()
    third = signed(after(second.bundle, edited(other, allowed_imports=["json"])))
    pool.push(third)
    assert pool.step(pool.slots[0])
    assert [(one.state, one.reason) for one in told] == [
        (RESTART, "its snapshot enforces another ring")
    ]
    with pytest.raises(GateUnavailable):
        pool.take(third.bundle, seconds=0)
    settled(pool)
    assert [(one.state, one.generation) for one in told[1:]] == [(APPLIED, 3)]
    assert engine.prepared[0] != engine.prepared[1] == engine.probed[-1]


# claim TG-C-312
def test_a_guest_that_does_not_prove_its_ring_is_unavailable(
    tmp_path: Path, engine: FakeBackend
) -> None:
    pool, told = opened(tmp_path, engine)
    engine.mute = True
    pool.again()
    settled(pool)
    assert [(one.state, one.code) for one in told] == [(UNAVAILABLE, "TG-ERA-002")]
    with pytest.raises(GateUnavailable):
        pool.take(FIRST.bundle, seconds=0)


def test_a_lane_that_policy_turns_off_has_no_executor(tmp_path: Path, engine: FakeBackend) -> None:
    pool, told = opened(tmp_path, engine)
    second = signed(after(FIRST.bundle, policy()))
    pool.push(second)
    settled(pool)
    assert [one.state for one in told] == [NONE]
    with pytest.raises(GateUnavailable, match="no era lane"):
        pool.take(second.bundle, seconds=0)
    pool.push(signed(after(second.bundle, BASE)))
    settled(pool)
    assert [(one.state, one.generation) for one in told[1:]] == [(APPLIED, 3)]


@dataclass
class Given:
    request: bytes = b"r"
    approval: bytes = b"a"
    signature: bytes = b"s"


@dataclass
class Stub:
    """As much of a ready request as a lane looks at."""

    request: Any = field(default_factory=lambda: request_for(Task("print(1)")))
    request_id: str = "tr-1"
    presented: Given = field(default_factory=Given)
    inputs: tuple[()] = ()


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "of-one-command"])
@pytest.mark.parametrize("stops", [True, False])
# claim TG-C-315
def test_a_lane_that_is_stopped_ends_its_machine_and_starts_no_other(
    tmp_path: Path, engine: FakeBackend, waits: bool, stops: bool
) -> None:
    engine.patience = 60.0 if stops else 0.2
    pool, _ = opened(tmp_path, engine)
    ready = cast("Ready", Stub())
    lane: Lane = WarmLane(pool, FIRST.bundle)
    if not waits:
        lane = HeavyLane(FIRST.bundle, tmp_path, lambda _: engine.image)
    lane.prove(ready)
    ended: list[str] = []
    thread = threading.Thread(target=lambda: ended.append(lane.run(ready, "now").ran.outcome.exit))
    thread.start()
    while not engine.machines:
        threading.Event().wait(0.01)
    if stops:
        lane.stop()
    thread.join()
    assert ended == ["crashed" if stops else "ok"]
    lane.prove(ready)
    assert (lane.run(ready, "now").ran.outcome.exit == "crashed") == stops, "the next one as well"
    assert [one.killed.is_set() for one in engine.machines] == [stops] * 2
    lane.close()
    settled(pool)
    pool.take(FIRST.bundle, seconds=0).give_back(used=False)  # another one, if that was stopped
