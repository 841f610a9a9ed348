"""A decision in words, with every rule that was tried."""

from threegate.base.text import visible
from threegate.policy.decision import Decision, verdict


def explain(decision: Decision) -> list[str]:
    """Return the decision and its trace, one line each, ready for a terminal."""
    lines = []
    for tried in decision.trace[:-1]:
        where = str(tried.rule) if tried.rule is not None else "policy"
        lines.append(visible(f"{where}: {tried.what}: {tried.outcome}"))
    by = f" ({decision.rule})" if decision.rule is not None else ""
    lines.append(visible(f"{verdict(decision)}: {decision.reason}{by}"))
    return lines
