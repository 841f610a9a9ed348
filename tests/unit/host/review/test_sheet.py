"""A sheet: everything of a request, from the very bytes that an approval would name."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.requests import approved, drafted, held, program
from tests.support.samples import (
    GATEWAY,
    LIMITS,
    analysis,
    box,
    escalated,
    fetch_request,
    packet,
    tool_request,
)
from tests.support.workspaces import Clock, fetched_in, keep_blob, make_workspace
from threegate.artifacts import registry
from threegate.artifacts.ids import make_id
from threegate.artifacts.tool_request import Input
from threegate.base.errors import HandoffTampered, UsageError
from threegate.base.text import visible
from threegate.host.output import as_json
from threegate.host.review.approval import statement
from threegate.host.review.decisions import deny
from threegate.host.review.parts import plain
from threegate.host.review.render import lines
from threegate.host.review.sheet import document, read_sheet
from threegate.host.workspace.workspace import Workspace


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ws(tmp_path: Path, clock: Clock) -> Iterator[Workspace]:
    with closing(make_workspace(tmp_path, clock=clock)) as found:
        yield found


def test_it_holds_the_bytes_its_id_names(ws: Workspace) -> None:
    sheet = held(ws)
    assert make_id("tr", sheet.data) == sheet.id
    assert registry.emit(sheet.request) == sheet.data
    assert sheet.tool is not None
    assert sheet.tool.code is not None
    assert sheet.tool.code.text.encode("utf-8") in sheet.data.replace(b"\n    ", b"\n")


def test_age_and_expiry_follow_clock_and_policy(ws: Workspace, clock: Clock) -> None:
    sheet = held(ws)
    assert sheet.expires is not None
    wait = ws.bundle.integer("handoff", "held_expiry_seconds")
    assert sheet.expires - sheet.now == wait - sheet.age_seconds
    clock.now += 60
    assert read_sheet(ws, sheet.id).age_seconds == sheet.age_seconds + 60


def test_limits_stand_next_to_what_policy_gives_and_allows(ws: Workspace) -> None:
    sheet = held(ws, program(limits=replace(LIMITS, wall_ms=20_000)))
    assert sheet.tool is not None
    wall = sheet.tool.limits[0]
    assert (wall.name, wall.shown, wall.raised) == ("wall_ms", ("20s", "2s", "30s"), True)
    assert len(sheet.tool.limits) == 7


def test_functions_have_a_meaning_and_bounds(ws: Workspace) -> None:
    sheet = held(ws)
    assert sheet.tool is not None
    names = {one.name: dict(one.bounds) for one in sheet.tool.functions}
    assert names["sha256_hex"] == {
        "calls": "10000",
        "depth": "1",
        "input_bytes": "1MiB",
        "output_bytes": "64",
    }
    assert all(one.meaning for one in sheet.tool.functions)


def test_inputs_with_size_kind_and_origin(ws: Workspace) -> None:
    (source,) = fetched_in(ws, packet())
    blob = keep_blob(ws, b'"text"')
    given = (Input("paper", source, 10, None), Input("words", f"blob-{blob}", 6, None))
    sheet = held(ws, program("words, paper\n", inputs=given, integrity="external"))
    assert sheet.tool is not None
    paper, words = sheet.tool.inputs
    assert (paper.kind, words.kind) == ("research-packet", "file, text")
    assert paper.title.startswith("On the toughness")
    assert paper.title.endswith("(Ada Example et al., 2024)")
    assert (paper.origin, words.title) == ("api.crossref.org", "")
    assert (words.bytes, words.origin, words.problem) == (6, "brought by the operator", "")


def test_a_draft_leads_back_to_packets_and_hosts(ws: Workspace) -> None:
    (source,) = fetched_in(ws, packet())
    (made,) = fetched_in(
        ws, analysis(selection=(), claims=(), claim_texts=(), quotes=(), derived_from=(source,))
    )
    sheet = held(ws, drafted(program(), derived_from=(made,)))
    assert sheet.sources.hosts == ("api.crossref.org",)
    assert [one.kind for one in sheet.sources.found] == ["research-packet", "analysis"]
    assert sheet.sources.found[0].title.startswith("On the toughness")
    assert sheet.state == "draft"
    assert sheet.labels.integrity == "external"


def test_a_heavy_request_says_why_and_what_policy_says(ws: Workspace) -> None:
    request = escalated("files", inputs=(), profile="python")
    sheet = held(ws, request)
    assert sheet.tool is not None
    assert sheet.tool.escalation is not None
    assert sheet.tool.escalation.reason == "files"
    assert sheet.tool.outputs == (("table.csv", 4096),)
    execute, enforce = sheet.verdicts
    assert execute.verdict == "deny"
    assert execute.rule.startswith("policy/tool-exec.policy.md:")
    assert (enforce.verdict, enforce.question) == ("allow", "enforce by heavy-python")
    rings = {rule.field: rule for rule in sheet.tool.ring}
    assert rings["denied_imports"].items[0] == "ctypes"
    assert rings["executor_network"].items == ("off",)
    assert rings["allowed_binaries"].items == ()
    assert rings["allowed_imports"].place.startswith("policy/tool-exec.policy.md:")


def test_a_request_for_a_gateway_shows_hosts_and_bytes_and_counts_as_external(
    ws: Workspace,
) -> None:
    request = escalated("files", inputs=(), profile="python", network=GATEWAY)
    sheet = held(ws, request)
    assert sheet.tool is not None
    way = sheet.tool.gateway
    assert way is not None
    assert (way.hosts, way.up, way.down) == (("api.example.org",), "4KiB", "64KiB")
    text = "\n".join(visible(line.head.text + plain(line.spans)) for line in lines(sheet))
    assert "network: this run may speak to other machines" in text
    assert "! api.example.org" in text
    assert "! 4KiB may leave and 64KiB may come, by GET, HEAD" in text
    two = sheet.rule_of_two
    assert (two.external, two.network, two.joined) == (True, True, False)
    assert sheet.verdicts[0].verdict == "deny", "the default policy grants it to nobody"
    told = statement(sheet, uses=1, begin=0, end=1)
    assert "through the gateway, to api.example.org and no other host" in told
    assert "At most 4KiB leave and 64KiB come." in told
    quiet = held(ws, escalated("files", inputs=(), profile="python"))
    assert quiet.tool is not None
    assert quiet.tool.gateway is None, "control"
    assert "Network: none." in statement(quiet, uses=1, begin=0, end=1)


@pytest.mark.parametrize(
    ("changes", "held_ones"),
    [
        ({}, (False, False, False)),
        ({"integrity": "external", "origin": "core"}, (True, False, False)),
        (
            {"integrity": "external", "origin": "core", "confidentiality": "confidential"},
            (True, True, False),
        ),
    ],
)
def test_rule_of_two_of_a_run(
    ws: Workspace, changes: dict[str, str], held_ones: tuple[bool, bool, bool]
) -> None:
    two = held(ws, program(**changes)).rule_of_two
    assert (two.external, two.confidential, two.network) == held_ones
    assert not two.joined


def test_rule_of_two_of_a_fetch_counts_its_network(ws: Workspace) -> None:
    two = held(ws, drafted(fetch_request(), confidentiality="confidential")).rule_of_two
    assert two.joined
    assert not two.allowed


def test_state_approval_and_denial_are_told(ws: Workspace) -> None:
    sheet = held(ws)
    given = approved(ws, sheet)
    (one,) = read_sheet(ws, sheet.id).standing
    assert (one.id, one.approver, one.max_uses) == (given.id, "operator", 1)
    other = held(ws, program(nonce="e" * 32))
    deny(ws, other.id, "not now")
    denial = read_sheet(ws, other.id).denial
    assert denial is not None
    assert denial.reason == "not now"


def test_what_is_no_request_has_no_sheet(ws: Workspace) -> None:
    (source,) = fetched_in(ws, packet())
    with pytest.raises(UsageError, match="is not a request"):
        read_sheet(ws, source)
    with pytest.raises(UsageError, match="no request"):
        read_sheet(ws, "tr-" + "0" * 64)


# claim TG-C-102
def test_a_request_edited_or_moved_by_hand_is_not_shown(ws: Workspace) -> None:
    first, second = held(ws), held(ws, program(nonce="e" * 32))
    assert read_sheet(ws, first.id).data == first.data, "control"
    path = ws.root / "handoff/requests/held" / f"{first.id}.md"
    path.chmod(0o644)
    path.write_bytes(first.data.replace(b"1.1", b"9.9"))
    path.chmod(0o444)
    with pytest.raises(HandoffTampered) as edited:
        read_sheet(ws, first.id)
    assert edited.value.code == "TG-HND-008"
    moved = ws.root / "handoff/requests/approved" / f"{second.id}.md"
    (ws.root / "handoff/requests/held" / f"{second.id}.md").rename(moved)
    with pytest.raises(HandoffTampered) as misplaced:
        read_sheet(ws, second.id)
    assert misplaced.value.code == "TG-HND-015"


def test_the_document_for_scripts_has_the_exact_text(ws: Workspace) -> None:
    code = "c\u043fde = 1\n"
    sheet = held(ws, program(code, purpose=box("a\u200db")))
    found = json.loads(as_json(document(sheet)))
    assert found["tool"]["code"]["text"] == code
    assert found["purpose"] == "a\u200db"
    assert found["characters"][0]["kind"] == "invisible"
    assert {flag["name"] for flag in found["flags"]} >= {"look-alike", "invisible"}
    fetched = json.loads(as_json(document(held(ws, fetch_request()))))
    assert (fetched["tool"], fetched["lane"]) == (None, "fetch")
    assert fetched["fetch"]["references"][0]["text"] == "doi:10.5555/12345678"


def test_every_kind_of_request_has_a_sheet(ws: Workspace) -> None:
    for request in (tool_request(inputs=(), profile="pure", nonce="a" * 32), fetch_request()):
        sheet = held(ws, request)
        assert (sheet.tool is None) != (sheet.fetch is None)
