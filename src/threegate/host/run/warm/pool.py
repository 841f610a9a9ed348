"""A pool of executors of one kind, each waiting for one job, and the effect of a push on them.

Each executor has a thread, which starts it, hands it new rules while it waits, reads back the rules
that it enforces, and only then publishes them: first in the log, then to callers of `take`.  A
running executor is not touched: it ends with its job, and `run.rules` follows the policy for it.

SECURITY
    Decides under which rules an executor may be given work: exactly those it was read back with,
    and none while it is being changed.  If this module is wrong, a run that was approved
    under one policy meets another one.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Generic

from threegate.base.errors import GateUnavailable, PolicyDenied, ThreeGateError
from threegate.host.run.rules import PUSH, REPLACED, ROLLED_BACK
from threegate.host.run.warm.executors import (
    APPLIED,
    NONE,
    OTHER_RULES,
    QUARANTINED,
    RESTART,
    STARTING,
    UNAVAILABLE,
    E,
    Kind,
    Signed,
    Slot,
    Status,
    failed,
    with_state,
)
from threegate.policy.bundle import Bundle

AGAIN_SECONDS: Final = 30.0  # after an executor could not be started
WAIT_SECONDS: Final = 120.0  # for one that is being started or changed
IDLE_SECONDS: Final = 600.0  # then it is replaced: the program it runs may have changed on disk
LOOK_SECONDS: Final = 1.0
MAX_STEPS: Final = 32  # generations an executor is led through; beyond, it is restarted


@dataclass(eq=False, slots=True)
class Lent(Generic[E]):
    """An executor that somebody took, for one job."""

    pool: "ExecutorPool[E]"
    slot: Slot[E]
    executor: E
    back: bool = False

    def give_back(self, *, used: bool) -> None:
        """Let go of it; one that was used ends here.  Twice is once."""
        if not self.back:
            self.back = True
            self.pool.take_back(self, used=used)


@dataclass(eq=False)
class ExecutorPool(Generic[E]):
    """A few executors of one kind."""

    kind: Kind[E]
    size: int
    tell: Callable[[Status], None]  # writes to the log, durably, or raises
    clock: Callable[[], float] = time.monotonic
    again_seconds: float = AGAIN_SECONDS
    idle_seconds: float = IDLE_SECONDS
    slots: list[Slot[E]] = field(init=False)

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._target: Signed | None = None
        self._known: dict[str, Signed] = {}  # by the digest of the policy each follows
        self._refused: ThreeGateError | None = None  # a bad bundle, and policy says quarantine
        self._closed = False
        names = [f"{self.kind.name}-{number}" for number in range(1, self.size + 1)]
        self.slots = [
            Slot(Status(name, self.kind.name, UNAVAILABLE, reason=STARTING)) for name in names
        ]
        self._threads = [
            threading.Thread(target=self._keep, args=(slot,), name=slot.status.executor)
            for slot in self.slots
        ]

    # Called by others.

    def open(self) -> None:
        """Begin to keep executors."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End every executor that waits; returns when nothing of them is left."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def push(self, *steps: Signed) -> None:
        """Have everything from now on under the last of these rules; an older number is refused.

        Each of them follows the one before.
        """
        signed = steps[-1]
        with self._changed:
            now = self._target
            if now is not None and signed.bundle.digest == now.bundle.digest:
                return  # a quarantine stays until the next request to push
            if now is not None and signed.bundle.generation <= now.bundle.generation:
                message = f"generation {signed.bundle.generation} is not newer than what is pushed"
                raise PolicyDenied(message, code=ROLLED_BACK)
            self._target, self._refused = signed, None
            self._remember(steps)
            self._ask_all()
            self._changed.notify_all()

    def again(self) -> None:
        """Have every executor read back again, and failed ones started again."""
        with self._changed:
            self._refused = None
            self._ask_all()
            self._changed.notify_all()

    def refuse(self, error: ThreeGateError) -> None:
        """Note a policy that does not count; the last one that did says what happens."""
        with self._changed:
            if self._target is None:
                return
            if self._target.bundle.text(*PUSH, "on_bad_bundle") == "quarantine":
                self._refused = error
            self._changed.notify_all()

    def take(self, bundle: Bundle, *, seconds: float = WAIT_SECONDS) -> Lent[E]:
        """Return an executor that enforces exactly these rules, or raise `GateUnavailable`."""
        end = self.clock() + seconds
        with self._changed:
            while True:
                found = next((slot for slot in self.slots if self._fits(slot, bundle)), None)
                if found is not None:
                    assert found.executor is not None
                    found.taken = True
                    return Lent(self, found, found.executor)
                self._refuse_hopeless(bundle, late=self.clock() >= end)
                self._changed.wait(LOOK_SECONDS)

    def take_back(self, lent: Lent[E], *, used: bool) -> None:
        """Take an executor back; see `Lent.give_back`."""
        if used:
            with self._changed:  # from here on nobody stops an executor that is being closed
                lent.slot.executor = lent.slot.bundle = None
            lent.executor.close()
        with self._changed:
            lent.slot.taken = False
            self._changed.notify_all()

    # Run by the thread of an executor.

    def _keep(self, slot: Slot[E]) -> None:
        while True:
            if self.step(slot):
                continue
            with self._changed:
                if self._closed and slot.executor is None:
                    return
                if self._due(slot) is None:
                    self._changed.wait(LOOK_SECONDS)

    def step(self, slot: Slot[E]) -> bool:
        """Do the next thing there is to do for an executor; return whether there was one."""
        with self._changed:
            act = self._due(slot)
            if act is None:
                return False
            slot.working, slot.answering = True, slot.asked
        try:
            self._carry_out(slot, act)
        except Exception as exc:  # noqa: BLE001  # the log failed: then no executor may work
            if not slot.taken:  # its borrower ends it
                self._drop(slot)
            with self._changed:
                slot.status = failed(slot.status, exc)
                slot.stuck, slot.again_at = True, self.clock() + self.again_seconds
        finally:
            with self._changed:
                slot.working = False
                self._changed.notify_all()
        return True

    def _carry_out(self, slot: Slot[E], act: Callable[[], None]) -> None:
        """Do it; a failure of an executor or its kind becomes its published state."""
        try:
            act()
        except (ThreeGateError, OSError) as exc:
            if slot.taken:  # the log refused the flag
                raise
            # A refusal by the rules is final until the next push.
            self._fail(slot, exc, again=not isinstance(exc, PolicyDenied))

    def _due(self, slot: Slot[E]) -> Callable[[], None] | None:
        if slot.working:
            return None
        if slot.taken:
            return partial(self._flag, slot) if self._must_flag(slot) else None
        executor, target = slot.executor, self._target
        if self._closed or target is None:
            return partial(self._drop, slot) if executor is not None else None
        if not self.kind.wanted(target.bundle):
            gone = slot.status.state == NONE and executor is None
            return None if gone else partial(self._retire, slot)
        if self._refused is not None:
            done = slot.status.code == QUARANTINED and executor is None
            return None if done else partial(self._quarantine, slot)
        stale = self.clock() - slot.since > self.idle_seconds
        if executor is not None and (stale or not executor.alive):
            return partial(self._drop, slot)
        if slot.stuck and (slot.again_at == 0.0 or self.clock() < slot.again_at):
            return None
        if executor is None:
            return partial(self._start, slot, target)
        if slot.bundle is None or slot.bundle.digest != target.bundle.digest:
            return partial(self._lead, slot, target)
        return partial(self._prove, slot) if slot.answered < slot.asked else None

    def _start(self, slot: Slot[E], target: Signed) -> None:
        executor = self.kind.start(target.bundle)
        slot.since = self.clock()
        self._read_back(slot, executor, target.bundle)

    def _lead(self, slot: Slot[E], target: Signed) -> None:
        """Lead an executor that waits from the rules it enforces to those in force."""
        assert slot.executor is not None
        assert slot.bundle is not None
        steps = self._steps(slot.bundle, target)
        why = self.kind.needs_restart(slot.bundle, target.bundle)
        if steps is None:
            why = "it is too many generations behind"
        if why:
            self._restart(slot, why)
            return
        kept = slot.bundle
        for signed in steps or ():
            try:
                slot.executor.adopt(signed)
            except PolicyDenied as exc:
                self._rejected(slot, exc, kept)
                return
            except ThreeGateError as exc:
                self._restart(slot, exc.message)
                return
            kept = signed.bundle
        self._read_back(slot, slot.executor, target.bundle)

    def _prove(self, slot: Slot[E]) -> None:
        assert slot.executor is not None
        assert slot.bundle is not None
        self._read_back(slot, slot.executor, slot.bundle)

    def _read_back(self, slot: Slot[E], executor: E, bundle: Bundle) -> None:
        """Accept an executor only if it answers what the host computes; then publish it."""
        slot.executor, slot.bundle = executor, None
        if executor.enforced() != self.kind.expected(bundle):
            message = f"it does not enforce generation {bundle.generation}"
            self._fail(slot, GateUnavailable(message, code=OTHER_RULES), again=False)
            return
        name, number = slot.status.executor, bundle.generation
        self._tell(slot, Status(name, self.kind.name, APPLIED, number, bundle.digest))
        slot.bundle = bundle

    def _restart(self, slot: Slot[E], why: str) -> None:
        self._tell(slot, with_state(slot.status, RESTART, why))
        self._drop(slot)

    def _flag(self, slot: Slot[E]) -> None:
        self._tell(
            slot, with_state(slot.status, RESTART, "a job runs in it under the rules before")
        )

    def _rejected(self, slot: Slot[E], error: PolicyDenied, kept: Bundle) -> None:
        """Leave an executor that refuses a policy as the one it enforces says."""
        assert slot.executor is not None
        if kept.text(*PUSH, "on_bad_bundle") == "quarantine":
            self._fail(slot, error, again=False)
            return
        if slot.executor.enforced() != self.kind.expected(kept):
            other = GateUnavailable("it enforces neither policy", code=OTHER_RULES)
            self._fail(slot, other, again=False)
            return
        slot.bundle, slot.stuck = kept, True
        status = failed(slot.status, error)
        self._tell(slot, replace(status, generation=kept.generation, policy=kept.digest))

    def _quarantine(self, slot: Slot[E]) -> None:
        self._drop(slot)
        why = self._refused
        reason = "a policy that does not count" if why is None else f"{why.message} [{why.code}]"
        error = GateUnavailable(f"in quarantine: {reason}", code=QUARANTINED)
        self._tell(slot, failed(slot.status, error))

    def _retire(self, slot: Slot[E]) -> None:
        self._drop(slot)
        self._tell(slot, Status(slot.status.executor, self.kind.name, NONE))

    def _fail(self, slot: Slot[E], error: Exception, *, again: bool) -> None:
        self._drop(slot)
        slot.stuck = True
        slot.again_at = self.clock() + self.again_seconds if again else 0.0
        self._tell(slot, failed(slot.status, error))

    def _drop(self, slot: Slot[E]) -> None:
        executor, slot.executor, slot.bundle = slot.executor, None, None
        if executor is not None:
            executor.stop()
            executor.close()

    def _tell(self, slot: Slot[E], status: Status) -> None:
        """Publish the state of an executor if it changed or was asked for; first in the log."""
        answers = status.state != RESTART and slot.answered < slot.answering
        if status != slot.status or answers:
            self.tell(status)  # durable before anybody may rely on it
        with self._changed:
            slot.status = status
            # A request after this step began gets another answer.
            slot.answered = slot.answering if answers else slot.answered

    # Called with the lock held.

    def _fits(self, slot: Slot[E], bundle: Bundle) -> bool:
        free = not (slot.working or slot.taken or self._closed) and self._refused is None
        if not free or slot.executor is None or slot.bundle is None or self._target is None:
            return False
        same = slot.bundle.digest == bundle.digest == self._target.bundle.digest
        acknowledged = slot.status.state == APPLIED and slot.status.policy == bundle.digest
        return same and acknowledged and slot.executor.alive

    def _refuse_hopeless(self, bundle: Bundle, *, late: bool) -> None:
        """Raise `GateUnavailable` if no pending step can supply an executor for these rules."""
        if self._closed:
            raise GateUnavailable("executors are shutting down")
        if self._refused is not None:
            raise GateUnavailable("executors are in quarantine", code=QUARANTINED)
        target = self._target
        if target is not None and target.bundle.digest != bundle.digest:
            if bundle.generation <= target.bundle.generation:
                detail = "the rules were replaced before the job began"
                raise GateUnavailable(detail, code=REPLACED)
        elif target is not None and not self.kind.wanted(bundle):
            raise GateUnavailable(f"policy has no {self.kind.name} lane")
        elif target is not None and all(slot.stuck for slot in self.slots):
            first = self.slots[0].status
            raise GateUnavailable(first.reason, code=first.code or None)
        if late:
            raise GateUnavailable(f"no {self.kind.name} executor became free")

    def _must_flag(self, slot: Slot[E]) -> bool:
        if self._target is None or self._closed or slot.status.state == RESTART:
            return False
        return slot.status.policy != self._target.bundle.digest

    def _ask_all(self) -> None:
        """Have every executor answer once more."""
        for slot in self.slots:
            slot.stuck, slot.again_at = False, 0.0
            slot.asked += 1

    def _remember(self, steps: Sequence[Signed]) -> None:
        for signed in steps:
            if signed.bundle.previous is not None:
                self._known[signed.bundle.previous] = signed
        while len(self._known) > MAX_STEPS:
            del self._known[next(iter(self._known))]

    def _steps(self, start: Bundle, target: Signed) -> list[Signed] | None:
        """Return the policies from `start` to the target, each signed to follow the last."""
        with self._changed:
            found: list[Signed] = []
            at = start.digest
            while at != target.bundle.digest:
                step = self._known.get(at)
                if step is None:
                    return None
                found.append(step)
                at = step.bundle.digest
            return found
