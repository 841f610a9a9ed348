"""Whether this machine can hold a run to a profile, and what may go into the kernel's rules."""

from ipaddress import ip_address

import pytest

from tests.support.run_scenes import granted
from threegate.base.errors import GateUnavailable
from threegate.host.run.heavy import kernel_allowlist
from threegate.policy.decision import Allow, Deny
from threegate.policy.ring.compiler import ProfileRejected

HELD, PLAIN = granted(network="kernel-allowlist"), granted()
KIND = "heavy-python"


# claim TG-C-305
def test_without_nftables_the_profile_is_rejected_with_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_allowlist, "missing", lambda: None)
    assert kernel_allowlist.compile_here(HELD, KIND, "online").network == "kernel-allowlist", (
        "control"
    )
    assert isinstance(kernel_allowlist.may_enforce_here(HELD, KIND, "online"), Allow), "control"
    monkeypatch.setattr(kernel_allowlist, "missing", lambda: "only root may set nftables")
    rule = HELD.ref("tool-exec", "interpreter_ring", "online", "executor_network")
    with pytest.raises(ProfileRejected) as refusal:
        kernel_allowlist.compile_here(HELD, KIND, "online")
    assert refusal.value.rule == rule
    decision = kernel_allowlist.may_enforce_here(HELD, KIND, "online")
    assert isinstance(decision, Deny)
    assert decision.rule == rule
    assert "it needs nftables" in decision.reason


def test_the_kernel_is_asked_only_where_a_profile_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asked() -> str:
        raise AssertionError("nobody needs to know")

    monkeypatch.setattr(kernel_allowlist, "missing", asked)
    assert kernel_allowlist.compile_here(PLAIN, KIND, "online").network == "gateway"
    assert kernel_allowlist.compile_here(HELD, KIND, "python").network == "off"
    with pytest.raises(AssertionError, match="nobody needs to know"):
        kernel_allowlist.compile_here(HELD, KIND, "online")


def test_a_profile_that_is_not_there_is_no_error_of_ours() -> None:
    decision = kernel_allowlist.may_enforce_here(HELD, KIND, "nobody's")
    assert isinstance(decision, Deny)
    assert "is not offered" in decision.reason
    assert not kernel_allowlist.says_kernel(HELD, "nobody's")
    assert kernel_allowlist.says_kernel(HELD, "online"), "control"


@pytest.mark.parametrize("inside", ["10.0.0.5", "127.0.0.1", "169.254.169.254", "::1", "fd00::5"])
def test_an_address_of_the_inside_does_not_go_into_the_rules(inside: str) -> None:
    outside = (ip_address("104.18.0.1"), ip_address("2606:4700::1"))
    kernel_allowlist.refuse_inside(outside)  # control
    with pytest.raises(GateUnavailable, match="which leads inside"):
        kernel_allowlist.refuse_inside((*outside, ip_address(inside)))
