"""What a result says of what the ring refused: rule and place from the policy, the rest from it."""

from tests.support.policies import policy
from threegate.gates.tool_exec.era.messages import HeavyOutcome
from threegate.gates.tool_exec.monty import messages as tool_lite
from threegate.gates.tool_exec.monty.messages import RefusalFound
from threegate.host.run.violations import violations_of
from threegate.policy.ring.compiler import compile_ring
from threegate.policy.ring.executor_profile import RingViolation

POLICY = policy()
PYTHON = compile_ring(POLICY, "heavy-python", "python")
PURE = compile_ring(POLICY, "monty", "pure")


def test_the_place_of_a_rule_comes_from_the_policy() -> None:
    tried = (
        RingViolation("denied_imports", "requests", 3),
        RingViolation("allowed_imports", "x", 0),
    )
    outcome = HeavyOutcome("ok", 0, violations=tried)
    first, second = violations_of(outcome, PYTHON)
    assert (first.rule, first.line) == ("denied_imports", 3)
    assert first.argument.open_for_display() == "requests"
    path = ("tool-exec", "interpreter_ring", "python")
    assert first.place == str(POLICY.ref(*path, "denied_imports", "requests"))
    assert second.place == str(POLICY.ref(*path, "allowed_imports"))
    assert violations_of(outcome, None) == (), "no profile was in force"


def test_a_refused_import_in_monty_is_a_violation_of_its_profile() -> None:
    refusal = RefusalFound("import", 2, 'module "os" is not on the list')
    (found,) = violations_of(tool_lite.LiteOutcome("refused:import", refusal=refusal), PURE)
    assert (found.rule, found.line) == ("allowed_imports", 2)
    assert found.argument.open_for_display() == "os"
    other = RefusalFound("yield expressions", 2, "not supported")
    assert violations_of(tool_lite.LiteOutcome("refused:x", refusal=other), PURE) == ()
