"""A machine of the heavy lane that is ready to be resumed: a snapshot, compared and probed.

What waits is the snapshot and not a machine.  One that is resumed before its job would need the
job's disk of inputs before there is one, would hold its memory for nothing, and its clock and
its random numbers would wait with it.  Each job resumes a clone of its own, which ends with it.

SECURITY
    Believes a guest only as far as its gate does: it answers a nonce, and with the digest of
    the ring it enforces, tried anew in each clone.  A ring is part of the snapshot, so other
    rules for code are another snapshot, and this one is not resumed any more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.host.gate_profiles import EVERY_GATE
from threegate.host.run.heavy.gateway import Outward
from threegate.host.run.heavy.lane import FindImage, HeavyAnswer, HeavyLane
from threegate.host.run.ready import Ready
from threegate.host.run.verdicts import compile_here
from threegate.host.run.warm.kinds import Signed
from threegate.host.run.warm.lite import boxes_differ
from threegate.host.run.warm.pool import Lent, Pool
from threegate.policy.bundle import Bundle
from threegate.policy.ring.compiler import HEAVY_PYTHON, offline
from threegate.sandbox.profiles import ENGINE, RUNSC_FILES, RUNSC_KERNEL, TOOL_HEAVY

LANE: Final = ("tool-exec", "lanes", "era")
BOXES: Final = (
    EVERY_GATE,
    *(profile.name for profile in (TOOL_HEAVY, ENGINE, RUNSC_KERNEL, RUNSC_FILES)),
)
WAIT_SECONDS: Final = 1200.0  # a guest that is emulated boots for minutes


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
        """End it from any thread, whatever it does."""
        self.lane.stop()

    def close(self) -> None:
        """Let go of the engine."""
        self.lane.stop()
        self.lane.close()


class HeavyKind:
    """The heavy lane of this machine."""

    name = LANE[-1]  # as policy calls it

    def __init__(self, cache: Path, find_image: FindImage, outward: Outward | None = None) -> None:
        self._cache, self._find_image, self._outward = cache, find_image, outward

    def wanted(self, bundle: Bundle) -> bool:
        """Tell whether policy has this lane."""
        return bundle.text(*LANE, "enabled") == "yes"

    def start(self, bundle: Bundle) -> HeavyExecutor:
        """Have one ready under these rules, or raise `GateUnavailable`."""
        return HeavyExecutor(bundle, self._cache, self._find_image, self._outward)

    def needs_restart(self, old: Bundle, new: Bundle) -> str:
        """Return why one that waits cannot take `new` over, or nothing."""
        if ring_of(old) != ring_of(new):
            return "its snapshot enforces another ring"
        if any(old.value(*LANE, key) != new.value(*LANE, key) for key in ("engines", "default")):
            return "its snapshot is of another machine"
        return boxes_differ(old, new, BOXES)

    def expected(self, bundle: Bundle) -> Resumable:
        """Return what one that enforces these rules answers."""
        return Resumable(bundle.generation, bundle.digest, ring_of(bundle))


def ring_of(bundle: Bundle) -> str:
    """Return the digest of the ring of a request that names none."""
    ring = compile_here(bundle, HEAVY_PYTHON, bundle.text(*LANE, "default_profile"))
    return offline(ring).digest


class WarmLane:
    """The heavy lane as `run_requests` asks for it, with the executor that waits."""

    def __init__(self, pool: Pool[HeavyExecutor], bundle: Bundle) -> None:
        self._pool, self._bundle = pool, bundle
        self._lent: Lent[HeavyExecutor] | None = None

    def prove(self, ready: Ready) -> None:
        """Raise `GateUnavailable` unless a machine for this request has answered here."""
        self._taken().executor.lane.prove(ready)

    def run(self, ready: Ready, started: str) -> HeavyAnswer:
        """Run a claimed request in a machine that was proved for it."""
        return self._taken().executor.lane.run(ready, started)

    def stop(self) -> None:
        """End it from any thread, whatever it does."""
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


def opened(pool: Pool[HeavyExecutor], bundle: Bundle) -> Callable[[], WarmLane]:
    """Return what opens the lane for one command."""
    return lambda: WarmLane(pool, bundle)
