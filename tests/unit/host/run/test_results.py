"""Every outcome of a sandbox becomes a result that parses, with nothing lost."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.policies import policy
from tests.support.samples import tool_request
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.tool_result import ToolResult
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era.messages import HeavyOutcome
from threegate.gates.tool_exec.monty import messages as tool_lite
from threegate.gates.tool_exec.monty.messages import LiteCut, LiteOutcome, RefusalFound
from threegate.host.run.results import (
    Confinement,
    MadeResult,
    Measured,
    confinement_of,
    make_result,
    violations_of,
)
from threegate.policy.ring.compiler import compile_ring
from threegate.policy.ring.executor_profile import RingViolation

IDS = ("tr-" + "1" * 64, "ap-" + "2" * 64)
SEEN = Measured("2026-11-16T10:00:00Z", 3, 9_000_000)
BOX = confinement_of(
    "3" * 64,
    ("limit:cpu 600", "call:bpf", "exec-other:/rt/python", "descriptors:0,1"),
    {"monty": "1.4.0"},
)
POLICY = policy()
PYTHON = compile_ring(POLICY, "heavy-python", "python")
PURE = compile_ring(POLICY, "monty", "pure")


def made(outcome: LiteOutcome, box: Confinement = BOX) -> MadeResult:
    return make_result(tool_request(), IDS, outcome, SEEN, box)


def read_back(result: MadeResult) -> ToolResult:
    parsed = registry.parse(Untrusted(result.data))
    assert isinstance(parsed, ToolResult)
    return parsed


@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=200))
def test_any_streams_become_a_result_and_no_byte_is_lost(
    value: bytes, stdout: bytes, stderr: bytes
) -> None:
    result = made(LiteOutcome("ok", value=value, stdout=stdout, stderr=stderr))
    back = read_back(result)
    kept = {sha256_hex(blob): blob for blob in result.blobs}
    texts = (back.value_text, back.stdout_text, back.stderr_text)
    for raw, capture, text in zip(
        (value, stdout, stderr), (back.value, back.stdout, back.stderr), texts, strict=True
    ):
        assert (capture.bytes, capture.sha256) == (len(raw), sha256_hex(raw))
        stored = kept[capture.sha256] if capture.escaped else text.open_for_display().encode()
        assert stored == raw


def test_text_that_drives_a_terminal_is_spelled_out_and_kept_as_a_blob() -> None:
    raw = "red \x1b[31m and hidden \u202e".encode()
    result = made(LiteOutcome("ok", stdout=raw))
    assert result.result.stdout.escaped
    assert result.blobs == (raw,)
    assert "\\u{1b}[31m" in result.result.stdout_text.open_for_display()


def test_a_million_line_breaks_do_not_outgrow_the_format() -> None:
    raw = b"\n" * 1_000_000
    limits = replace(tool_request().limits, output_bytes=len(raw))
    request = tool_request(limits=limits)
    result = make_result(request, IDS, LiteOutcome("ok", stdout=raw), SEEN, BOX)
    assert result.blobs == (raw,)
    assert read_back(result).stdout.bytes == 1_000_000


def test_cut_streams_are_marked_and_change_the_outcome() -> None:
    whole, cut = (
        made(LiteOutcome("ok", stdout=b"x", cut=LiteCut(stdout=c))) for c in (False, True)
    )
    assert cut.result.stdout.truncated
    assert whole.result.outcome_sha256 != cut.result.outcome_sha256


def test_what_did_not_run_says_why() -> None:
    denied = LiteOutcome("refused:approval", code="TG-APR-007", message="the approval is expired")
    assert made(denied).result.stderr_text.open_for_display() == (
        "the approval is expired [TG-APR-007]"
    )
    refused = LiteOutcome("refused:import", refusal=RefusalFound("import", 3, "not on the list"))
    text = made(refused).result.stderr_text.open_for_display()
    assert text == "line 3: import: not on the list"


def test_evidence_names_each_kind_of_proof_once() -> None:
    assert [item.mechanism for item in BOX.evidence] == [
        *("call", "descriptors", "exec-other", "limit")
    ]


def test_versions_a_result_may_not_carry_are_refused() -> None:
    box = confinement_of("3" * 64, (), {"monty": "1.4.0"})
    made(LiteOutcome("ok"), box)
    with pytest.raises(ArtifactRejected):
        made(LiteOutcome("ok"), confinement_of("3" * 64, (), {"Not A Name": "1"}))


def test_the_place_of_a_rule_comes_from_the_policy() -> None:
    tried = (
        RingViolation("denied_imports", "requests", 3),
        RingViolation("allowed_imports", "x", 0),
    )
    outcome = HeavyOutcome("ok", 0, violations=tried)
    first, second = violations_of(outcome, PYTHON)
    assert (first.rule, first.line) == ("denied_imports", 3)
    assert first.argument.open_for_display() == "requests"
    path = ("tool-exec", "interpreter_ring", "python")
    assert first.place == str(POLICY.ref(*path, "denied_imports", "requests"))
    assert second.place == str(POLICY.ref(*path, "allowed_imports"))
    assert violations_of(outcome, None) == (), "no profile was in force"


def test_a_refused_import_in_monty_is_a_violation_of_its_profile() -> None:
    refusal = RefusalFound("import", 2, 'module "os" is not on the list')
    (found,) = violations_of(tool_lite.LiteOutcome("refused:import", refusal=refusal), PURE)
    assert (found.rule, found.line) == ("allowed_imports", 2)
    assert found.argument.open_for_display() == "os"
    other = RefusalFound("yield expressions", 2, "not supported")
    assert violations_of(tool_lite.LiteOutcome("refused:x", refusal=other), PURE) == ()
