"""The lite lane without its box: the same screen, and a record of what was asked."""

from dataclasses import dataclass, field

from threegate.artifacts.tool_request import FUNCTIONS
from threegate.gates.tool_exec.monty.messages import Check, Checked, RefusalFound
from threegate.gates.tool_exec.monty.screen import Bounds, screen

MODULES = frozenset({"csv", "json", "math", "re"})


@dataclass
class UnboxedLane:
    """Answers checks as the lane does before its interpreter sees anything."""

    asked: list[Check] = field(default_factory=list)

    def __call__(self, check: Check) -> Checked:
        self.asked.append(check)
        found = screen(check.code, Bounds(64 * 1024, 8, MODULES))
        if found is None:
            return Checked(_missing(check))
        return Checked(RefusalFound(found.construct, found.line, found.reason))


def _missing(check: Check) -> RefusalFound | None:
    """Return the first external function that is called and not there."""
    for line, text in enumerate(check.code.split("\n"), 1):
        for name in FUNCTIONS:
            if f"{name}(" in text and name not in check.functions:
                return RefusalFound("unresolved-reference", line, f"{name} is not defined")
    return None
