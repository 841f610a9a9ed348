"""What a run tried and the ring refused, as its result tells it.

SECURITY
    Reads the word of whatever ran.  Rule, argument and line are for people; file and line of
    the rule come from the policy, never from the run.
"""

import re
from collections.abc import Iterator
from typing import Final

from threegate.artifacts.tool_result import Violation
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era.messages import HeavyOutcome
from threegate.gates.tool_exec.monty import messages as tool_lite
from threegate.host.run.heavy.gateway import Passed
from threegate.policy.ring.executor_profile import (
    MAX_ARGUMENT_CHARS,
    MAX_VIOLATIONS,
    ExecutorProfile,
)

IMPORT: Final = "import"  # the construct of a refused import in the lite lane
_MODULE: Final = re.compile(r'module "([!-~]+)" is not on the list')

Outcome = tool_lite.LiteOutcome | HeavyOutcome


def violations_of(
    outcome: Outcome, ring: ExecutorProfile | None, passed: Passed | None = None
) -> tuple[Violation, ...]:
    """Return what the ring refused; nothing where no profile was in force.

    What a gateway refused is known outside the guest, and stands first.
    """
    if ring is None:
        return ()
    outside = () if passed is None else passed.violations()
    inside = (
        Violation(rule, ring.place(rule, argument), Untrusted(argument), line)
        for rule, argument, line in _tried(outcome, ring)
    )
    return (*outside, *inside)[:MAX_VIOLATIONS]


def _tried(outcome: Outcome, ring: ExecutorProfile) -> Iterator[tuple[str, str, int]]:
    if isinstance(outcome, HeavyOutcome):
        for one in outcome.violations:
            yield one.rule, one.argument, one.line
    elif outcome.refusal is not None and outcome.refusal.construct == IMPORT:
        found = _MODULE.search(outcome.refusal.reason)
        name = found[1][:MAX_ARGUMENT_CHARS] if found else IMPORT
        rule = ring.refusal(name.partition(".")[0]) or "allowed_imports"
        yield rule, name, outcome.refusal.line
