"""Decisions are values, and carry the rule that made them.

`Decision = Allow | Ask | Deny`.  `Ask` without a human answers no.
"""

from dataclasses import dataclass, field
from typing import Final

from threegate.base.errors import PolicyDenied
from threegate.base.text import visible


@dataclass(frozen=True, slots=True)
class RuleRef:
    """File and line of a rule."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Tried:
    """One rule that was tried, and its outcome."""

    rule: RuleRef | None
    what: str
    outcome: str


Trace = tuple[Tried, ...]


@dataclass(frozen=True, slots=True)
class Allow:
    """It may happen now."""

    rule: RuleRef | None
    reason: str
    trace: Trace = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ask:
    """It may happen once a human has approved these very bytes."""

    rule: RuleRef | None
    reason: str
    trace: Trace = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Deny:
    """It may not happen, not even with an approval."""

    rule: RuleRef | None
    reason: str
    trace: Trace = field(default=(), compare=False, repr=False)

    def error(self, what: str) -> PolicyDenied:
        """Return the error for `what` was asked; `what` is shown, so it must be our own text."""
        by = f" by {self.rule}" if self.rule is not None else ""
        return PolicyDenied(
            f"{what} denied{by}, {self.reason}",
            hint="`threegate policy explain` shows every rule that was tried",
        )


Decision = Allow | Ask | Deny

NO_RULE: Final = "no rule matched"
VERDICTS: Final[dict[type, str]] = {Allow: "allow", Ask: "ask", Deny: "deny"}


def verdict(decision: Decision) -> str:
    """Return `allow`, `ask` or `deny`."""
    return VERDICTS[type(decision)]


# A decision in words, with every rule that was tried.


def explain(decision: Decision) -> list[str]:
    """Return the decision and its trace, one line each, ready for a terminal."""
    lines = []
    for tried in decision.trace[:-1]:
        where = str(tried.rule) if tried.rule is not None else "policy"
        lines.append(visible(f"{where}: {tried.what}: {tried.outcome}"))
    by = f" ({decision.rule})" if decision.rule is not None else ""
    lines.append(visible(f"{verdict(decision)}: {decision.reason}{by}"))
    return lines
