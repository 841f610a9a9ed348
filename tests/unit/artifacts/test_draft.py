"""Drafts: what the host completes, what a draft may not say, and that no rule is lost."""

from dataclasses import replace

import pytest

from tests.support.make_vectors import FR, TR, code, key
from tests.support.samples import (
    NONCE,
    NOW,
    digest,
    escalated,
    fetch_request,
    one_of_each,
    tool_request,
)
from threegate.artifacts.draft import HOST_KEYS, LANES, LaneDefaults, complete_draft, is_draft
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.reasons import ArtifactReason
from threegate.artifacts.registry import FORMATS, emit
from threegate.artifacts.tool_request import RunLimits, ToolRequest
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted


def complete(data: bytes) -> FetchRequest | ToolRequest:
    return complete_draft(Untrusted(data), created=NOW, nonce=NONCE)


def tool(data: bytes) -> ToolRequest:
    request = complete(data)
    assert isinstance(request, ToolRequest)
    return request


def reason_of(data: bytes) -> ArtifactReason | None:
    try:
        complete(data)
    except ArtifactRejected as exc:
        return {reason.code: reason for reason in ArtifactReason}[exc.code]
    return None


def test_least_draft_gets_every_default() -> None:
    request = tool(TR)
    assert (request.backend, request.why_not_monty, request.network) == ("monty", None, "none")
    assert (request.profile, request.limits) == (LANES["monty"].profile, LANES["monty"].limits)
    assert (request.argv, request.inputs, request.functions, request.outputs) == ((), (), (), ())
    assert (request.origin, request.integrity, request.derived_from) == ("operator",) * 2 + ((),)
    assert (request.created, request.nonce) == (NOW, NONCE)
    assert request.confidentiality == "internal"
    assert request.code.open_for_validation() == "1 + 1"
    assert request.code_sha256 == digest("1 + 1")


def test_least_fetch_draft() -> None:
    request = complete(FR)
    assert isinstance(request, FetchRequest)
    assert (request.want, request.confidentiality) == ("metadata", "public")
    assert (request.origin, request.integrity, request.derived_from) == ("operator",) * 2 + ((),)


def test_asking_again_is_another_request() -> None:
    again = complete_draft(Untrusted(TR), created=NOW, nonce="f" * 32)
    assert emit(again) != emit(complete(TR))
    assert replace(again, nonce=NONCE) == complete(TR)


def test_upper_case_era_is_canonicalised_and_nothing_else_is() -> None:
    stated = key(
        key(TR, 'why_not_monty: {"reason": "files"}'), 'outputs: [{"name": "a", "max_bytes": 1}]'
    )
    assert tool(key(stated, 'backend: "ERA"')) == tool(key(stated, 'backend: "era"'))
    assert tool(key(stated, 'backend: "ERA"')).backend == "era"
    for wrong in ("Era", "MONTY", "era ", "ERA,monty"):
        assert reason_of(key(stated, f'backend: "{wrong}"')) is ArtifactReason.UNKNOWN_VALUE


def test_policy_decides_the_defaults_of_a_lane() -> None:
    lanes = {"monty": LaneDefaults("strict", RunLimits(7, 7, 7, 7, 1, 1, 0))}
    request = complete_draft(Untrusted(TR), created=NOW, nonce=NONCE, lanes=lanes)
    assert isinstance(request, ToolRequest)
    assert (request.profile, request.limits.wall_ms) == ("strict", 7)


def test_some_limits_are_filled_up() -> None:
    request = tool(key(TR, 'limits: {"recursion": 9, "wall_ms": 8}'))
    assert request.limits == replace(LANES["monty"].limits, recursion=9, wall_ms=8)


@pytest.mark.parametrize("name", HOST_KEYS)
def test_draft_cannot_set_what_only_the_host_sets(name: str) -> None:
    assert reason_of(TR) is None
    for value in ("null", '"x"', "[]"):
        assert reason_of(key(TR, f"{name}: {value}")) is ArtifactReason.HOST_FIELD


def test_draft_cannot_speak_for_core() -> None:
    assert reason_of(key(TR, 'origin: "operator"')) is None
    for value in ('"core"', "null", '["operator"]'):
        assert reason_of(key(TR, f"origin: {value}")) is ArtifactReason.HOST_FIELD


def test_stored_request_is_no_draft_and_a_draft_is_no_stored_request() -> None:
    for prefix, artifact in one_of_each().items():
        assert not is_draft(Untrusted(emit(artifact))), prefix
    assert is_draft(Untrusted(TR))
    assert is_draft(Untrusted(FR))
    assert is_draft(Untrusted(key(TR, 'created: "x"'))), "refused as a draft, for the right reason"
    assert not is_draft(Untrusted(b""))
    assert not is_draft(Untrusted(TR.replace(b"tr/1", b"rp/1")))
    # Stamps in the text of a draft are text.
    assert is_draft(Untrusted(TR.replace(b"A sum.", b"\ncreated: 1\nnonce: 2")))


def test_stored_request_stripped_of_the_hosts_keys_is_completed_to_itself() -> None:
    for request in (tool_request(), escalated("files"), escalated("binary"), fetch_request()):
        stored = replace(request, created=NOW, nonce=NONCE)
        lines = emit(stored).decode("utf-8").split("\n")
        drafted = [row for row in lines if row.partition(":")[0] not in HOST_KEYS]
        code_lines = "\n".join(drafted).encode("utf-8")
        completed = complete(code_lines)
        if isinstance(stored, ToolRequest) and isinstance(completed, ToolRequest):
            # Blank lines at the end of a text are not the draft's to keep.
            text = stored.code.open_for_validation().rstrip("\n")
            stored = replace(stored, code=Untrusted(text), code_sha256=digest(text))
            if stored.why_not_monty is not None and stored.why_not_monty.refusal is not None:
                continue
        assert completed == stored


def test_fenced_and_indented_code_are_the_same_code() -> None:
    fenced, indented = code("```python\nif x:\n    y\n```\n"), code("    if x:\n        y\n")
    assert emit(complete(fenced)) == emit(complete(indented))


def test_code_in_a_fence_is_kept_character_for_character() -> None:
    text = "## heading\n---\n\n    deep\n\ttab `` ~~~ \n# end"
    assert tool(code(f"```\n{text}\n```\n")).code.open_for_validation() == text
    assert tool(code(f"````\n```\n{text}\n````\n")).code.open_for_validation() == f"```\n{text}"


@pytest.mark.parametrize(
    "text",
    ["1 + 1\n", "```\n1\n", "```\n1\n```\nx\n", "    1\nx\n", "```a b\n1\n```\n", "``\n1\n``\n"],
)
def test_code_that_is_neither_fenced_nor_indented_is_rejected(text: str) -> None:
    assert reason_of(code(text)) is ArtifactReason.BODY_TEXT


def test_heading_in_a_paragraph_is_structure_never_text() -> None:
    assert reason_of(TR.replace(b"A sum.", b"    ## Risks")) is None, "control: indented"
    assert reason_of(TR.replace(b"A sum.", b"## Risks\nx")) is ArtifactReason.SECTIONS
    assert reason_of(TR.replace(b"A sum.", b"### x")) is ArtifactReason.BODY_TEXT
    assert reason_of(TR.replace(b"A sum.", b"```\n## Risks\n```")) is ArtifactReason.BODY_TEXT


def test_packet_as_input_makes_the_request_external() -> None:
    for artifact, integrity in (
        (f"rp-{digest('x')}", "external"),
        (f"blob-{digest('x')}", "operator"),
    ):
        row = f'inputs: [{{"bytes": 1, "name": "a", "artifact": "{artifact}"}}]'
        assert tool(key(TR, row)).integrity == integrity


@pytest.mark.parametrize("prefix", ["rp", "ap", "res", "an"])
def test_only_requests_have_drafts(prefix: str) -> None:
    assert prefix in FORMATS
    data = TR.replace(b"tr/1", f"{prefix}/1".encode())
    assert not is_draft(Untrusted(data))
    assert reason_of(data) is ArtifactReason.UNKNOWN_FORMAT


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('references: ["\\ud800"]', ArtifactReason.UNKNOWN_KEY),
        ('profile: "\\ud800"', ArtifactReason.NOT_UTF8),
        ('profile: "\\u0000"', ArtifactReason.FORBIDDEN_CHARACTER),
        ('profile: "\\u202e"', ArtifactReason.FORBIDDEN_CHARACTER),
        ("profile: " + "9" * 5000, ArtifactReason.NOT_CANONICAL),
        ("profile: -0", ArtifactReason.WRONG_TYPE),
        ("profile: NaN", ArtifactReason.WRONG_TYPE),
        ("profile: 1e999", ArtifactReason.WRONG_TYPE),
        ('profile: "a", "b"', ArtifactReason.NOT_CANONICAL),
        ("inputs: {}", ArtifactReason.WRONG_TYPE),
        ("inputs: [1, {}]", ArtifactReason.WRONG_TYPE),
        ('functions: ["sha256_hex", 1]', ArtifactReason.WRONG_TYPE),
        ("limits: null", ArtifactReason.WRONG_TYPE),
        ("backend: {}", ArtifactReason.WRONG_TYPE),
        ("why_not_monty: {}", ArtifactReason.MISSING_KEY),
        ("why_not_monty: []", ArtifactReason.WRONG_TYPE),
        ('"profile": "x"', ArtifactReason.FRONT_MATTER),
        ("profile", ArtifactReason.FRONT_MATTER),
        ("", ArtifactReason.FRONT_MATTER),
    ],
)
def test_odd_values_are_rejected_by_the_rule_they_break(line: str, reason: ArtifactReason) -> None:
    assert reason_of(key(TR, 'profile: "x"')) is None
    assert reason_of(key(TR, line)) is reason


def test_draft_has_front_matter_between_two_lines() -> None:
    assert reason_of(TR) is None
    assert reason_of(TR.removeprefix(b"---\n")) is ArtifactReason.FRONT_MATTER
    assert reason_of(b'---\nformat: "tr/1"\n') is ArtifactReason.FRONT_MATTER
    assert reason_of(TR.replace(b"\n---\n", b"\n")) is ArtifactReason.FRONT_MATTER


def test_front_matter_of_a_draft_is_held_to_the_limit_of_the_request() -> None:
    at_limit, over = (key(TR, f'profile: "{"x" * size}"') for size in (500_000, 524_288))
    assert reason_of(at_limit) is ArtifactReason.OUT_OF_RANGE
    assert reason_of(over) is ArtifactReason.OVERSIZE


def test_host_stamps_are_checked_like_everything_else() -> None:
    with pytest.raises(ArtifactRejected) as refusal:
        complete_draft(Untrusted(TR), created="yesterday", nonce=NONCE)
    assert refusal.value.code == ArtifactReason.MALFORMED_VALUE.code
