"""The rules of a tool request, each named after the attack it stops."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.samples import (
    GATEWAY,
    LIMITS,
    box,
    digest,
    escalated,
    fetch_request,
    tool_request,
)
from tests.support.vectors import judge
from threegate.artifacts.reasons import ArtifactReason
from threegate.artifacts.registry import emit, parse
from threegate.artifacts.tool_request import (
    Escalation,
    Input,
    OutputSpec,
    ToolRequest,
    refusal_record,
)
from threegate.base.untrusted import Untrusted

RP, RES, TR = (f"{kind}-{digest(kind)}" for kind in ("rp", "res", "tr"))


def with_code(code: str, **changes: Any) -> ToolRequest:
    return tool_request(code=box(code), code_sha256=digest(code), **changes)


def spelled(request: ToolRequest, old: str, new: str) -> bytes:
    data = emit(request).decode("utf-8")
    assert old in data
    return data.replace(old, new, 1).encode("utf-8")


# claim TG-C-11
def test_code_cannot_alter_its_own_limits() -> None:
    code = '---\nlimits: {"wall_ms": 86400000}\n---\n\n# Tool Request\n\n## Risks\n\nnone'
    request = with_code(code)
    read = parse(Untrusted(emit(request)))
    assert isinstance(read, ToolRequest)
    assert (read.limits, read.code) == (LIMITS, box(code)), "control: it is read, as text"
    # The same lines in column 0 would be structure, so they cannot stand there.
    outside = emit(request).replace(b"    limits:", b"limits:")
    assert judge(outside) is ArtifactReason.BODY_TEXT
    assert judge(outside.replace(b"    ---", b"---")) in (
        ArtifactReason.BODY_TEXT,
        ArtifactReason.SECTIONS,
    )


def test_code_cannot_be_changed_after_the_digest() -> None:
    assert judge(tool_request()) is None
    assert (
        judge(spelled(tool_request(), "sum(rows)", "max(rows)")) is ArtifactReason.DIGEST_MISMATCH
    )


# claim TG-C-11
def test_code_cannot_open_another_section() -> None:
    code = "x = 1\n## Risks\n\n    none\n### 1"
    read = parse(Untrusted(emit(with_code(code))))
    assert isinstance(read, ToolRequest)
    assert read.code.open_for_validation() == code
    assert read.risks == tool_request().risks


def test_limits_cannot_be_left_out_or_repeated() -> None:
    request = tool_request()
    line = next(row for row in emit(request).decode().split("\n") if row.startswith("limits: "))
    assert judge(spelled(request, line + "\n", "")) is ArtifactReason.MISSING_KEY
    assert judge(spelled(request, line, f"{line}\n{line}")) is ArtifactReason.DUPLICATE_KEY
    assert judge(spelled(request, '"wall_ms": 1000, ', "")) is ArtifactReason.MISSING_KEY
    assert (
        judge(spelled(request, '"cpus": 1', '"cpus": 1, "gpus": 1')) is ArtifactReason.UNKNOWN_KEY
    )
    assert judge(spelled(request, '"wall_ms": 1000', '"wall_ms": 0')) is ArtifactReason.OUT_OF_RANGE
    assert (
        judge(spelled(request, '"wall_ms": 1000', '"wall_ms": true')) is ArtifactReason.WRONG_TYPE
    )


@pytest.mark.parametrize("backend", ['["monty", "era"]', '"monty", "era"', '"monty era"', '"ERA"'])
def test_request_cannot_ask_for_both_backends_or_a_loose_name(backend: str) -> None:
    reasons = (
        ArtifactReason.WRONG_TYPE,
        ArtifactReason.NOT_CANONICAL,
        ArtifactReason.UNKNOWN_VALUE,
    )
    assert judge(tool_request()) is None
    assert judge(spelled(tool_request(), 'backend: "monty"', f"backend: {backend}")) in reasons


def test_stored_request_names_its_backend() -> None:
    assert judge(spelled(tool_request(), 'backend: "monty"\n', "")) is ArtifactReason.MISSING_KEY


def test_era_needs_a_reason() -> None:
    assert judge(escalated("files")) is None
    assert judge(escalated("files", why_not_monty=None)) is ArtifactReason.BACKEND
    assert judge(tool_request(why_not_monty=Escalation("files", None))) is ArtifactReason.BACKEND


def test_not_expressible_needs_montys_refusal_of_this_very_code() -> None:
    request = escalated("not-expressible")
    assert judge(request) is None
    assert request.why_not_monty is not None
    refusal = request.why_not_monty.refusal
    assert refusal is not None
    assert judge(replace(request, why_not_monty=Escalation("not-expressible", None))) is (
        ArtifactReason.REFUSAL
    )
    other = replace(request, code=box("x = 1"), code_sha256=digest("x = 1"))
    assert judge(other) is ArtifactReason.REFUSAL
    for change in ({"line": 2}, {"construct": box("y")}, {"reason": box("z")}):
        forged = Escalation("not-expressible", replace(refusal, **change))
        assert judge(replace(request, why_not_monty=forged)) is ArtifactReason.REFUSAL


def test_a_refusal_cannot_ride_along_with_another_reason() -> None:
    stated = escalated("not-expressible").why_not_monty
    assert stated is not None
    request = escalated("files", why_not_monty=Escalation("files", stated.refusal))
    assert judge(request) is ArtifactReason.REFUSAL


def test_refusal_record_is_one_line_of_canonical_json() -> None:
    record = refusal_record(code_sha256="0" * 64, construct="c", line=1, reason="r")
    expected = b'{"code_sha256":"%s","construct":"c","format":"refusal/1","line":1,"reason":"r"}'
    assert record == expected % (b"0" * 64)


def test_reason_files_is_checked_against_outputs() -> None:
    assert judge(escalated("files")) is None
    assert judge(escalated("files", outputs=())) is ArtifactReason.BACKEND


def test_reason_binary_is_checked_against_argv() -> None:
    assert judge(escalated("binary")) is None
    assert judge(escalated("binary", argv=())) is ArtifactReason.BACKEND
    assert (
        judge(escalated("files", why_not_monty=Escalation("binary", None)))
        is ArtifactReason.BACKEND
    )
    argv = escalated("binary").argv
    without_code = {"code": box(""), "code_sha256": digest("")}
    assert judge(escalated("files", argv=argv, **without_code)) is ArtifactReason.BACKEND


def test_request_has_code_or_a_command_never_both() -> None:
    code = {"code": box("x"), "code_sha256": digest("x")}
    assert judge(escalated("binary", **code)) is ArtifactReason.BACKEND
    assert judge(with_code("")) is ArtifactReason.BACKEND


@pytest.mark.parametrize(
    "change",
    [
        {"outputs": (OutputSpec("a", 1),)},
        {"network": GATEWAY},
        {"limits": replace(LIMITS, cpus=2)},
        {"limits": replace(LIMITS, processes=2)},
        {"limits": replace(LIMITS, disk_bytes=1)},
    ],
    ids=str,
)
def test_monty_lane_cannot_be_asked_for_what_it_does_not_have(change: dict[str, Any]) -> None:
    assert judge(tool_request()) is None
    assert judge(tool_request(**change)) is ArtifactReason.BACKEND


def test_era_lane_has_no_external_functions() -> None:
    assert judge(tool_request(functions=("sha256_hex",))) is None
    assert judge(escalated("files", functions=("sha256_hex",))) is ArtifactReason.BACKEND
    assert judge(spelled(tool_request(), '"json_loads"', '"eval"')) is ArtifactReason.UNKNOWN_VALUE


# claim TG-C-06
def test_request_cannot_name_another_request_to_run() -> None:
    assert judge(spelled(tool_request(), "\nargv: ", '\nrun_next: "x"\nargv: ')) is (
        ArtifactReason.UNKNOWN_KEY
    )
    named = f'[{{"name": "a", "artifact": "{TR}", "bytes": 1, "file": null}}]'
    data = emit(tool_request(inputs=())).replace(b"inputs: []", f"inputs: {named}".encode())
    assert judge(data.replace(TR.encode(), b"blob-" + TR[3:].encode())) is None, "control: a blob"
    assert judge(data) is ArtifactReason.MALFORMED_VALUE


# claim TG-C-06
def test_result_may_be_data_but_what_it_feeds_is_external() -> None:
    inputs = (Input("rows", RES, 4, None),)
    assert judge(tool_request(inputs=inputs, integrity="external")) is None
    assert judge(tool_request(inputs=inputs)) is ArtifactReason.LABELS


def test_core_cannot_write_with_the_operators_integrity() -> None:
    assert judge(tool_request(origin="core", integrity="external")) is None
    assert judge(tool_request(origin="core")) is ArtifactReason.LABELS


# claim TG-C-12
def test_sources_cannot_be_hidden_behind_the_operators_integrity() -> None:
    assert judge(tool_request(derived_from=(RP,), integrity="external")) is None
    assert judge(tool_request(derived_from=(RP,))) is ArtifactReason.LABELS


def test_two_inputs_cannot_share_a_name() -> None:
    blobs = ["blob-" + digest(text) for text in "ab"]
    assert (
        judge(tool_request(inputs=(Input("a", blobs[0], 1, None), Input("b", blobs[1], 1, None))))
        is None
    )
    for second in (Input("a", blobs[1], 1, None), Input("a", blobs[0], 2, None)):
        twice = tool_request(inputs=(Input("a", blobs[0], 1, None), second))
        assert judge(twice) is ArtifactReason.LIST_ORDER


@pytest.mark.parametrize("name", ["../x", "a/b", ".bashrc", "-rf", "", "a\\b", "x" * 129, "é"])
def test_output_cannot_leave_its_folder(name: str) -> None:
    request = escalated("files")
    assert judge(request) is None
    data = spelled(request, '"table.csv"', '"' + name.replace("\\", "\\\\") + '"')
    assert judge(data) in (ArtifactReason.MALFORMED_VALUE, ArtifactReason.OUT_OF_RANGE)


def test_parents_are_sources_and_inputs_without_blobs() -> None:
    inputs = (Input("a", RES, 1, None), Input("b", "blob-" + digest("x"), 1, None))
    request = tool_request(inputs=inputs, derived_from=(RP,), integrity="external")
    assert request.parents() == tuple(sorted((RP, RES)))


def test_a_fetch_request_is_no_tool_request() -> None:
    data = emit(fetch_request()).replace(b'"fr/1"', b'"tr/1"')
    assert judge(data) is ArtifactReason.UNKNOWN_KEY
