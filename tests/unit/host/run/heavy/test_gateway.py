"""What a result says of a run's gateway, out of the gateway's notes."""

from ipaddress import ip_address

import pytest

from tests.support.run_scenes import granted
from threegate.artifacts.tool_request import GatewayTerms
from threegate.base.errors import GateUnavailable
from threegate.gates.run_gateway import messages as said
from threegate.gates.run_gateway.messages import GatewayNote
from threegate.gates.tool_exec.era.messages import HeavyOutcome
from threegate.host.run.heavy.gateway import Passed, places_of, refuse_inside, refuse_unusable
from threegate.host.run.results import violations_of
from threegate.policy.decide import GATEWAY_RULES
from threegate.policy.ring.compiler import compile_ring
from threegate.policy.ring.executor_profile import MAX_VIOLATIONS, RingViolation

BUNDLE = granted().bundle()
RING = compile_ring(BUNDLE, "heavy-python", "online")
A, B = "a.run-data.org", "b.run-data.org"


def passed(*told: GatewayNote) -> Passed:
    return Passed(places_of(BUNDLE, RING), list(told))


def test_what_passed_is_added_up_by_host() -> None:
    found = passed(
        GatewayNote(5, B, 1, "GET", "", 10),
        GatewayNote(7, A, 1, "GET", "", 20),
        GatewayNote(9, B, 2, "GET", said.DOWN, 30),  # refused on the way back: it left all the same
        GatewayNote(0, A, 3, "GET", said.HOST, 0),
    ).carried()
    assert [(row.host, row.requests, row.up_bytes, row.down_bytes) for row in found] == [
        (A, 1, 20, 7),
        (B, 2, 40, 14),
    ]


def test_every_refusal_has_the_line_of_its_rule_and_a_failure_is_none() -> None:
    told = [GatewayNote(0, A, 4, "GET", reason, 0) for reason in (*said.REASONS, "")]
    found = passed(*told, *told).violations()
    assert len(found) == len(said.REFUSALS), "each once; what was not reached is no refusal"
    places = {one.argument.open_for_display().split(": ")[1]: one.place for one in found}
    assert places[said.HOST] == str(BUNDLE.ref(*GATEWAY_RULES, "hosts"))
    assert places[said.UP] == str(BUNDLE.ref(*GATEWAY_RULES, "up_bytes"))
    assert places[said.CREDENTIAL] == RING.rules["executor_network"]
    assert {one.rule for one in found} == {"executor_network"}


# claim TG-C-301
def test_a_guest_that_reports_on_and_on_does_not_push_out_what_the_gateway_refused() -> None:
    noise = tuple(RingViolation("denied_imports", f"m{n}", 1) for n in range(MAX_VIOLATIONS))
    outcome = HeavyOutcome("ok", 0, violations=noise)
    assert len(violations_of(outcome, RING)) == MAX_VIOLATIONS, "control"
    outside = passed(GatewayNote(0, A, 4, "GET", said.HOST, 0))
    found = violations_of(outcome, RING, outside)
    assert len(found) == MAX_VIOLATIONS
    assert found[0].argument.open_for_display() == f"GET {A}: host-not-listed"
    assert passed().violations() == ()


def test_without_a_workspace_there_is_no_gateway() -> None:
    with pytest.raises(GateUnavailable, match="there is no gateway here"):
        refuse_unusable(BUNDLE, RING, None)
    assert str(GatewayTerms((A,), 1, 2)) == f"gateway to {A}, up 1, down 2"


@pytest.mark.parametrize("inside", ["10.0.0.5", "127.0.0.1", "169.254.169.254", "::1", "fd00::5"])
def test_an_address_of_the_inside_does_not_go_into_the_rules(inside: str) -> None:
    outside = (ip_address("104.18.0.1"), ip_address("2606:4700::1"))
    refuse_inside(outside)  # control
    with pytest.raises(GateUnavailable, match="which leads inside"):
        refuse_inside((*outside, ip_address(inside)))
