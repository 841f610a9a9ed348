"""The gate of the heavy lane against a host that lies: nothing reaches the guest.

Each lie goes to the real box with a real guest behind it, which would run what it is given.
"""

from dataclasses import replace

import pytest

from tests.support.heavy import MIB, Lab, Task, asked_for, lab, request_for, rules
from tests.support.sshlab import Key
from threegate.artifacts import registry
from threegate.gates.tool_exec.era.gate import OTHER_MACHINE
from threegate.gates.tool_exec.final_check import OTHER_INPUTS
from threegate.gates.tool_exec.monty.messages import REFUSED_APPROVAL
from threegate.host.run.heavy.backend import Want
from threegate.policy.approvals import OTHER_LANE, OTHER_REQUEST, OUTSIDE_WINDOW

TASK = Task("print(open('/in/data').read())", inputs={"data": b"approved"})


@pytest.fixture(scope="module")
def lane() -> Lab:
    found = lab()
    outcome = found.run(TASK).outcome
    assert (outcome.exit, outcome.stdout) == ("ok", b"approved\n"), "control: as approved it runs"
    return found


# claim TG-C-238
def test_other_bytes_than_the_approved_ones_do_not_run(lane: Lab) -> None:
    other = registry.emit(request_for(Task("print('other')", inputs=TASK.inputs)))
    outcome = lane.run(TASK, given=other).outcome
    assert (outcome.exit, outcome.code, outcome.stdout) == (REFUSED_APPROVAL, OTHER_REQUEST, b"")


# claim TG-C-238
def test_a_forged_late_or_foreign_approval_runs_nothing(lane: Lab) -> None:
    forged = lane.run(TASK, key=Key(b"\x07" * 32)).outcome
    assert (forged.exit, forged.code) == (REFUSED_APPROVAL, "TG-KEY-003"), forged.message
    late = lane.run(TASK, not_after="2026-01-02T00:00:00Z", not_before="2026-01-01T00:00:00Z")
    assert (late.outcome.exit, late.outcome.code) == (REFUSED_APPROVAL, OUTSIDE_WINDOW)
    smaller = replace(TASK.limits, wall_ms=1)
    limited = lane.run(TASK, limits=smaller).outcome
    assert (limited.exit, limited.code) == (REFUSED_APPROVAL, OTHER_LANE)


# claim TG-C-238
def test_other_inputs_than_the_approved_ones_do_not_run(lane: Lab) -> None:
    asked = asked_for(TASK, rules())
    for lie in ((("data", b"repleced"),), (("data", b"approved"), ("more", b"x")), ()):
        outcome = lane.backend.run(lane.want(TASK), replace(asked, inputs=lie)).outcome
        assert (outcome.exit, outcome.code) == (REFUSED_APPROVAL, OTHER_INPUTS), lie


# claim TG-C-238
def test_a_larger_machine_than_the_approved_one_runs_nothing(lane: Lab) -> None:
    want = lane.want(TASK)
    larger = Want(want.cpus, want.memory_mib + 64, want.layers, want.imports, want.ring)
    outcome = lane.backend.run(larger, asked_for(TASK, rules())).outcome
    assert (outcome.exit, outcome.code) == (REFUSED_APPROVAL, OTHER_MACHINE)
    assert larger.memory_mib * MIB > TASK.limits.memory_bytes, "control: it is larger"
