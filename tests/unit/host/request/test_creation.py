"""Requests of the operator: judged as a whole, stored as a whole, in the lane they name."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.policies import altered, policy
from tests.support.requests import UnboxedLane
from tests.support.samples import packet, tool_result
from tests.support.workspaces import files_below, keep_blob, make_workspace, take_in
from threegate.artifacts import registry
from threegate.artifacts.ids import digest_of, sha256_hex
from threegate.artifacts.tool_request import ToolRequest
from threegate.base.errors import PolicyDenied, QuotaExceeded, ThreeGateError
from threegate.handoff import states
from threegate.handoff.journal import Put
from threegate.handoff.records import Quota
from threegate.handoff.refusals import was_refused
from threegate.host.request.code import LaneUse, NotExpressible, judge
from threegate.host.request.creation import Made, Wanted, make_request
from threegate.host.workspace.workspace import Workspace

WANTED = Wanted(purpose="The sum of the rows.", code="sum(rows)\n")
BEYOND = "import csv\nimport socket\n"


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    opened = make_workspace(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "rows.json"
    path.write_bytes(b"[1, 2,\n 3]")
    return f"rows={path}"


def enable_era(sections: dict[str, Any]) -> None:
    sections["tool-exec"]["lanes"]["era"]["enabled"] = "yes"


def under(ws: Workspace, change: Callable[[dict[str, Any]], None]) -> Workspace:
    """Return the workspace as it would be under another policy."""
    return replace(ws, bundle=altered(policy(), change).bundle())


@pytest.fixture
def heavy(ws: Workspace) -> Workspace:
    return under(ws, enable_era)


def make(ws: Workspace, wanted: Wanted = WANTED, **changes: Any) -> Made:
    return make_request(ws, replace(wanted, **changes), UnboxedLane())


def refused(ws: Workspace, wanted: Wanted = WANTED, **changes: Any) -> ThreeGateError:
    """Return the error of a request that must not be made; nothing may be left of it."""
    before = files_below(ws.root)
    with pytest.raises(ThreeGateError) as caught:
        make(ws, wanted, **changes)
    assert files_below(ws.root) == before, "something was stored"
    return caught.value


def stored(ws: Workspace, made: Made) -> ToolRequest:
    found = ws.store.read(made.id)
    assert isinstance(found, ToolRequest)
    return found


def test_request_is_held_with_the_defaults_of_the_policy(ws: Workspace, rows: str) -> None:
    made = make(ws, inputs=[rows])
    request = stored(ws, made)
    assert ws.store.locate(made.id) == "handoff/requests/held"
    assert (request.origin, request.backend, request.why_not_monty) == ("operator", "monty", None)
    assert (request.profile, request.limits.wall_ms, request.network) == ("pure", 2000, "none")
    assert (request.integrity, request.confidentiality) == ("operator", "internal")
    assert (request.functions, request.derived_from, request.argv) == ((), (), ())
    assert request.created == ws.now()


def test_code_is_kept_character_for_character(ws: Workspace) -> None:
    code = "\n\n# \u00fc\n  \n1\n\n\n"
    request = stored(ws, make(ws, code=code))
    assert request.code.open_for_validation() == code
    assert request.code_sha256 == sha256_hex(code.encode("utf-8"))


def test_input_file_is_stored_by_digest_with_the_request(ws: Workspace, rows: str) -> None:
    size = ws.store.journal.log.size
    request = stored(ws, make(ws, inputs=[rows]))
    (one,) = request.inputs
    assert (one.name, one.bytes) == ("rows", 10)
    assert ws.store.read_file(states.BLOBS, digest_of(one.artifact)) == b"[1, 2,\n 3]"
    entries = list(ws.store.journal.log.entries(size))
    assert [entry.kind for entry in entries] == ["intent", "intent", "outcome"]
    assert {entry.data["op"] for entry in entries[:2]} == {"request"}


def test_asking_again_is_another_request_and_the_same_blob(ws: Workspace, rows: str) -> None:
    first, second = make(ws, inputs=[rows]), make(ws, inputs=[rows])
    assert first.id != second.id
    assert registry.content_digest(first.request) == registry.content_digest(second.request)
    assert len(list(ws.store.names(states.BLOBS))) == 1


def test_blob_that_is_here_already_is_not_written_again(ws: Workspace, rows: str) -> None:
    keep_blob(ws, b"[1, 2,\n 3]")
    size = ws.store.journal.log.size
    make(ws, inputs=[rows])
    assert [entry.kind for entry in ws.store.journal.log.entries(size)] == ["intent", "outcome"]


def test_quota_stops_request_and_inputs_together(ws: Workspace, rows: str) -> None:
    make(ws)  # control
    quotas = ws.store.journal.quotas
    for directory in (states.BLOBS, "handoff/requests/held"):
        ws.store.journal.quotas = {**quotas, directory: Quota(files=0, bytes=0)}
        assert isinstance(refused(ws, inputs=[rows]), QuotaExceeded)
    ws.store.journal.quotas = quotas
    make(ws, inputs=[rows])


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"code": ""}, "TG-USE-001", "either code or a command"),
        ({"argv": ["/usr/bin/sort"]}, "TG-USE-001", "either code or a command"),
        ({"why": "files"}, "TG-USE-001", "--why goes with --backend era"),
        ({"outputs": ["a=1"]}, "TG-USE-001", "--output goes with --backend era"),
        ({"backend": "era"}, "TG-USE-001", "needs the reason why Monty will not do"),
        ({"purpose": ""}, "TG-USE-001", "--purpose: it is empty"),
        ({"risks": " \n"}, "TG-USE-001", "--risks: it is empty"),
        ({"purpose": "a\x1b[2J"}, "TG-ART-003", "--purpose: control character U+001B in line 1"),
        ({"purpose": "a\udcff"}, "TG-ART-002", "--purpose: not UTF-8 at byte 1"),
        ({"purpose": "x" * 4001}, "TG-ART-011", "Purpose: 4001 characters"),
        ({"limits": ["wall_ms=31s"]}, "TG-POL-001", "wall_ms of 31s is above the 30s of policy/"),
        ({"functions": ["os_system"]}, "TG-USE-001", "no external function is called"),
        ({"profile": "python"}, "TG-POL-001", "nobody could approve this: denied by policy/"),
        ({"profile": "No"}, "TG-ART-013", "profile is"),
        ({"code": "#" * 65_537}, "TG-POL-001", "the code has 65537 bytes, above the 64KiB of"),
        ({"inputs": ["rows=/nowhere"]}, "TG-USE-002", "cannot open it: no such file"),
        ({"inputs": ["rows"]}, "TG-USE-001", "is not NAME=VALUE"),
        ({"code": "\ufeff1"}, "TG-ART-003", "invisible character"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_stored(
    ws: Workspace, changes: dict[str, Any], code: str, words: str
) -> None:
    make(ws)  # control
    error = refused(ws, **changes)
    assert error.code == code
    assert words in error.message


def test_era_is_refused_while_policy_does_not_enable_it(ws: Workspace) -> None:
    wanted = replace(WANTED, backend="era", why="files", outputs=("table.csv=1MiB",))
    error = refused(ws, wanted)
    assert error.code == "TG-POL-001"
    assert "lane era is not enabled in policy/tool-exec.policy.md:" in error.message
    made = make(under(ws, enable_era), wanted)
    assert stored(ws, made).outputs[0].max_bytes == 2**20, "control"


def test_result_as_input_must_exist_and_makes_the_request_external(ws: Workspace) -> None:
    result = tool_result(confidentiality="confidential")
    result_id = registry.id_of(result)
    assert refused(ws, inputs=[f"rows={result_id}"]).message.startswith("no artifact res-")
    put_result(ws, result_id, registry.emit(result))
    request = stored(ws, make(ws, inputs=[f"rows={result_id[:16]}"]))
    assert [one.artifact for one in request.inputs] == [result_id], "short forms are resolved"
    assert (request.integrity, request.confidentiality) == ("external", "confidential")


def put_result(ws: Workspace, result_id: str, data: bytes) -> None:
    with ws.store.locked() as journal:
        journal.run("test", [Put("handoff/results/accepted", f"{result_id}.md", data)])


def test_labels_of_the_inputs_are_never_lowered(ws: Workspace) -> None:
    (packet_id,) = take_in(ws, packet(confidentiality="confidential"))
    error = refused(ws, inputs=[f"rows={packet_id}"], confidentiality="internal")
    assert error.code == "TG-ART-024"
    assert error.message == "input rows is confidential, so the request is not internal"
    for level in (None, "confidential"):
        made = make(ws, inputs=[f"rows={packet_id}"], confidentiality=level)
        assert stored(ws, made).confidentiality == "confidential"
    (public_id,) = take_in(ws, packet("Other."))
    made = make(ws, inputs=[f"rows={public_id}"], confidentiality="public")
    assert stored(ws, made).confidentiality == "public"


def test_input_and_function_of_one_name_are_refused(ws: Workspace, rows: str) -> None:
    clash = rows.replace("rows=", "json_loads=", 1)
    make(ws, inputs=[clash])  # control: without the function the name is free
    error = refused(ws, inputs=[clash], functions=["json_loads"])
    assert "both called json_loads" in error.message


def test_monty_is_asked_with_what_the_request_names(ws: Workspace, rows: str) -> None:
    lane = UnboxedLane()
    wanted = replace(WANTED, inputs=(rows,), functions=("sha256_hex", "json_dumps"))
    make_request(ws, wanted, lane)
    (check,) = lane.asked
    assert check.code == WANTED.code
    assert (check.functions, check.inputs) == (("json_dumps", "sha256_hex"), ("rows",))
    assert check.profile == "pure"


def test_what_monty_cannot_express_is_not_stored_but_its_refusal_is(ws: Workspace) -> None:
    with pytest.raises(NotExpressible) as caught:
        make(ws, code=BEYOND)
    found = caught.value.refused
    assert found.kept
    assert (found.construct, found.line, found.source) == ("import", 2, "import socket")
    assert caught.value.code == "TG-REQ-001"
    assert "--backend era --why not-expressible" in caught.value.hint
    with ws.store.locked():
        assert was_refused(ws.store, found.record)
    assert list(ws.store.ids("tr")) == []


def test_lacking_a_function_it_could_ask_for_is_no_refusal_to_escalate_with(
    heavy: Workspace,
) -> None:
    code = "sha256_hex('x')"
    before = files_below(heavy.root)
    with pytest.raises(NotExpressible) as caught:
        make(heavy, code=code)
    assert not caught.value.refused.kept
    assert "policy offers it" in caught.value.hint
    assert files_below(heavy.root) == before, "nothing is written down"
    error = refused(heavy, code=code, backend="era", why="not-expressible")
    assert error.code == "TG-ART-027"
    make(heavy, code=code, functions=["sha256_hex"])  # control


def test_check_is_about_what_policy_offers(ws: Workspace) -> None:
    ask = UnboxedLane()
    assert judge(ws, ask, "1", LaneUse((), (), "pure")).refused is None  # control
    for use, words in (
        (LaneUse((), (), "python"), 'profile "python" is not offered to monty by policy/'),
        (LaneUse(("open",), (), "pure"), "function open is not offered by policy/"),
    ):
        with pytest.raises(PolicyDenied, match=words):
            judge(ws, ask, "1", use)
    assert len(ask.asked) == 1


def test_escalation_attaches_the_refusal_of_the_same_code(heavy: Workspace) -> None:
    wanted = replace(WANTED, backend="era", why="not-expressible", code=BEYOND)
    made = make(heavy, wanted)
    request = stored(heavy, made)
    assert request.backend == "era"
    why = request.why_not_monty
    assert why is not None
    assert why.refusal is not None
    assert made.refused is not None
    assert (why.reason, why.refusal.record) == ("not-expressible", made.refused.record)
    assert (why.refusal.line, request.profile) == (2, "python")
    with heavy.store.locked():
        assert was_refused(heavy.store, why.refusal.record)


def test_escalation_of_what_monty_accepts_is_refused(heavy: Workspace) -> None:
    wanted = replace(WANTED, backend="era", why="not-expressible")
    error = refused(heavy, wanted)
    assert error.code == "TG-ART-027"
    assert "Monty can express this code" in error.message
    make(heavy, wanted, code=BEYOND)  # control


def test_escalation_is_held_against_all_that_policy_offers(heavy: Workspace) -> None:
    lane = UnboxedLane()
    wanted = replace(WANTED, backend="era", why="not-expressible", code=BEYOND)
    make_request(heavy, wanted, lane)
    (check,) = lane.asked
    assert check.functions == ("json_dumps", "json_loads", "regex_findall", "sha256_hex")
    assert check.profile == "pure"


def test_escalation_refused_by_policy_writes_no_refusal(heavy: Workspace) -> None:
    wanted = replace(WANTED, backend="era", why="not-expressible", code=BEYOND)
    error = refused(heavy, wanted, profile="pure")
    assert error.code == "TG-POL-001"
    make(heavy, wanted)  # control


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"why": "files"}, "TG-ART-020"),
        ({"why": "binary"}, "TG-ART-020"),
        ({"why": "not-expressible", "code": "", "argv": ["/usr/bin/sort"]}, "TG-ART-027"),
        ({"why": "files", "outputs": ["../x=1"]}, "TG-ART-013"),
        ({"why": "binary", "code": "", "argv": ["sh", "-c", "ls"]}, "TG-ART-021"),
        ({"why": "binary", "code": "", "argv": ["/usr/bin/git"]}, "TG-POL-001"),
        ({"why": "files", "outputs": ["a=1"], "functions": ["all"]}, "TG-USE-001"),
    ],
)
def test_reason_for_the_heavy_lane_must_hold(
    heavy: Workspace, changes: dict[str, Any], code: str
) -> None:
    assert refused(heavy, backend="era", **changes).code == code
    sort = ["/usr/bin/sort", "-r"]
    make(heavy, backend="era", why="binary", code="", argv=sort, profile="tools")  # control


def test_heavy_lane_gets_files_as_they_are(heavy: Workspace, tmp_path: Path) -> None:
    data = b"\xff\x00 not text"
    (tmp_path / "raw.json").write_bytes(data)
    wanted = replace(WANTED, inputs=(f"raw={tmp_path / 'raw.json'}",))
    assert refused(heavy, wanted).code == "TG-REQ-002"
    made = make(heavy, wanted, backend="era", why="files", outputs=["table.csv=1KiB"])
    (one,) = made.request.inputs
    assert heavy.store.read_file(states.BLOBS, digest_of(one.artifact)) == data
