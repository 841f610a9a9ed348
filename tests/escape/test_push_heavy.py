"""Rules pushed to real machines: a snapshot of the ring before is not resumed any more."""

from typing import Any

import pytest

from tests.support.heavy import ENABLED, image, place
from tests.support.policies import altered, policy
from tests.support.pushing import after, settled, signed
from threegate.base.errors import GateUnavailable
from threegate.host.run.warm.executors import APPLIED, RESTART, Status
from threegate.host.run.warm.kinds import HeavyKind
from threegate.host.run.warm.pool import ExecutorPool
from threegate.policy.bundle import Compiled

RUNSC = (ENABLED[0], ENABLED[1].replace("[qemu-emulation]", "[runsc]"))


def small(rules: Compiled, imports: list[str]) -> Compiled:
    """Return a policy for small machines whose Python may import these."""

    def change(sections: dict[str, Any]) -> None:
        sections["tool-exec"]["lanes"]["era"]["default"]["memory_bytes"] = 192 * 2**20
        profile = sections["tool-exec"]["interpreter_ring"]["python"]
        profile["allowed_imports"] = imports

    return altered(rules, change)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [RUNSC, ENABLED], ids=["runsc", "qemu-emulation"])
def test_a_real_machine_takes_rules_over_or_is_made_anew(engine: tuple[str, str]) -> None:
    base = policy(tool_exec=engine)
    told: list[Status] = []
    pool = ExecutorPool(HeavyKind(place(), lambda _: image()), 1, told.append)
    first = signed(small(base, ["json", "os"]).bundle())
    pool.push(first)
    settled(pool)
    second = signed(after(first.bundle, altered(small(base, ["json", "os"]), other)))
    pool.push(second)
    settled(pool)
    third = signed(after(second.bundle, small(base, ["json"])))
    pool.push(third)
    assert pool.step(pool.slots[0])
    with pytest.raises(GateUnavailable):
        pool.take(third.bundle, seconds=0)
    settled(pool)
    assert [(one.state, one.generation) for one in told] == [
        (APPLIED, 1),
        (APPLIED, 2),
        (RESTART, 2),
        (APPLIED, 3),
    ], told
    pool.take(third.bundle, seconds=0).give_back(used=False)
    pool.close()
    settled(pool)


def other(sections: dict[str, Any]) -> None:
    sections["handoff"]["held_expiry_seconds"] = 3600
