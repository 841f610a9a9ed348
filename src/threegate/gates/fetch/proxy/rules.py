"""What a tunnel may do under the policy in force: the decision and its bounds.

A proxy has one purpose and applies the rules of that purpose only: a model's proxy cannot reach
the hosts of FETCH, and FETCH's proxy cannot reach the model.
"""

from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv6Network
from typing import Final

from threegate.base.limits import KIB, MIB
from threegate.gates.fetch.addresses import Address, refusal
from threegate.gates.fetch.proxy.request import TunnelReason, TunnelRefused
from threegate.policy.bundle import Bundle
from threegate.policy.decide import GATEWAY_RULES, may_connect
from threegate.policy.decision import Allow, RuleRef
from threegate.policy.hosts import matches
from threegate.policy.purposes import MODEL, PACKETS, RUNS, download_list

MAX_UP_BYTES: Final = 1 * MIB  # many times what a request and a handshake need
DOWNLOAD_TUNNELS: Final = 4  # one file at a time, over a redirect
MODEL_TUNNELS: Final = 2  # one request at a time; the last one may not be gone yet
RUN_TUNNELS: Final = 2  # a run also asks one thing at a time
MODEL_DOWN_BYTES: Final = 8 * MIB  # a reply in JSON; the bridge's bound is smaller
HANDSHAKE_BYTES: Final = 16 * KIB  # of a tunnel before its first request


@dataclass(frozen=True, slots=True)
class TunnelBounds:
    """What the rule for a name grants to each tunnel."""

    rule: RuleRef | None
    down_bytes: int
    seconds: int
    tunnels: int
    up_bytes: int = MAX_UP_BYTES
    in_all: int | None = None  # tunnels since the proxy started
    up_in_all: int | None = None


@dataclass(frozen=True, slots=True)
class NameDenied:
    """Why policy grants no tunnel to a name."""

    rule: RuleRef | None
    why: str


def judge_name(
    policy: Bundle, name: str, purpose: str = PACKETS, hosts: Collection[str] = ()
) -> TunnelBounds | NameDenied:
    """Return what the policy says about `name` to a proxy of this purpose.

    `hosts` are those that a run's request lists; policy must allow them too.
    """
    decision = may_connect(policy, name, purpose)
    if purpose == RUNS and name not in hosts:
        return NameDenied(decision.rule, "not a host that the request lists")
    if not isinstance(decision, Allow):
        return NameDenied(decision.rule, decision.reason)
    downloads = download_list(purpose)
    if downloads is not None:
        return _for_downloads(policy, decision.rule, downloads)
    if purpose == RUNS:
        return _for_run(policy, decision.rule)
    if purpose == MODEL:
        return _for_model(policy, decision.rule)
    return _for_packets(policy, decision.rule, name)


def _for_packets(policy: Bundle, rule: RuleRef | None, name: str) -> TunnelBounds:
    hosts = ("fetch", "hosts")
    pattern = next(found for found in policy.words(*hosts) if matches(found, name))
    body = policy.integer(*hosts, pattern, "response_bytes")
    return TunnelBounds(
        rule,
        down_bytes=_wrapped(policy, body),
        seconds=policy.integer("fetch", "deadline_seconds"),
        tunnels=policy.integer(*hosts, pattern, "concurrency"),
    )


def _for_downloads(policy: Bundle, rule: RuleRef | None, name: str) -> TunnelBounds:
    path = ("fetch", "downloads", name)
    return TunnelBounds(
        rule,
        down_bytes=_wrapped(policy, policy.integer(*path, "response_bytes")),
        seconds=policy.integer(*path, "deadline_seconds"),
        tunnels=DOWNLOAD_TUNNELS,
    )


def _for_model(policy: Bundle, rule: RuleRef | None) -> TunnelBounds:
    """Return the bounds of one question: the proxy of a model lives as long as the question."""
    model = ("core", "model")
    # One for each request and one for the list of models; each trust anchor has its own try.
    asked = policy.integer(*model, "remote_requests") + 1
    tunnels = asked * len(policy.words("fetch", "trust_anchors"))
    sent = _wrapped(policy, policy.integer(*model, "remote_bytes"))
    return TunnelBounds(
        rule,
        down_bytes=_wrapped(policy, MODEL_DOWN_BYTES),
        seconds=policy.integer("core", "answer", "deadline_seconds"),
        tunnels=MODEL_TUNNELS,
        up_bytes=sent,
        in_all=tunnels,
        up_in_all=sent + tunnels * HANDSHAKE_BYTES,
    )


def _for_run(policy: Bundle, rule: RuleRef | None) -> TunnelBounds:
    """Return what policy grants any run; the run's gateway applies the bounds of its request."""
    requests = policy.integer(*GATEWAY_RULES, "requests")
    tunnels = requests * len(policy.words("fetch", "trust_anchors"))
    sent = _wrapped(policy, policy.integer(*GATEWAY_RULES, "up_bytes"))
    return TunnelBounds(
        rule,
        down_bytes=_wrapped(policy, policy.integer(*GATEWAY_RULES, "down_bytes")),
        seconds=policy.integer(*GATEWAY_RULES, "deadline_seconds"),
        tunnels=RUN_TUNNELS,
        up_bytes=sent,
        in_all=tunnels,
        up_in_all=sent + tunnels * HANDSHAKE_BYTES,
    )


def _wrapped(policy: Bundle, body: int) -> int:
    """Return the byte limit including transfer overhead; the reader limits the body itself."""
    return body + body // 8 + policy.integer("fetch", "header_bytes") + 64 * KIB


def judge_addresses(
    found: tuple[Address, ...], own: Collection[Address], nat64: Collection[IPv6Network]
) -> None:
    """Refuse all addresses of a name if one of them may not be dialled.

    A name with an inside and an outside address is half of a rebinding attack.
    """
    if not found:
        raise TunnelRefused(TunnelReason.NO_ADDRESS)
    for address in found:
        why = refusal(address.packed, own, nat64=nat64)
        if why is not None:
            raise TunnelRefused(TunnelReason.ADDRESS, f"{address} is {why}")
