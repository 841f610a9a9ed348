"""The lite lane without its box: the same screen, and a record of what was asked."""

from dataclasses import dataclass, field

from threegate.artifacts.tool_request import FUNCTIONS
from threegate.gates.tool_exec.monty.messages import CheckCode, CodeChecked, RefusalFound
from threegate.gates.tool_exec.monty.screen import Bounds, screen

MODULES = frozenset({"csv", "json", "math", "re"})


@dataclass
class UnboxedLane:
    """Answers checks as the lane does before its interpreter sees anything."""

    asked: list[CheckCode] = field(default_factory=list)

    def __call__(self, check: CheckCode) -> CodeChecked:
        self.asked.append(check)
        found = screen(check.code, Bounds(64 * 1024, 8, MODULES))
        if found is None:
            return CodeChecked(_missing(check))
        return CodeChecked(RefusalFound(found.construct, found.line, found.reason))


def _missing(check: CheckCode) -> RefusalFound | None:
    """Return the first external function that is called and not there."""
    for line, text in enumerate(check.code.split("\n"), 1):
        for name in FUNCTIONS:
            if f"{name}(" in text and name not in check.functions:
                return RefusalFound("unresolved-reference", line, f"{name} is not defined")
    return None
