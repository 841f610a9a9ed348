"""Policies that follow one another, and executors that a test can make lie or die."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests.support.policies import policy
from tests.support.sshlab import Forge, Key
from threegate.base.errors import GateUnavailable, PolicyDenied
from threegate.host.run.warm.executors import APPLIED, STATES, Signed, Status
from threegate.host.run.warm.pool import ExecutorPool, Lent
from threegate.policy.bundle import NAMESPACE, Bundle, Compiled

OPERATOR = Key(b"\x01" * 32)  # the signer of tests.support.policies
FINISH = ("running: stop", "running: finish")
KEEP = ("on_bad_bundle: quarantine", "on_bad_bundle: keep-last")


def signed(bundle: Bundle, key: Key = OPERATOR) -> Signed:
    """Return a policy with a signature by a key."""
    message = bundle.bundle_bytes()
    return Signed(bundle, Forge(key, message=message, namespace=NAMESPACE.encode()).armored())


def after(bundle: Bundle, rules: Compiled | None = None) -> Bundle:
    """Return the bundle that follows another one."""
    compiled = rules or policy()
    return compiled.bundle(generation=bundle.generation + 1, previous=bundle.digest)


@cache
def variants(*changes: tuple[str, str]) -> tuple[Compiled, ...]:
    """Return policies that differ in what the lite lane may import."""
    names = ("base64, ", "base64, binascii, ", "base64, binascii, bisect, ")
    found = []
    for left_out in ("", *names):
        edits = [*changes, (f"allowed_imports: [{left_out}", "allowed_imports: [")]
        found.append(edited(*edits))
    return tuple(found)


def edited(*edits: tuple[str, str]) -> Compiled:
    """Return the shipped policy with several changes of the file for TOOL-EXEC."""
    from tests.support.policies import GATES, policy_files
    from threegate.policy.compiler import compile_policy

    files = policy_files()
    text = files["tool-exec.policy.md"].decode("utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return compile_policy({**files, "tool-exec.policy.md": text.encode("utf-8")}, gates=GATES)


@cache
def chain(count: int, *changes: tuple[str, str]) -> tuple[Signed, ...]:
    """Return so many policies, each signed to follow the one before."""
    rules = variants(*changes)
    found = [signed(rules[0].bundle())]
    for number in range(1, count):
        found.append(signed(after(found[-1].bundle, rules[number % len(rules)])))
    return tuple(found)


Hook = Callable[[], None]


@dataclass(eq=False)
class FakeExecutor:
    """Enforces what it is told, unless it lies; `meanwhile` happens while it is at it."""

    truth: Bundle
    meanwhile: Hook = lambda: None
    lies: bool = False
    alive: bool = True
    closed: bool = False
    running: bool = False
    jobs: int = 0
    wrong: list[str] = field(default_factory=list)

    def adopt(self, signed: Signed) -> None:
        self.meanwhile()
        if self.running:
            self.wrong.append("the rules of a run were changed under it")
        if not self.alive:
            raise GateUnavailable("it is gone")
        if signed.bundle.generation <= self.truth.generation:
            raise PolicyDenied("older", code="TG-PSH-001")
        if not self.lies:
            self.truth = signed.bundle
        self.meanwhile()

    def enforced(self) -> object:
        self.meanwhile()
        if not self.alive:
            raise GateUnavailable("it is gone")
        return self.truth.digest

    def stop(self) -> None:
        self.alive = False

    def close(self) -> None:
        self.alive, self.closed = False, True


@dataclass
class FakeKind:
    """Starts executors, and remembers all of them."""

    meanwhile: Hook = lambda: None
    restart: bool = False  # whether nothing can be taken over
    broken: bool = False  # whether nothing starts
    name: str = "fake"
    made: list[FakeExecutor] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def start(self, bundle: Bundle) -> FakeExecutor:
        self.meanwhile()
        if self.broken:
            raise GateUnavailable("nothing starts here")
        self.made.append(FakeExecutor(bundle, self.meanwhile, wrong=self.wrong))
        return self.made[-1]

    def wanted(self, bundle: Bundle) -> bool:
        return bundle.text("tool-exec", "lanes", "monty", "enabled") == "yes"

    def needs_restart(self, old: Bundle, new: Bundle) -> str:
        return "it cannot be changed" if self.restart and old is not new else ""

    def expected(self, bundle: Bundle) -> object:
        return bundle.digest


def settled(pool: ExecutorPool[Any]) -> None:
    """Do everything there is to do."""
    while sum(pool.step(slot) for slot in pool.slots):
        pass


class World:
    """A pool among random events; whatever it says or lends is compared with what is true."""

    def __init__(
        self, seed: int, pools: type[ExecutorPool[FakeExecutor]], *changes: tuple[str, str]
    ) -> None:
        self.random = random.Random(seed)
        self.kind = FakeKind(self.meanwhile)
        self.now = 0.0
        self.told: list[Status] = []
        self.pool = pools(self.kind, 2, self.tell, clock=lambda: self.now)
        self.chain = chain(10, *changes)
        self.at = 0
        self.lent: list[tuple[Lent[FakeExecutor], Bundle]] = []
        self.depth = 0
        self.taken = 0

    def must(self, holds: bool, otherwise: str) -> None:
        """Keep what is wrong: a pool takes every error as the executor's."""
        if not holds:
            self.kind.wrong.append(otherwise)

    def tell(self, status: Status) -> None:
        self.must(status.state in STATES, "no such state")
        self.told.append(status)
        if status.state != APPLIED:
            return
        slot = next(one for one in self.pool.slots if one.status.executor == status.executor)
        true = slot.executor.truth.digest if slot.executor is not None else ""
        self.must(true == status.policy, "acknowledged before it is enforced")
        earlier = [
            one.generation
            for one in self.told
            if one.executor == status.executor and one.state == APPLIED
        ]
        self.must(earlier == sorted(earlier), "gone back")

    def meanwhile(self) -> None:
        """Let anything happen while an executor is talked to."""
        if self.depth < 3 and self.random.random() < 0.5:
            self.depth += 1
            self.happen()
            self.depth -= 1

    def happen(self) -> None:
        acts: list[Callable[[], Any]] = [self.push, self.take, self.take, self.finish, self.age]
        acts += [self.roll_back, self.kill, self.lie, self.pool.again, self.refuse]
        acts += [self.step] * 8
        self.random.choice(acts)()

    def step(self) -> None:
        self.pool.step(self.random.choice(self.pool.slots))

    def push(self) -> None:
        if self.at < len(self.chain) - 1:
            start, self.at = self.at + 1, min(self.at + self.random.choice((1, 1, 2)), 9)
            self.pool.push(*self.chain[start : self.at + 1])

    def roll_back(self) -> None:
        if self.at:
            try:
                self.pool.push(self.chain[self.random.randrange(self.at)])
            except PolicyDenied as exc:
                assert exc.code == "TG-PSH-001"
            else:
                self.must(holds=False, otherwise="an older policy was taken")

    def refuse(self) -> None:
        if self.random.random() < 0.2:
            self.pool.refuse(PolicyDenied("nobody signed it", code="TG-KEY-003"))

    def age(self) -> None:
        self.now += self.random.choice((1.0, 40.0, 700.0))

    def kill(self) -> None:
        if self.kind.made and self.random.random() < 0.3:
            self.random.choice(self.kind.made).alive = False

    def lie(self) -> None:
        if self.kind.made and self.random.random() < 0.3:
            self.random.choice(self.kind.made).lies = True

    def take(self) -> None:
        """Look for an executor of some policy; what is lent enforces it and has seen nothing."""
        wanted = self.chain[self.random.choice((self.at, max(0, self.at - 1)))].bundle
        try:
            lent = self.pool.take(wanted, seconds=0)
        except GateUnavailable:
            return
        executor = lent.executor
        self.must(executor.truth.digest == wanted.digest, "lent under other rules")
        self.must(self.chain[self.at].bundle.digest == wanted.digest, "lent under replaced rules")
        said = [one for one in self.told if one.executor == lent.slot.status.executor]
        acknowledged = bool(said) and (said[-1].state, said[-1].policy) == (APPLIED, wanted.digest)
        self.must(acknowledged, "not acknowledged")
        self.must(executor.jobs == 0, "used twice")
        executor.running, executor.jobs = True, 1
        self.taken += 1
        self.lent.append((lent, wanted))

    def finish(self) -> None:
        if self.lent:
            lent, wanted = self.lent.pop(self.random.randrange(len(self.lent)))
            executor = lent.executor
            self.must(executor.truth.digest == wanted.digest, "it ended under other rules")
            self.must(not executor.closed, "it was ended by somebody else")
            executor.running = False
            lent.give_back(used=True)
            self.must(executor.closed, "it goes on after its job")

    def settle(self) -> None:
        """Let nothing but the threads of the pool happen until there is nothing left to do."""
        self.depth = 99
        while self.lent:
            self.finish()
        self.pool.again()
        settled(self.pool)

    def run(self, count: int) -> None:
        self.pool.push(self.chain[0])
        for _ in range(count):
            self.happen()
        self.settle()
        for slot in self.pool.slots:
            honest = slot.executor is not None and not slot.executor.lies
            place = (slot.status.state, slot.status.policy)
            end = (APPLIED, self.chain[self.at].bundle.digest)
            self.must(place == end or not honest, "not as far as it should be")
        self.pool.close()
        settled(self.pool)
        self.must(all(executor.closed for executor in self.kind.made), "left behind")
        assert not self.kind.wrong, self.kind.wrong
