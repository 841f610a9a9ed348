"""Claim: only the exact request, under the exact rules, signed by an allowed key, in time, runs."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support import samples
from tests.support.policies import policy, public_key
from tests.support.sshlab import Forge, Key
from threegate.artifacts import registry
from threegate.artifacts.approval import BOUND_SECTIONS, Approval, PolicySection
from threegate.artifacts.tool_request import GatewayTerms, ToolRequest
from threegate.base.errors import PolicyDenied
from threegate.policy import approvals
from threegate.policy.approvals import Presented, check_approval, unix_of
from threegate.policy.bundle import Bundle

OPERATOR = Key(b"\x01" * 32)  # the signer of tests.support.policies
STRANGER = Key(b"\x02" * 32)
NOW = unix_of(samples.NOW)
FUNCTIONS = samples.digest("functions")
REQUEST = samples.tool_request(inputs=(), profile="pure")


def bundle(**changes: tuple[str, str]) -> Bundle:
    return policy(**changes).bundle()


def approval_for(request: ToolRequest, rules: Bundle, **changes: Any) -> Approval:
    sections = BOUND_SECTIONS[request.backend]
    base = samples.approval(
        request=registry.id_of(request),
        backend=request.backend,
        limits=request.limits,
        network=request.network,
        functions_sha256=FUNCTIONS if request.backend == "monty" else None,
        policy=tuple(PolicySection(name, rules.section_digest(name)) for name in sections),
    )
    return replace(base, **changes)


def presented(
    request: ToolRequest,
    approval: Approval,
    *,
    key: Key = OPERATOR,
    namespace: str = approvals.NAMESPACE,
) -> Presented:
    data = registry.emit(approval)
    signature = Forge(key, message=data, namespace=namespace.encode()).armored()
    return Presented(registry.emit(request), data, signature)


def refused(what: Presented, rules: Bundle, *, at: int = NOW, functions: str = FUNCTIONS) -> str:
    """Return the code of the refusal, after the control that the honest one is accepted."""
    honest = bundle()
    control = presented(REQUEST, approval_for(REQUEST, honest))
    accepted = check_approval(control, honest, at=NOW, functions_sha256=FUNCTIONS)
    assert accepted.request == REQUEST, "control"
    with pytest.raises(PolicyDenied) as denial:
        check_approval(what, rules, at=at, functions_sha256=functions)
    assert denial.value.exit_code == 77
    return denial.value.code


def test_test_key_is_the_policy_signer() -> None:
    assert OPERATOR.fingerprint == public_key().fingerprint


# claim TG-C-36
def test_approve_one_request_and_run_another() -> None:
    rules = bundle()
    other = replace(REQUEST, nonce="f" * 32)
    assert refused(presented(other, approval_for(REQUEST, rules)), rules) == "TG-APR-002"


# claim TG-C-36
def test_request_swapped_after_review() -> None:
    rules = bundle()
    code = "print(2)\n"
    swapped = replace(REQUEST, code=samples.box(code), code_sha256=samples.digest(code))
    assert refused(presented(swapped, approval_for(REQUEST, rules)), rules) == "TG-APR-002"


# claim TG-C-36
def test_limits_edited_in_the_approval() -> None:
    rules = bundle()
    wider = replace(REQUEST.limits, wall_ms=30_000)
    edited = approval_for(REQUEST, rules, limits=wider)
    assert refused(presented(REQUEST, edited), rules) == "TG-APR-003"


# claim TG-C-36
def test_network_edited_in_the_approval() -> None:
    rules = bundle()
    heavy = samples.escalated("not-expressible", inputs=())
    assert heavy.network == "none"
    honest = presented(heavy, approval_for(heavy, rules))
    edited = presented(
        heavy, approval_for(heavy, rules, network=GatewayTerms(("api.example.org",), 1, 1))
    )
    assert refused(edited, rules) == "TG-APR-003"
    assert refused(honest, rules) != "TG-APR-003", "control: the lane is closed, and that is all"


def test_approval_for_another_lane() -> None:
    rules = bundle()
    heavy = approval_for(REQUEST, rules, backend="era", functions_sha256=None)
    assert refused(presented(REQUEST, heavy), rules) == "TG-APR-003"


# claim TG-C-36
def test_function_set_changed_since_the_approval() -> None:
    rules = bundle()
    honest = presented(REQUEST, approval_for(REQUEST, rules))
    assert refused(honest, rules, functions=samples.digest("other")) == "TG-APR-004"


# claim TG-C-36
def test_policy_changed_since_the_approval() -> None:
    before = bundle()
    after = bundle(tool_exec=("wall_ms: 30s", "wall_ms: 29s"))
    assert refused(presented(REQUEST, approval_for(REQUEST, before)), after) == "TG-APR-005"


def test_prose_of_the_policy_may_change() -> None:
    before = bundle()
    after = bundle(tool_exec=("\n## ", "\n\n## "))
    honest = presented(REQUEST, approval_for(REQUEST, before))
    checked = check_approval(honest, after, at=NOW, functions_sha256=FUNCTIONS)
    assert checked.request_id == registry.id_of(REQUEST)


# claim TG-C-36
def test_signature_by_a_stranger() -> None:
    rules = bundle()
    forged = presented(REQUEST, approval_for(REQUEST, rules), key=STRANGER)
    assert refused(forged, rules) == "TG-KEY-003"


def test_signature_made_for_something_else() -> None:
    rules = bundle()
    approval = approval_for(REQUEST, rules)
    for namespace in ("threegate-policy", "threegate-checkpoint", "file"):
        forged = presented(REQUEST, approval, namespace=namespace)
        assert refused(forged, rules) == "TG-KEY-004"


def test_edited_approval_with_the_old_signature() -> None:
    rules = bundle()
    honest = presented(REQUEST, approval_for(REQUEST, rules))
    edited = registry.emit(approval_for(REQUEST, rules, max_uses=99))
    assert refused(replace(honest, approval=edited), rules) == "TG-KEY-002"


def test_approver_is_somebody_else() -> None:
    rules = bundle()
    borrowed = approval_for(REQUEST, rules, approver="somebody-else")
    assert refused(presented(REQUEST, borrowed), rules) == "TG-APR-006"


@pytest.mark.parametrize("seconds", [-1, 3601, 10**8])
# claim TG-C-36
def test_outside_its_window(seconds: int) -> None:
    rules = bundle()
    honest = presented(REQUEST, approval_for(REQUEST, rules))
    assert refused(honest, rules, at=NOW + seconds) == "TG-APR-007"


def test_longer_or_more_often_than_policy_allows() -> None:
    rules = bundle()
    for changes in ({"not_after": "2027-11-15T12:00:00Z"}, {"max_uses": 101}):
        generous = approval_for(REQUEST, rules, **changes)
        assert refused(presented(REQUEST, generous), rules) == "TG-APR-008"


def test_lane_that_policy_does_not_enable() -> None:
    rules = bundle()
    heavy = samples.escalated("files", inputs=(), profile="python")
    assert refused(presented(heavy, approval_for(heavy, rules)), rules) == "TG-POL-001"


def test_limits_above_policy() -> None:
    rules = bundle()
    greedy = replace(REQUEST, limits=replace(REQUEST.limits, memory_bytes=2**40))
    assert refused(presented(greedy, approval_for(greedy, rules)), rules) == "TG-POL-001"


def test_acceptance_of_a_rule_of_two_that_is_not_there() -> None:
    rules = bundle()
    odd = approval_for(REQUEST, rules, rule_of_two="accepted")
    assert refused(presented(REQUEST, odd), rules) == "TG-APR-009"


@pytest.mark.parametrize("part", ["request", "approval"])
def test_garbage_and_wrong_kinds(part: str) -> None:
    rules = bundle()
    honest = presented(REQUEST, approval_for(REQUEST, rules))
    for data in (
        b"",
        b"junk",
        registry.emit(samples.packet()),
        registry.emit(samples.tool_result()),
    ):
        changed = replace(honest, **{part: data})
        assert refused(changed, rules) == "TG-APR-001"
    assert refused(replace(honest, signature=b"junk"), rules) == "TG-KEY-001"
