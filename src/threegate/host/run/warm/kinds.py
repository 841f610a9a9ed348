"""Executors that wait under `serve`: sandboxes of the lite lane, snapshots of the heavy lane.

A lite sandbox waits for one job.  In the heavy lane a snapshot waits, compared and probed, and not
a machine: a machine resumed before its job would need the job's disk of inputs before there is one,
would hold its memory for nothing, and its clock and random numbers would wait with it.  Each job
resumes a clone of its own, which ends with it.

SECURITY
    Reads what a sandbox says it enforces.  The sandbox may be owned, so its answer counts only if
    it is what the host computes; and it is given one job, in every case.  A guest is believed only
    as far as its gate believes it: it answers a nonce, and with the digest of the ring it enforces,
    tried again in each clone.  A ring is part of the snapshot, so other rules for code are another
    snapshot, and this one is not resumed any more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, PolicyDenied
from threegate.base.greeting import GateRefused
from threegate.gates.tool_exec.monty import messages as tool_lite
from threegate.gates.tool_exec.monty.messages import Adopt, Enforced, LiteJob, Prove, parse_enforced
from threegate.host.gate_profiles import EVERY_GATE
from threegate.host.run.heavy.gateway import Outward
from threegate.host.run.heavy.lane import FindImage, HeavyAnswer, HeavyLane
from threegate.host.run.lite import LiteBox, LiteRun, start_box
from threegate.host.run.ready import Ready
from threegate.host.run.results import Confinement
from threegate.host.run.verdicts import compile_here
from threegate.host.run.warm.executors import OTHER_RULES, Signed
from threegate.host.run.warm.pool import ExecutorPool, Lent
from threegate.policy.bundle import Bundle
from threegate.policy.ring.compiler import HEAVY_PYTHON, MONTY, compile_ring, offline
from threegate.policy.sections import GATES
from threegate.sandbox import worker
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import ENGINE, RUNSC_FILES, RUNSC_KERNEL, TOOL_HEAVY, TOOL_LITE

LITE_BOXES: Final = (EVERY_GATE, TOOL_LITE.name, worker.NAME)
# A working sandbox has more open descriptors than one that has just started.
ONLY_AT_START: Final = "descriptors:"
HEAVY_LANE: Final = ("tool-exec", "lanes", "era")
HEAVY_BOXES: Final = (
    EVERY_GATE,
    *(profile.name for profile in (TOOL_HEAVY, ENGINE, RUNSC_KERNEL, RUNSC_FILES)),
)
WAIT_SECONDS: Final = 1200.0  # a guest that is emulated boots for minutes


class LiteExecutor:
    """One box that waits."""

    def __init__(self, box: LiteBox, numbers: Mapping[str, int]) -> None:
        tries = tuple(one for one in box.proofs if not one.startswith(ONLY_AT_START))
        self.box, self._prove = box, Prove(tries, numbers)

    @property
    def alive(self) -> bool:
        """Tell whether it can be given work."""
        return self.box.usable

    def adopt(self, signed: Signed) -> None:
        """Hand it the next rules; raises `PolicyDenied` if it refuses them."""
        asked = Adopt(signed.bundle.bundle_bytes(), signed.armored)
        answer = self.box.answer(asked.to_bytes(), tool_lite.GREETING.parse)
        if isinstance(answer, GateRefused):
            raise PolicyDenied(answer.message, code=answer.code)

    def enforced(self) -> Enforced:
        """Have it try every forbidden act again; return what it says it enforces."""
        found = self.box.answer(self._prove.to_bytes(), parse_enforced)
        if found.tried != self._prove.tries:
            raise GateUnavailable("it did not try its lock again", code=OTHER_RULES)
        return replace(found, tried=())

    def stop(self) -> None:
        """End it, from any thread and in any state."""
        self.box.kill()

    def close(self) -> None:
        """End it."""
        self.box.close()


class LiteKind:
    """Boxes of the lite lane."""

    name = MONTY

    def __init__(self) -> None:
        self._machine: Machine | None = None

    def wanted(self, bundle: Bundle) -> bool:
        """Tell whether policy has this lane."""
        return bundle.text("tool-exec", "lanes", MONTY, "enabled") == "yes"

    def start(self, bundle: Bundle) -> LiteExecutor:
        """Start one under these rules, or raise `GateUnavailable`."""
        self._machine = self._machine or find_machine()
        box = start_box(bundle, self._machine, signed=bundle)
        return LiteExecutor(box, self._machine.arch.numbers)

    def needs_restart(self, old: Bundle, new: Bundle) -> str:
        """Return why one that waits cannot take `new` over, or nothing."""
        return boxes_differ(old, new, LITE_BOXES)

    def expected(self, bundle: Bundle) -> Enforced:
        """Return what one that enforces these rules answers."""
        names = bundle.words("tool-exec", "lanes", MONTY, "profiles")
        rings = {name: compile_ring(bundle, MONTY, name).digest for name in names}
        return Enforced(bundle.generation, bundle.digest, rings, ())


def boxes_differ(old: Bundle, new: Bundle, names: Sequence[str]) -> str:
    """Return a reason if the signed profiles of these sandboxes differ, or nothing."""
    before, after = old.value(GATES), new.value(GATES)
    assert isinstance(before, Mapping)
    assert isinstance(after, Mapping)
    changed = [name for name in names if before.get(name) != after.get(name)]
    return f"the signed sandbox of {changed[0]} changed" if changed else ""


class LentBox:
    """A box that was taken from the pool, for one job."""

    def __init__(self, lent: Lent[LiteExecutor]) -> None:
        self._lent = lent

    @property
    def box(self) -> Confinement:
        """What confines it."""
        return self._lent.executor.box.box

    @property
    def usable(self) -> bool:
        """Tell whether it may still be given its job."""
        return not self._lent.back and self._lent.executor.alive

    def run(self, job: LiteJob, *, wall_ms: int) -> LiteRun:
        """Run an approved request; the box ends with it."""
        try:
            return self._lent.executor.box.run(job, wall_ms=wall_ms)
        finally:
            self._lent.give_back(used=True)

    def kill(self) -> None:
        """End it from another thread than the one that waits for its answer."""
        self._lent.executor.stop()

    def close(self) -> None:
        """Give it back unused, if it is."""
        self._lent.give_back(used=not self._lent.executor.alive)


class WarmBoxes:
    """Boxes of one thread, as `run_requests` asks for them: each from the pool, for one job."""

    def __init__(self, pool: ExecutorPool[LiteExecutor], bundle: Bundle) -> None:
        self._pool, self._bundle = pool, bundle
        self._taken: LentBox | None = None

    def box(self, _confidentiality: str) -> LentBox:
        """Return a box that has seen no job."""
        if self._taken is None or not self._taken.usable:
            self.close()
            self._taken = LentBox(self._pool.take(self._bundle))
        return self._taken

    def close(self) -> None:
        """Give back what was taken and not used."""
        if self._taken is not None:
            taken, self._taken = self._taken, None
            taken.close()


@dataclass(frozen=True, slots=True)
class Resumable:
    """What a machine answers: the rules it works under, and the ring its guest enforces."""

    generation: int
    policy: str
    ring: str


class HeavyExecutor:
    """A snapshot that can be resumed, and the machine that was, if one runs."""

    def __init__(
        self, bundle: Bundle, cache: Path, find_image: FindImage, outward: Outward | None = None
    ) -> None:
        """Compare and probe a snapshot, making it if there is none; raise `GateUnavailable`."""
        self._bundle = bundle
        self.lane = HeavyLane(bundle, cache, find_image, outward=outward)
        self._backend, self._want = self.lane.prove_usual()

    @property
    def alive(self) -> bool:
        """Tell whether it can be given work."""
        return not self.lane.stopped

    def adopt(self, signed: Signed) -> None:
        """Take other rules over that leave the snapshot as it is."""
        self.lane, self._bundle = self.lane.under(signed.bundle), signed.bundle
        self._backend = self._backend.under(signed.bundle)

    def enforced(self) -> Resumable:
        """Resume a clone and have it prove its ring; return what holds."""
        self._backend.probe(self._want)
        return Resumable(self._bundle.generation, self._bundle.digest, self._want.ring.digest)

    def stop(self) -> None:
        """End it, from any thread and in any state."""
        self.lane.stop()

    def close(self) -> None:
        """Let go of the engine."""
        self.lane.stop()
        self.lane.close()


class HeavyKind:
    """The heavy lane of this machine."""

    name = HEAVY_LANE[-1]  # as policy calls it

    def __init__(self, cache: Path, find_image: FindImage, outward: Outward | None = None) -> None:
        self._cache, self._find_image, self._outward = cache, find_image, outward

    def wanted(self, bundle: Bundle) -> bool:
        """Tell whether policy has this lane."""
        return bundle.text(*HEAVY_LANE, "enabled") == "yes"

    def start(self, bundle: Bundle) -> HeavyExecutor:
        """Have one ready under these rules, or raise `GateUnavailable`."""
        return HeavyExecutor(bundle, self._cache, self._find_image, self._outward)

    def needs_restart(self, old: Bundle, new: Bundle) -> str:
        """Return why one that waits cannot take `new` over, or nothing."""
        if ring_of(old) != ring_of(new):
            return "its snapshot enforces another ring"
        if any(
            old.value(*HEAVY_LANE, key) != new.value(*HEAVY_LANE, key)
            for key in ("engines", "default")
        ):
            return "its snapshot is of another machine"
        return boxes_differ(old, new, HEAVY_BOXES)

    def expected(self, bundle: Bundle) -> Resumable:
        """Return what one that enforces these rules answers."""
        return Resumable(bundle.generation, bundle.digest, ring_of(bundle))


def ring_of(bundle: Bundle) -> str:
    """Return the digest of the ring of a request that names none."""
    ring = compile_here(bundle, HEAVY_PYTHON, bundle.text(*HEAVY_LANE, "default_profile"))
    return offline(ring).digest


class WarmLane:
    """The heavy lane as `run_requests` asks for it, with the executor that waits."""

    def __init__(self, pool: ExecutorPool[HeavyExecutor], bundle: Bundle) -> None:
        self._pool, self._bundle = pool, bundle
        self._lent: Lent[HeavyExecutor] | None = None

    def prove(self, ready: Ready) -> None:
        """Raise `GateUnavailable` unless a machine for this request has answered here."""
        self._taken().executor.lane.prove(ready)

    def run(self, ready: Ready, started: str) -> HeavyAnswer:
        """Run a claimed request in a machine that was proved for it."""
        return self._taken().executor.lane.run(ready, started)

    def stop(self) -> None:
        """End it, from any thread and in any state."""
        if self._lent is not None:
            self._lent.executor.stop()

    def close(self) -> None:
        """Give back what was taken."""
        if self._lent is not None:
            lent, self._lent = self._lent, None
            lent.give_back(used=not lent.executor.alive)

    def _taken(self) -> Lent[HeavyExecutor]:
        if self._lent is None:
            self._lent = self._pool.take(self._bundle, seconds=WAIT_SECONDS)
        return self._lent
