"""Which runs may have a gateway, and to whom: policy, request and approval together."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support import samples
from tests.support.origins.simple import HOST, INNER, NOT_ASKED, SECOND
from tests.support.policies import altered, policy, policy_files
from tests.support.run_scenes import GRANTED, NETWORK, granted
from tests.support.samples import escalated, tool_request
from threegate.artifacts.approval import Approval
from threegate.artifacts.tool_request import GatewayTerms, ToolRequest
from threegate.base.errors import PolicyDenied
from threegate.gates.fetch.proxy.rules import NameDenied, TunnelBounds, judge_name
from threegate.policy.approvals import (
    OTHER_LANE,
    _check_lane,
    execution_of,
    joins_three,
    ring_for,
)
from threegate.policy.bundle import Compiled
from threegate.policy.decide import GATEWAY_RULES, may_connect, may_execute
from threegate.policy.decision import Allow, Ask, Deny
from threegate.policy.purposes import RUNS
from threegate.policy.ring.compiler import GATEWAY_CLIENT, ProfileRejected, compile_ring, without

POLICY = granted()
DEFAULT = policy()


def run(**changes: Any) -> ToolRequest:
    made = escalated("files", profile="online", network=NETWORK)
    return replace(made, limits=replace(made.limits, disk_bytes=1, output_bytes=1), **changes)


def denied(found: Compiled, request: ToolRequest) -> Deny:
    decision = may_execute(found, execution_of(request))
    assert isinstance(decision, Deny)
    return decision


# claim TG-C-265
def test_the_default_policy_grants_no_host_and_no_gateway() -> None:
    assert isinstance(may_execute(POLICY, execution_of(run())), Ask), "control: granted, it asks"
    assert DEFAULT.text("tool-exec", "lanes", "era", "network") == "off"
    assert DEFAULT.words(*GATEWAY_RULES, "hosts") == ()
    decision = may_connect(DEFAULT, HOST, RUNS)
    assert decision.rule == DEFAULT.ref("tool-exec", "lanes", "era", "network")
    on = altered(DEFAULT, lambda s: s["tool-exec"]["lanes"]["era"].update(network="gateway"))
    assert isinstance(may_connect(on, HOST, RUNS), Deny), "an empty list grants nothing"
    assert isinstance(may_connect(POLICY, HOST, RUNS), Allow), "control"


@pytest.mark.parametrize(
    ("network", "key", "reason"),
    [
        (replace(NETWORK, hosts=("api.example.org",)), "hosts", "is not a host for runs"),
        (replace(NETWORK, up_bytes=16_385), "up_bytes", "up_bytes of 16385 is not within 16KiB"),
        (replace(NETWORK, down_bytes=2**23 + 1), "down_bytes", "is not within 8MiB"),
    ],
)
def test_a_request_beyond_what_the_lane_grants_is_denied_by_its_line(
    network: GatewayTerms, key: str, reason: str
) -> None:
    decision = denied(POLICY, run(network=network))
    assert reason in decision.reason
    assert decision.rule == POLICY.ref(*GATEWAY_RULES, key)


def test_a_gateway_needs_the_lane_and_the_profile() -> None:
    assert denied(POLICY, run(profile="python")).reason == 'network "gateway" is more than off'
    off = altered(POLICY, lambda s: s["tool-exec"]["lanes"]["era"].update(network="off"))
    assert denied(off, run()).reason == 'network "gateway" is more than off'


@pytest.mark.parametrize(
    "other",
    [
        "none",
        replace(NETWORK, hosts=(*NETWORK.hosts, NOT_ASKED)),
        replace(NETWORK, up_bytes=NETWORK.up_bytes + 1),
        replace(NETWORK, down_bytes=NETWORK.down_bytes + 1),
    ],
)
# claim TG-C-265
def test_an_approval_for_other_hosts_or_bytes_covers_nothing(other: Any) -> None:
    request = run()
    good = _approval(request)
    _check_lane(request, good)  # control: what it repeats it covers
    with pytest.raises(PolicyDenied, match="another network") as refusal:
        _check_lane(request, replace(good, network=other))
    assert refusal.value.code == OTHER_LANE


def _approval(request: ToolRequest) -> Approval:
    return samples.approval(
        backend="era", limits=request.limits, functions_sha256=None, network=request.network
    )


# claim TG-C-266
def test_a_run_that_asks_for_no_network_has_a_ring_without_one() -> None:
    online, plain = ring_for(POLICY, run()), ring_for(POLICY, run(network="none"))
    assert (online.network, GATEWAY_CLIENT in online.imports) == ("gateway", True), "control"
    assert (plain.network, GATEWAY_CLIENT in plain.imports) == ("off", False)
    assert plain.digest != online.digest, "so its snapshot is another one, without the port"


def test_the_client_cannot_be_had_by_naming_it() -> None:
    def name_it(sections: dict[str, Any]) -> None:
        rules = sections["tool-exec"]["interpreter_ring"]["python"]
        rules["allowed_imports"] = sorted((*rules["allowed_imports"], GATEWAY_CLIENT))

    named = altered(POLICY, name_it)
    assert GATEWAY_CLIENT not in compile_ring(named, "heavy-python", "python").imports


def test_programs_have_no_gateway() -> None:
    with pytest.raises(ProfileRejected, match="heavy-shell has no network gateway") as refusal:
        compile_ring(POLICY, "heavy-shell", "online")
    path = ("tool-exec", "interpreter_ring", "online", "executor_network")
    assert refusal.value.rule == POLICY.ref(*path)


# claim TG-C-305
def test_where_the_kernel_cannot_hold_a_run_kernel_allowlist_is_rejected_with_its_line() -> None:
    held = granted(network="kernel-allowlist")
    assert compile_ring(held, "heavy-python", "online").network == "kernel-allowlist", "control"
    with pytest.raises(ProfileRejected) as refusal:
        compile_ring(held, "heavy-python", "online", executors=without("kernel-allowlist"))
    needs = "has no network kernel-allowlist: it needs nftables, which root alone may set"
    assert refusal.value.reason == f"profile online: heavy-python {needs}"
    path = ("tool-exec", "interpreter_ring", "online", "executor_network")
    assert refusal.value.rule == held.ref(*path)
    with pytest.raises(ProfileRejected, match="heavy-shell has no network kernel-allowlist"):
        compile_ring(held, "heavy-shell", "online")


def test_the_kernels_list_is_less_than_a_gateway_and_a_request_asks_for_either_alike() -> None:
    held = granted(network="kernel-allowlist")
    assert isinstance(may_execute(held, execution_of(run())), Ask)
    assert GATEWAY_CLIENT in compile_ring(held, "heavy-python", "online").imports

    def open_profile(sections: dict[str, Any]) -> None:
        sections["tool-exec"]["interpreter_ring"]["online"]["executor_network"] = "gateway"

    wide = altered(held, open_profile)
    with pytest.raises(ProfileRejected, match="gateway is more than its lane's kernel-allowlist"):
        compile_ring(wide, "heavy-python", "online")
    assert compile_ring(granted(), "heavy-python", "online").network == "gateway", "control"


@pytest.mark.parametrize("integrity", ["operator", "external"])
# claim TG-C-304
def test_confidential_data_and_a_gateway_are_refused_whoever_wrote_the_code(
    integrity: str,
) -> None:
    request = run(confidentiality="confidential", integrity=integrity)
    decision = denied(POLICY, request)
    assert decision.reason == "external input, confidential data and network in one run"
    assert decision.rule == POLICY.ref("tool-exec", "rule_of_two")
    assert joins_three(request), "so an approval must say so by name where policy lets it"
    quiet = replace(request, network="none", profile="python")
    assert isinstance(may_execute(POLICY, execution_of(quiet)), Ask), "control: without a network"
    public = replace(request, confidentiality="internal")
    assert isinstance(may_execute(POLICY, execution_of(public)), Ask), "control: nothing to lose"


def test_a_proxy_of_a_run_knows_the_hosts_its_request_lists() -> None:
    bundle = POLICY.bundle()
    assert isinstance(judge_name(bundle, HOST, RUNS, NETWORK.hosts), TunnelBounds), "control"
    for hosts in ((), (SECOND, INNER)):
        found = judge_name(bundle, HOST, RUNS, hosts)
        assert isinstance(found, NameDenied)
        assert found.why == "not a host that the request lists"
    beyond = judge_name(bundle, "api.example.org", RUNS, ("api.example.org",))
    assert isinstance(beyond, NameDenied), "a list cannot widen what policy grants"
    assert GRANTED == ("*.run-data.org",)


def test_a_policy_says_where_it_grants() -> None:
    text = policy_files()["tool-exec.policy.md"].decode()
    line = text.split("\n").index("    gateway:") + 1
    assert str(DEFAULT.ref(*GATEWAY_RULES)) == f"policy/tool-exec.policy.md:{line}"
    assert tool_request().network == "none"
