"""A pool of executors: what it says is true when it says it, and what it lends enforces it."""

from collections.abc import Callable

import pytest

from tests.support.pushing import KEEP, FakeExecutor, FakeKind, World, chain, settled
from threegate.base.errors import GateUnavailable, PolicyDenied, StorageFailed
from threegate.host.run.warm.executors import APPLIED, RESTART, UNAVAILABLE, Slot, Status
from threegate.host.run.warm.pool import ExecutorPool
from threegate.policy.bundle import Bundle
from threegate.policy.ring.compiler import ProfileRejected

FIRST, SECOND, THIRD = chain(3)


def opened(kind: FakeKind, size: int = 1) -> tuple[ExecutorPool[FakeExecutor], list[Status]]:
    """Return a pool under the first policy, and what it says from then on."""
    told: list[Status] = []
    pool = ExecutorPool(kind, size, told.append)
    pool.push(FIRST)
    settled(pool)
    assert [one.state for one in told] == [APPLIED] * size, "control"
    told.clear()
    return pool, told


def said(told: list[Status]) -> list[tuple[str, int, str]]:
    return [(one.state, one.generation, one.code) for one in told]


@pytest.mark.parametrize("changes", [(), (KEEP,)])
# claim TG-C-80, TG-C-310
def test_no_order_of_events_breaks_what_a_pool_promises(
    changes: tuple[tuple[str, str], ...],
) -> None:
    taken = 0
    for seed in range(300):
        world = World(seed, ExecutorPool, *changes)
        world.run(60)
        taken += world.taken
    assert taken > 300, "control: executors were lent among all this"


class SaysFirst(ExecutorPool[FakeExecutor]):
    """Acknowledges what it was told, and asks afterwards."""

    def _read_back(self, slot: Slot[FakeExecutor], executor: FakeExecutor, bundle: Bundle) -> None:
        name = slot.status.executor
        slot.executor = executor
        self._tell(slot, Status(name, "fake", APPLIED, bundle.generation, bundle.digest))
        super()._read_back(slot, executor, bundle)


class LendsAnything(ExecutorPool[FakeExecutor]):
    """Lends what waits, whatever it enforces."""

    def _fits(self, slot: Slot[FakeExecutor], bundle: Bundle) -> bool:  # noqa: ARG002
        return slot.executor is not None and slot.executor.alive and not slot.taken


class ChangesWhatRuns(ExecutorPool[FakeExecutor]):
    """Forgets that a job runs in an executor."""

    def _due(self, slot: Slot[FakeExecutor]) -> Callable[[], None] | None:
        taken, slot.taken = slot.taken, False
        found = super()._due(slot)
        slot.taken = taken
        return found


class NeverCloses(ExecutorPool[FakeExecutor]):
    """Forgets executors that it replaces."""

    def _drop(self, slot: Slot[FakeExecutor]) -> None:
        slot.executor = slot.bundle = None


@pytest.mark.parametrize(
    ("pools", "why"),
    [
        (SaysFirst, "acknowledged before it is enforced"),
        (LendsAnything, "lent under"),
        (ChangesWhatRuns, "it was ended by somebody else"),
        (NeverCloses, "left behind"),
    ],
)
def test_control_a_pool_that_breaks_a_promise_is_found(
    pools: type[ExecutorPool[FakeExecutor]], why: str
) -> None:
    with pytest.raises(AssertionError, match=why):
        for seed in range(300):
            World(seed, pools).run(60)


# claim TG-C-311
def test_what_cannot_take_rules_over_is_flagged_refuses_work_and_is_restarted() -> None:
    kind = FakeKind()
    pool, told = opened(kind)
    pool.push(SECOND)
    settled(pool)
    assert said(told) == [(APPLIED, 2, "")], "control: it takes them over as it is"
    assert len(kind.made) == 1
    told.clear()
    kind.restart = True
    pool.push(THIRD)
    assert pool.step(pool.slots[0])
    assert said(told) == [(RESTART, 2, "")]
    assert told[0].reason == "it cannot be changed"
    with pytest.raises(GateUnavailable):
        pool.take(THIRD.bundle, seconds=0)
    settled(pool)
    assert said(told) == [(RESTART, 2, ""), (APPLIED, 3, "")]
    assert [one.closed for one in kind.made] == [True, False]
    assert pool.take(THIRD.bundle, seconds=0).executor is kind.made[1]


# claim TG-C-312
def test_an_executor_that_says_what_it_does_not_enforce_is_unavailable() -> None:
    kind = FakeKind()
    pool, told = opened(kind, 2)
    kind.made[0].lies = True
    pool.push(SECOND)
    settled(pool)
    assert said(told) == [(UNAVAILABLE, 0, "TG-PSH-003"), (APPLIED, 2, "")], "the other: control"
    assert kind.made[0].closed
    assert pool.take(SECOND.bundle, seconds=0).executor is kind.made[1]
    with pytest.raises(GateUnavailable):
        pool.take(SECOND.bundle, seconds=0)


# claim TG-C-313
def test_an_older_policy_is_refused_and_changes_nothing() -> None:
    kind = FakeKind()
    pool, told = opened(kind)
    pool.push(SECOND)
    settled(pool)
    told.clear()
    with pytest.raises(PolicyDenied) as caught:
        pool.push(FIRST)
    assert caught.value.code == "TG-PSH-001"
    settled(pool)
    assert told == []
    assert kind.made[0].truth is SECOND.bundle
    pool.push(THIRD)
    settled(pool)
    assert said(told) == [(APPLIED, 3, "")], "control: a newer one is taken"


BAD = PolicyDenied("nobody who may has signed it", code="TG-KEY-003")


# claim TG-C-314
def test_after_a_bad_policy_executors_are_in_quarantine_until_somebody_pushes() -> None:
    kind = FakeKind()
    pool, told = opened(kind)
    pool.refuse(BAD)
    settled(pool)
    assert said(told) == [(UNAVAILABLE, 0, "TG-PSH-005")]
    assert "TG-KEY-003" in told[0].reason
    assert kind.made[0].closed
    with pytest.raises(GateUnavailable) as caught:
        pool.take(FIRST.bundle, seconds=0)
    assert caught.value.code == "TG-PSH-005"
    pool.push(FIRST)  # the same as before, found again
    settled(pool)
    assert len(kind.made) == 1, "that alone ends no quarantine"
    pool.again()
    settled(pool)
    assert said(told)[1:] == [(APPLIED, 1, "")]
    assert pool.take(FIRST.bundle, seconds=0).executor is kind.made[1]


# claim TG-C-314
def test_after_a_bad_policy_executors_keep_the_last_if_that_says_so() -> None:
    first = chain(1, KEEP)[0]
    kind = FakeKind()
    told: list[Status] = []
    pool: ExecutorPool[FakeExecutor] = ExecutorPool(kind, 1, told.append)
    pool.push(first)
    settled(pool)
    pool.refuse(BAD)
    settled(pool)
    assert said(told) == [(APPLIED, 1, "")]
    assert not kind.made[0].closed
    assert pool.take(first.bundle, seconds=0).executor.alive, "it is still what it was"


class Picky(FakeExecutor):
    """Refuses every policy."""

    def adopt(self, signed: object) -> None:  # noqa: ARG002
        raise PolicyDenied("not these functions", code="TG-FUN-001")


@pytest.mark.parametrize(("changes", "generation", "closed"), [((), 0, True), ((KEEP,), 1, False)])
# claim TG-C-314
def test_an_executor_that_refuses_a_policy_is_left_as_its_own_says(
    changes: tuple[tuple[str, str], ...], generation: int, closed: bool
) -> None:
    first, second, third = chain(3, *changes)
    kind = FakeKind()
    told: list[Status] = []
    pool: ExecutorPool[FakeExecutor] = ExecutorPool(kind, 1, told.append)
    pool.push(first)
    settled(pool)
    picky = Picky(first.bundle)
    pool.slots[0].executor = picky
    pool.push(second)
    settled(pool)
    assert said(told)[1:] == [(UNAVAILABLE, generation, "TG-FUN-001")]
    assert picky.closed == closed
    with pytest.raises(GateUnavailable):
        pool.take(second.bundle, seconds=0)
    picky.alive = False
    pool.push(third)
    settled(pool)
    assert said(told)[2:] == [(APPLIED, 3, "")], "control: the next policy is tried again"


def test_what_runs_keeps_its_executor_and_its_rules_and_is_flagged() -> None:
    first, second = chain(2)
    kind = FakeKind()
    told: list[Status] = []
    pool: ExecutorPool[FakeExecutor] = ExecutorPool(kind, 1, told.append)
    pool.push(first)
    settled(pool)
    lent = pool.take(first.bundle, seconds=0)
    pool.push(second)
    settled(pool)
    assert lent.executor.alive, "who runs it ends it, or lets it finish"
    assert lent.executor.truth is first.bundle, "its rules stay what they were"
    assert said(told) == [(APPLIED, 1, ""), (RESTART, 1, "")]
    lent.give_back(used=True)
    settled(pool)
    assert said(told)[2:] == [(APPLIED, 2, "")]


def test_who_asks_while_an_answer_is_written_gets_another_one() -> None:
    kind = FakeKind()
    pool, _ = opened(kind)
    told_twice: list[Status] = []

    def tell(status: Status) -> None:
        told_twice.append(status)
        if len(told_twice) == 1:
            pool.again()

    pool.tell = tell
    pool.again()
    settled(pool)
    assert said(told_twice) == [(APPLIED, 1, "")] * 2
    settled(pool)
    assert len(told_twice) == 2, "control: nobody asked a third time"


def test_nothing_is_lent_that_the_log_could_not_take() -> None:
    kind = FakeKind()
    full = True

    def tell(_: Status) -> None:
        if full:
            raise StorageFailed("no room")

    now = 0.0
    pool: ExecutorPool[FakeExecutor] = ExecutorPool(kind, 1, tell, clock=lambda: now)
    pool.push(FIRST)
    settled(pool)
    with pytest.raises(GateUnavailable, match="no room"):
        pool.take(FIRST.bundle, seconds=0)
    assert kind.made[0].closed
    full, now = False, 100.0
    settled(pool)
    assert pool.take(FIRST.bundle, seconds=0).executor.alive, "control: with room it is lent"


def test_a_log_that_takes_nothing_does_not_end_a_job_from_under_who_runs_it() -> None:
    kind = FakeKind()
    pool, _ = opened(kind)
    lent = pool.take(FIRST.bundle, seconds=0)

    def full(_: Status) -> None:
        raise StorageFailed("no room")

    pool.tell = full
    pool.push(SECOND)
    assert pool.step(pool.slots[0]), "it was to be flagged"
    assert lent.executor.alive, "another thread waits for its answer"
    lent.give_back(used=True)
    assert lent.executor.closed
    settled(pool)
    with pytest.raises(GateUnavailable, match="no room"):
        pool.take(SECOND.bundle, seconds=0)
    assert kind.made[0].closed, "control: one that nobody took is ended"


@pytest.mark.parametrize("what", ["needs_restart", "expected"])
# claim TG-C-312
def test_rules_that_no_executor_can_enforce_are_a_failure_that_is_told(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = FakeKind()
    pool, told = opened(kind)

    def cannot(*_: Bundle) -> str:
        raise ProfileRejected("profile python: it cannot", None)

    with monkeypatch.context() as patched:
        patched.setattr(kind, what, cannot)
        pool.push(SECOND)
        settled(pool)
        assert said(told) == [(UNAVAILABLE, 0, "TG-RNG-001")]
        assert told[0].reason == "profile python: it cannot"
        with pytest.raises(GateUnavailable, match="it cannot"):
            pool.take(SECOND.bundle, seconds=0)
        assert all(one.closed for one in kind.made)
    pool.push(THIRD)
    settled(pool)
    assert said(told)[-1] == (APPLIED, 3, ""), "control: with rules it can, it serves again"
