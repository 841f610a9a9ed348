"""Whether this machine can hold a run to a profile, and what may go into the kernel's rules."""

from ipaddress import ip_address

import pytest

from tests.support.gateways import granted
from threegate.errors import GateUnavailable
from threegate.host.heavy import holding
from threegate.policy.decision import Allow, Deny
from threegate.policy.ring.compiling import ProfileRejected

HELD, PLAIN = granted(network="kernel-allowlist"), granted()
KIND = "heavy-python"


# claim TG-C-305
def test_without_nftables_the_profile_is_rejected_with_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(holding, "missing", lambda: None)
    assert holding.compile_here(HELD, KIND, "online").network == "kernel-allowlist", "control"
    assert isinstance(holding.may_enforce_here(HELD, KIND, "online"), Allow), "control"
    monkeypatch.setattr(holding, "missing", lambda: "only root may set nftables")
    rule = HELD.ref("tool-exec", "interpreter_ring", "online", "executor_network")
    with pytest.raises(ProfileRejected) as refusal:
        holding.compile_here(HELD, KIND, "online")
    assert refusal.value.rule == rule
    decision = holding.may_enforce_here(HELD, KIND, "online")
    assert isinstance(decision, Deny)
    assert decision.rule == rule
    assert "it needs nftables" in decision.reason


def test_the_kernel_is_asked_only_where_a_profile_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asked() -> str:
        raise AssertionError("nobody needs to know")

    monkeypatch.setattr(holding, "missing", asked)
    assert holding.compile_here(PLAIN, KIND, "online").network == "gateway"
    assert holding.compile_here(HELD, KIND, "python").network == "off"
    with pytest.raises(AssertionError, match="nobody needs to know"):
        holding.compile_here(HELD, KIND, "online")


def test_a_profile_that_is_not_there_is_no_error_of_ours() -> None:
    decision = holding.may_enforce_here(HELD, KIND, "nobody's")
    assert isinstance(decision, Deny)
    assert "is not offered" in decision.reason
    assert not holding.says_kernel(HELD, "nobody's")
    assert holding.says_kernel(HELD, "online"), "control"


@pytest.mark.parametrize("inside", ["10.0.0.5", "127.0.0.1", "169.254.169.254", "::1", "fd00::5"])
def test_an_address_of_the_inside_does_not_go_into_the_rules(inside: str) -> None:
    outside = (ip_address("104.18.0.1"), ip_address("2606:4700::1"))
    holding.refuse_inside(outside)  # control
    with pytest.raises(GateUnavailable, match="which leads inside"):
        holding.refuse_inside((*outside, ip_address(inside)))
