"""What the policy in force says about a host, as far as the host side needs it."""

from dataclasses import dataclass
from typing import Final

from threegate.gates.fetch.retrieve.messages import MAX_BODY_BYTES
from threegate.host.fetch.budgets import Budgets, Left
from threegate.policy.bundle import Bundle
from threegate.policy.hosts import matches

ALL_HOSTS: Final = "_all"  # the budget of all hosts together; no host is called that
NO_RATE: Final = 2**31  # all hosts together have a budget of bytes, not of requests


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule that covers a host."""

    pattern: str
    rate_per_minute: int
    concurrency: int
    bytes_per_day: int
    response_bytes: int

    @property
    def budget(self) -> str:
        """Return the name its budget has.

        Of the rule, not of the host: under a wildcard whoever runs the domain makes up names.
        """
        return self.pattern.replace("*.", "_any.", 1)


def rule_for(bundle: Bundle, host: str) -> Rule | None:
    """Return the rule that covers `host`, None if there is none."""
    for pattern in bundle.words("fetch", "hosts"):
        if matches(pattern, host):
            path = ("fetch", "hosts", pattern)
            return Rule(
                pattern,
                rate_per_minute=bundle.integer(*path, "rate_per_minute"),
                concurrency=bundle.integer(*path, "concurrency"),
                bytes_per_day=bundle.integer(*path, "bytes_per_day"),
                response_bytes=min(bundle.integer(*path, "response_bytes"), MAX_BODY_BYTES),
            )
    return None


def left_for(budgets: Budgets, bundle: Bundle, rule: Rule) -> Left:
    """Return what may be asked of a host now, its own budget and that of all hosts considered."""
    own = budgets.left(
        rule.budget, rate_per_minute=rule.rate_per_minute, bytes_per_day=rule.bytes_per_day
    )
    total = bundle.integer("fetch", "bytes_per_day")
    everybody = budgets.left(ALL_HOSTS, rate_per_minute=NO_RATE, bytes_per_day=total)
    return Left(own.requests, min(own.bytes, everybody.bytes))
