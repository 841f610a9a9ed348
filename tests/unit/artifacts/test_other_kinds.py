"""Fetch request, approval, result, analysis: what contradicts itself is refused."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.samples import (
    ERA_LIMITS,
    GATEWAY,
    LATER,
    NOW,
    analysis,
    approval,
    box,
    digest,
    fetch_request,
    output_file,
    tool_result,
    with_outcome,
)
from tests.support.vectors import judge
from threegate.artifacts.analysis import Claim
from threegate.artifacts.approval import PolicySection
from threegate.artifacts.reasons import ArtifactReason
from threegate.artifacts.registry import emit
from threegate.artifacts.tool_result import Capture, ProbedMechanism

RP, RES, AN = (f"{kind}-{digest(kind)}" for kind in ("rp", "res", "an"))
FETCH, SIGNERS, TOOLS = (PolicySection(n, digest(n)) for n in ("fetch", "signers", "tool-exec"))
FETCH_APPROVAL: dict[str, Any] = {
    "request": "fr-" + digest("x"),
    "backend": "fetch",
    "limits": None,
    "functions_sha256": None,
    "policy": (FETCH, SIGNERS),
}


# claim TG-C-06
def test_tool_result_cannot_feed_fetch() -> None:
    core = {"origin": "core", "integrity": "external"}
    assert judge(fetch_request(derived_from=(AN, RP), **core)) is None
    assert (
        judge(fetch_request(derived_from=(AN, RES, RP), **core))
        is ArtifactReason.RESULT_FEEDS_FETCH
    )
    operator = fetch_request(derived_from=(RES,), integrity="external")
    assert judge(operator) is None, "the operator may write one"


def test_core_cannot_fetch_with_the_operators_integrity() -> None:
    assert judge(fetch_request(origin="core", integrity="external")) is None
    assert judge(fetch_request(origin="core")) is ArtifactReason.LABELS
    assert judge(fetch_request(derived_from=(RP,))) is ArtifactReason.LABELS


def test_reference_is_asked_for_once() -> None:
    assert judge(fetch_request(references=(box("b"), box("a")))) is None
    assert judge(fetch_request(references=(box("a"), box("a")))) is ArtifactReason.LIST_ORDER
    assert judge(fetch_request(references=())) is ArtifactReason.OUT_OF_RANGE


def test_approval_ends_after_it_begins() -> None:
    assert judge(approval(not_before=NOW, not_after=LATER)) is None
    assert judge(approval(not_before=NOW, not_after=NOW)) is ArtifactReason.INCONSISTENT
    assert judge(approval(not_before=LATER, not_after=NOW)) is ArtifactReason.INCONSISTENT


@pytest.mark.parametrize("uses", [0, 1001, -1])
def test_approval_is_never_without_end(uses: int) -> None:
    assert judge(approval(max_uses=1000)) is None
    assert judge(approval(max_uses=uses)) is ArtifactReason.OUT_OF_RANGE


@pytest.mark.parametrize(
    "change",
    [
        {"backend": "monty"},
        {"limits": ERA_LIMITS},
        {"functions_sha256": digest("f")},
        {"policy": (SIGNERS, TOOLS)},
        {"network": GATEWAY},
        {"request": "tr-" + digest("x")},
    ],
    ids=str,
)
def test_approval_of_a_fetch_cannot_be_read_as_one_of_a_run(change: dict[str, Any]) -> None:
    assert judge(approval(**FETCH_APPROVAL)) is None
    assert judge(approval(**{**FETCH_APPROVAL, **change})) is ArtifactReason.INCONSISTENT


def test_approval_binds_exactly_the_sections_that_decide() -> None:
    assert judge(approval(policy=(SIGNERS, TOOLS))) is None
    assert judge(approval(policy=(FETCH, SIGNERS, TOOLS))) is ArtifactReason.INCONSISTENT
    assert judge(approval(policy=(TOOLS, SIGNERS))) is ArtifactReason.LIST_ORDER
    assert judge(approval(policy=(SIGNERS, SIGNERS))) is ArtifactReason.LIST_ORDER
    assert judge(approval(policy=(SIGNERS,))) is ArtifactReason.OUT_OF_RANGE


def test_only_era_can_be_given_a_network() -> None:
    era: dict[str, Any] = {"backend": "era", "limits": ERA_LIMITS, "functions_sha256": None}
    assert judge(approval(network=GATEWAY, **era)) is None
    assert judge(approval(network=GATEWAY)) is ArtifactReason.INCONSISTENT


# claim TG-C-11
def test_forged_stream_of_a_result_is_rejected() -> None:
    result = tool_result("1", "out", "err")
    assert judge(result) is None
    for name in ("value_text", "stdout_text", "stderr_text"):
        change: dict[str, Any] = {name: box("forged")}
        assert judge(replace(result, **change)) is ArtifactReason.DIGEST_MISMATCH


def test_forged_outcome_of_a_result_is_rejected() -> None:
    result = tool_result()
    assert judge(result) is None
    for change in ({"exit": "error"}, {"exit_code": 0}, {"outcome_sha256": digest("x")}):
        assert judge(replace(result, **change)) is ArtifactReason.DIGEST_MISMATCH
    cut = Capture(3, digest("1.2"), truncated=True, escaped=False)
    assert judge(replace(result, value=cut)) is ArtifactReason.DIGEST_MISMATCH


def test_resources_and_evidence_stand_outside_the_outcome() -> None:
    result = tool_result()
    again = replace(result, started=LATER, evidence=(ProbedMechanism("seccomp", "in-force"),))
    assert judge(again) is None


def test_stream_is_compared_with_its_text_unless_it_was_escaped() -> None:
    raw = "\x1b[31mred"
    shown = {"truncated": False, "escaped": True}
    escaped = Capture(len(raw), digest(raw), **shown)
    result = replace(tool_result(), stdout=escaped, stdout_text=box(r"\u{1b}[31mred"))
    assert judge(with_outcome(result)) is None
    claimed = replace(result, stdout=replace(escaped, escaped=False))
    assert judge(with_outcome(claimed)) is ArtifactReason.DIGEST_MISMATCH


def test_monty_leaves_no_files_and_ok_means_zero() -> None:
    era = {"backend": "era", "isolation": "qemu-kvm"}
    assert judge(tool_result(files=(output_file(),), **era)) is None
    assert judge(tool_result(files=(output_file(),))) is ArtifactReason.BACKEND
    assert judge(tool_result(exit_code=0, **era)) is None
    assert judge(tool_result(exit_code=1, **era)) is ArtifactReason.INCONSISTENT
    assert judge(tool_result(exit="error", exit_code=1, **era)) is None


def test_evidence_cannot_say_two_things() -> None:
    both = (ProbedMechanism("seccomp", "in-force"), ProbedMechanism("seccomp", "not-applicable"))
    assert judge(tool_result(evidence=both[:1])) is None
    assert judge(tool_result(evidence=both)) is ArtifactReason.LIST_ORDER


def test_claim_cannot_show_a_quote_that_is_not_its_own() -> None:
    made = analysis()
    assert judge(made) is None
    assert judge(replace(made, quotes=(box("broke at 9.9 MPa"),))) is ArtifactReason.DIGEST_MISMATCH
    assert judge(replace(made, quotes=())) is ArtifactReason.INCONSISTENT


def test_claim_cannot_cite_what_was_not_readable() -> None:
    assert judge(analysis(selection=(), derived_from=(RP,))) is ArtifactReason.INCONSISTENT
    assert judge(analysis(selection=(AN,))) is ArtifactReason.INCONSISTENT
    assert judge(analysis(continues=AN)) is ArtifactReason.INCONSISTENT


def test_label_says_no_more_than_was_checked() -> None:
    made = analysis()
    for label in ("quote found", "number differs", "source retracted"):
        claims = (made.claims[0], Claim(label, ()))
        assert judge(replace(made, claims=claims)) is ArtifactReason.INCONSISTENT
    assert judge(replace(made, claims=(made.claims[0], Claim("unchecked", ())))) is None
    data = emit(made).replace(b'"quote found"', b'"true"')
    assert judge(data) is ArtifactReason.UNKNOWN_VALUE


def test_extractive_answers_name_no_model_and_others_do() -> None:
    assert judge(analysis(method="extractive", model=None)) is None
    assert judge(analysis(method="extractive")) is ArtifactReason.INCONSISTENT
    assert judge(analysis(model=None)) is ArtifactReason.INCONSISTENT


# claim TG-C-03
def test_analysis_and_result_are_always_external() -> None:
    for made in (analysis(), tool_result()):
        data = emit(made)
        assert judge(data) is None
        changed = data.replace(b'integrity: "external"', b'integrity: "operator"')
        assert judge(changed) is ArtifactReason.UNKNOWN_VALUE


def test_parents_of_each_kind() -> None:
    assert approval().parents() == ("tr-" + digest("request"),)
    assert set(tool_result().parents()) == {"tr-" + digest("request"), "ap-" + digest("approval")}
    assert analysis().parents() == analysis().derived_from
    assert fetch_request(derived_from=(RP,)).parents() == (RP,)
