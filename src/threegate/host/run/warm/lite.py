"""Boxes of the lite lane that wait under `serve`, each for one job.

SECURITY
    Reads what a box says it enforces.  The box may be owned, so its answer counts only if it
    is what the host works out itself; and it is given one job, whatever it says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from threegate.base.errors import GateUnavailable, PolicyDenied
from threegate.base.greeting import GateRefused
from threegate.gates.tool_exec.monty import messages as tool_lite
from threegate.gates.tool_exec.monty.messages import Adopt, Enforced, LiteJob, Prove, parse_enforced
from threegate.host.gate_profiles import EVERY_GATE
from threegate.host.run.lite import LiteBox, LiteRun, start_box
from threegate.host.run.results import Confinement
from threegate.host.run.warm import states
from threegate.host.run.warm.kinds import Signed
from threegate.host.run.warm.pool import Lent, Pool
from threegate.policy.bundle import Bundle
from threegate.policy.ring.compiler import MONTY, compile_ring
from threegate.policy.sections import GATES
from threegate.sandbox import worker
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import TOOL_LITE

BOXES: Final = (EVERY_GATE, TOOL_LITE.name, worker.NAME)
# A box that works has more descriptors open than one that has just begun.
ONLY_AT_START: Final = "descriptors:"


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
        """Have it try everything again; return what it says it enforces."""
        found = self.box.answer(self._prove.to_bytes(), parse_enforced)
        if found.tried != self._prove.tries:
            raise GateUnavailable("it did not try its lock again", code=states.OTHER_RULES)
        return replace(found, tried=())

    def stop(self) -> None:
        """End it from any thread, whatever it does."""
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
        return boxes_differ(old, new, BOXES)

    def expected(self, bundle: Bundle) -> Enforced:
        """Return what one that enforces these rules answers."""
        names = bundle.words("tool-exec", "lanes", MONTY, "profiles")
        rings = {name: compile_ring(bundle, MONTY, name).digest for name in names}
        return Enforced(bundle.generation, bundle.digest, rings, ())


def boxes_differ(old: Bundle, new: Bundle, names: Sequence[str]) -> str:
    """Return a reason if the boxes of these names are signed otherwise, or nothing."""
    before, after = old.value(GATES), new.value(GATES)
    assert isinstance(before, Mapping)
    assert isinstance(after, Mapping)
    changed = [name for name in names if before.get(name) != after.get(name)]
    return f"the box of {changed[0]} was signed otherwise" if changed else ""


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

    def __init__(self, pool: Pool[LiteExecutor], bundle: Bundle) -> None:
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
