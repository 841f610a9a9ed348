"""Rules pushed to real boxes: what they enforce afterwards, and what they refuse to take over.

The attacker owns an executor, or has got at the workspace and pushes what nobody signed.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.support.lite import Program, job_for
from tests.support.policies import altered, policy
from tests.support.pushing import after, chain, signed
from tests.support.sshlab import Key
from threegate.base.errors import GateUnavailable, PolicyDenied
from threegate.gates.tool_exec.monty.messages import Enforced
from threegate.host.run.warm.executors import APPLIED, RESTART, UNAVAILABLE, Signed, Status
from threegate.host.run.warm.kinds import LentBox, LiteExecutor, LiteKind
from threegate.host.run.warm.pool import ExecutorPool
from threegate.policy.bundle import Bundle
from threegate.sandbox.machine import find_machine

FIRST, SECOND, THIRD = chain(3)
USES = Program("import base64\n1")


@contextmanager
def kept(first: Signed, size: int = 1, kind: LiteKind | None = None) -> "Iterator[Kept]":
    """Keep real boxes under a policy, acknowledged."""
    found = Kept(first, size, kind or LiteKind())
    try:
        yield found
    finally:
        found.pool.close()


class Kept:
    """A pool of real boxes and everything it says."""

    def __init__(self, first: Signed, size: int, kind: LiteKind) -> None:
        self.told: list[Status] = []
        self._news = threading.Condition()
        self.pool: ExecutorPool[LiteExecutor] = ExecutorPool(kind, size, self._tell)
        self.pool.push(first)
        self.pool.open()

    def _tell(self, status: Status) -> None:
        with self._news:
            self.told.append(status)
            self._news.notify_all()

    def wait(self, *wanted: tuple[str, int, str]) -> None:
        """Wait until the executors said exactly this, in this order."""
        with self._news:
            self._news.wait_for(lambda: len(self.told) >= len(wanted), 60)
        found = [(one.state, one.generation, one.code) for one in self.told]
        assert found[: len(wanted)] == [*wanted], self.told

    def run(self, program: Program, rules: Bundle) -> tuple[str, str | None]:
        """Run a program that was approved under rules, in a box that enforces these."""
        lent = LentBox(self.pool.take(rules, seconds=60))
        ran = lent.run(job_for(program, rules), wall_ms=20_000)
        return ran.outcome.exit, ran.outcome.code


# claim TG-C-80
def test_a_box_that_waits_takes_the_next_policy_over_and_holds_programs_to_it() -> None:
    with kept(FIRST) as boxes:
        boxes.wait((APPLIED, 1, ""))
        first = boxes.pool.slots[0].executor
        boxes.pool.push(SECOND)
        boxes.wait((APPLIED, 1, ""), (APPLIED, 2, ""))
        assert boxes.pool.slots[0].executor is first, "the very same box"
        assert boxes.run(USES, SECOND.bundle) == ("refused:import", None)
    with kept(FIRST) as boxes:
        assert boxes.run(USES, FIRST.bundle) == ("ok", None), "control: before the push"


# claim TG-C-317
def test_a_box_serves_one_job_and_the_next_comes_from_another() -> None:
    with kept(FIRST) as boxes:
        lent = boxes.pool.take(FIRST.bundle, seconds=60)
        first = lent.executor
        box = LentBox(lent)
        assert box.run(job_for(USES, FIRST.bundle), wall_ms=20_000).outcome.exit == "ok"
        assert not box.usable
        assert not first.alive
        again = boxes.pool.take(FIRST.bundle, seconds=60)
        assert again.executor is not first
        again.give_back(used=False)


# claim TG-C-313
def test_a_real_box_refuses_what_is_not_the_next_signed_policy() -> None:
    bad = {
        "TG-PSH-001": FIRST,
        "TG-PSH-002": signed(replace(THIRD.bundle, previous="0" * 64)),
        "TG-KEY-003": signed(THIRD.bundle, Key(b"\x02" * 32)),
        "TG-KEY-002": Signed(THIRD.bundle, SECOND.armored),
    }
    box = LiteKind().start(SECOND.bundle)
    try:
        for code, one in bad.items():
            with pytest.raises(PolicyDenied) as caught:
                box.adopt(one)
            assert caught.value.code == code
            assert box.enforced() == LiteKind().expected(SECOND.bundle), "it keeps what it has"
        box.adopt(THIRD)
        assert box.enforced() == LiteKind().expected(THIRD.bundle), "control: the next one"
    finally:
        box.close()


class Deaf(LiteExecutor):
    """An executor that says it took the rules over, and did not."""

    told: Bundle | None = None

    def adopt(self, signed: Signed) -> None:
        self.told = signed.bundle


class Forger(Deaf):
    """One that also says it is where it was told to be."""

    def enforced(self) -> Enforced:
        found, told = super().enforced(), self.told
        if told is None:
            return found
        return replace(found, generation=told.generation, policy=told.digest)


class Owned(LiteKind):
    """A pool whose first executor is owned, and the others are not."""

    def __init__(self, kind: type[LiteExecutor]) -> None:
        super().__init__()
        self._kinds = [kind]

    def start(self, bundle: Bundle) -> LiteExecutor:
        found = super().start(bundle)
        kind = self._kinds.pop() if self._kinds else LiteExecutor
        return kind(found.box, find_machine().arch.numbers)


@pytest.mark.parametrize("kind", [Deaf, Forger])
# claim TG-C-312
def test_an_executor_that_acknowledges_falsely_is_unavailable(kind: type[LiteExecutor]) -> None:
    with kept(FIRST, kind=Owned(LiteExecutor)) as honest:
        honest.wait((APPLIED, 1, ""))
        honest.pool.push(SECOND)
        honest.wait((APPLIED, 1, ""), (APPLIED, 2, ""))  # control
    with kept(FIRST, kind=Owned(kind)) as boxes:
        boxes.wait((APPLIED, 1, ""))
        boxes.pool.push(SECOND)
        boxes.wait((APPLIED, 1, ""), (UNAVAILABLE, 0, "TG-PSH-003"))
        with pytest.raises(GateUnavailable) as caught:
            boxes.pool.take(SECOND.bundle, seconds=0)
        assert caught.value.code == "TG-PSH-003"
        boxes.pool.again()
        boxes.wait((APPLIED, 1, ""), (UNAVAILABLE, 0, "TG-PSH-003"), (APPLIED, 2, ""))


# claim TG-C-311
def test_a_gate_whose_box_is_signed_otherwise_is_flagged_and_restarted() -> None:
    wider = altered(
        policy(), lambda sections: sections["gates"]["tool-lite"].update(open_files=129)
    )
    narrower = altered(
        policy(), lambda sections: sections["gates"]["tool-lite"].update(open_files=127)
    )
    second = signed(after(FIRST.bundle, wider))
    third = signed(after(second.bundle, narrower))
    with kept(FIRST) as boxes:
        boxes.wait((APPLIED, 1, ""))
        before = boxes.pool.slots[0].executor
        boxes.pool.push(second)
        said = [(APPLIED, 1, ""), (RESTART, 1, ""), (APPLIED, 2, "")]
        boxes.wait(*said)
        assert boxes.told[1].reason == "the signed sandbox of tool-lite changed"
        assert boxes.pool.slots[0].executor is not before
        boxes.pool.take(second.bundle, seconds=60).give_back(used=False)
        # What this program starts lets more happen than was signed: no restart helps.
        boxes.pool.push(third)
        boxes.wait(*said, (RESTART, 2, ""), (UNAVAILABLE, 0, "TG-BOX-040"))
