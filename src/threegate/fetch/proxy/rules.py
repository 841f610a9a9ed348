"""What one tunnel may do under the policy in force: the decision and its bounds."""

from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv6Network

from threegate.fetch.addresses import Address, refusal
from threegate.fetch.proxy.limits import KIB
from threegate.fetch.proxy.refused import Reason, Refused
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_connect
from threegate.policy.decision import Allow, RuleRef
from threegate.policy.hosts import matches


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the rule for a name grants each tunnel to it."""

    rule: RuleRef | None
    down_bytes: int
    seconds: int
    tunnels: int


@dataclass(frozen=True, slots=True)
class Denied:
    """Why the policy has nothing for a name."""

    rule: RuleRef | None
    why: str


def judge_name(policy: Bundle, name: str) -> Allowed | Denied:
    """Return what the policy says about `name`."""
    decision = may_connect(policy, name)
    if not isinstance(decision, Allow):
        return Denied(decision.rule, decision.reason)
    hosts = ("fetch", "hosts")
    pattern = next(found for found in policy.words(*hosts) if matches(found, name))
    body = policy.integer(*hosts, pattern, "response_bytes")
    # The retriever counts the body; here it is wrapped in headers and records.
    wrapped = body + body // 8 + policy.integer("fetch", "header_bytes") + 64 * KIB
    return Allowed(
        decision.rule,
        down_bytes=wrapped,
        seconds=policy.integer("fetch", "deadline_seconds"),
        tunnels=policy.integer(*hosts, pattern, "concurrency"),
    )


def judge_addresses(
    found: tuple[Address, ...], own: Collection[Address], nat64: Collection[IPv6Network]
) -> None:
    """Refuse all addresses of a name if one of them may not be dialled.

    A name that leads to the inside as well as to the outside is not a mistake one can work
    around; half of a rebinding attack is exactly this.
    """
    if not found:
        raise Refused(Reason.NO_ADDRESS)
    for address in found:
        why = refusal(address.packed, own, nat64=nat64)
        if why is not None:
            raise Refused(Reason.ADDRESS, f"{address} is {why}")
