"""`threegate run`, `result show` and `replay` as a user types them."""

import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli import PYTHON, Cli
from tests.support.requests import approve_for, approved_request, live_workspace, request_for
from tests.support.workspaces import take_in
from threegate.artifacts import registry
from threegate.artifacts.tool_result import ToolResult
from threegate.handoff import states
from threegate.handoff.journal import Put
from threegate.host.run.replay import replay
from threegate.host.workspace.workspace import Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return live_workspace(tmp_path)


@pytest.fixture
def cli(tmp_path: Path, ws: Workspace) -> Cli:
    return Cli(tmp_path, ws.root)


def test_one_request_shows_what_came_out(ws: Workspace, cli: Cli) -> None:
    request_id = approved_request(ws, "print('one')\n[1, 2]")
    done = cli("run", request_id[:15])
    first, *rest = done.out.splitlines()
    assert first.startswith(f"ok {request_id[:15]} res-")
    assert rest == ["value", "    | [1, 2]", "stdout", "    | one", "    |"]
    shown = cli("result", "show", first.split()[2])
    assert request_id in shown.out
    assert "    | [1, 2]" in shown.out


def test_all_as_json(ws: Workspace, cli: Cli) -> None:
    ids = {approved_request(ws, str(n)) for n in range(3)}
    runs = cli("run", "--all", "--json").json["runs"]
    assert {item["request"] for item in runs} == ids
    assert {item["exit"] for item in runs} == {"ok"}
    assert cli("run", "--all").out == "nothing is approved\n"


def test_what_cannot_run_is_said_and_the_rest_runs(ws: Workspace, cli: Cli) -> None:
    (waiting,) = take_in(ws, request_for(ws, "1"))
    ready = approved_request(ws, "2")
    done = cli("run", waiting, ready, code=75)
    assert f"refused {waiting[:15]} TG-ASK-002" in done.out
    assert f"ok {ready[:15]} res-" in done.out
    for words in ((), (ready, "--all")):
        done = cli("run", *words, code=2)
        assert done.err.startswith("threegate: error: name requests, or say --all, not both")
        assert "`threegate review list --state approved`" in done.err


def run_one(ws: Workspace, cli: Cli, code: str, **limits: int) -> str:
    request = request_for(ws, code)
    request = replace(request, limits=replace(request.limits, **limits))
    take_in(ws, request)
    approve_for(ws, request)
    (ran,) = cli("run", registry.id_of(request), "--json").json["runs"]
    return str(ran["result"])


def test_replay_says_same_and_records_it(ws: Workspace, cli: Cli) -> None:
    code = "import datetime\nprint(datetime.datetime.now())\nsum(hash(str(n)) for n in range(9))"
    result_id = run_one(ws, cli, code)
    before = len(list(ws.store.ids("res")))
    assert cli("replay", result_id).out == f"same {result_id[:16]}\n"
    assert len(list(ws.store.ids("res"))) == before, "a replay leaves no result"
    assert "replay" in cli("audit", "show", result_id).out


def test_a_run_that_ended_at_a_time_limit_is_not_reproducible(ws: Workspace, cli: Cli) -> None:
    result_id = run_one(ws, cli, "while True:\n    pass", wall_ms=300)
    done = cli("replay", result_id, "--json").json["replays"][0]
    assert (done["verdict"], done["again"]) == ("not-reproducible", None)
    assert "limit:time" in done["why"]


# claim TG-C-71
def test_a_result_that_was_not_computed_is_told_by_a_replay(ws: Workspace, cli: Cli) -> None:
    result_id = run_one(ws, cli, "6 * 7")
    assert replay(ws, result_id).verdict == "same", "control: the true one"
    true = ws.store.read(result_id)
    assert isinstance(true, ToolResult)
    forged = _with_value(true, "43")
    data = registry.emit(forged)
    forged_id = registry.id_of(forged)
    with ws.store.locked() as journal:
        accepted = states.directory_of("res", "accepted")
        journal.run("forge", [Put(accepted, f"{forged_id}.md", data)])
    done = cli("replay", forged_id, code=65)
    assert done.out.startswith(f"different {forged_id[:16]}\n")


def _with_value(result: ToolResult, text: str) -> ToolResult:
    from tests.support.samples import box, capture, with_outcome

    return with_outcome(replace(result, value=capture(text), value_text=box(text)))


def _interrupted(ws: Workspace, cli: Cli, request_ids: list[str], times: int) -> tuple[int, bytes]:
    """Run, interrupt once something is claimed, and again until it was told `times` times."""
    with subprocess.Popen(
        [*PYTHON, "run", *request_ids],
        env=cli.env(),
        cwd=cli.base,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        claimed = states.directory_of("tr", "claimed")
        while not list(ws.store.names(claimed)):
            assert process.poll() is None
            time.sleep(0.005)
        assert process.stderr is not None
        said = b""
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            said += process.stderr.readline()
        said += process.stderr.read()
        return process.wait(), said


def _approved_for_long(ws: Workspace, code: str) -> str:
    request = request_for(ws, code)
    request = replace(request, limits=replace(request.limits, wall_ms=30_000))
    (request_id,) = take_in(ws, request)
    approve_for(ws, request)
    return request_id


def test_an_interrupt_keeps_what_was_begun(ws: Workspace, cli: Cli) -> None:
    # Long enough to be interrupted, and far from its limit, on any machine.
    slow = _approved_for_long(ws, "for i in range(20_000_000):\n    pass\n'done'")
    code, said = _interrupted(ws, cli, [slow], 1)
    assert (code, b"ending what was begun" in said) == (130, True)
    (result,) = map(ws.store.read, ws.store.ids("res"))
    assert isinstance(result, ToolResult)
    assert (result.request, result.exit) == (slow, "ok")


def test_a_second_interrupt_stops_at_once_and_the_human_is_asked_again(
    ws: Workspace, cli: Cli
) -> None:
    endless = _approved_for_long(ws, "while True:\n    pass")
    code, said = _interrupted(ws, cli, [endless], 2)
    assert (code, b"stopped" in said) == (130, True)
    listed = cli("review", "list", "--json").json["items"]
    assert [(item["id"], item["state"]) for item in listed] == [(endless, "held")]
    assert not list(ws.store.ids("res")), "control: it had not come to an end"


def test_a_result_is_not_brought_in_by_hand(ws: Workspace, cli: Cli, tmp_path: Path) -> None:
    result_id = run_one(ws, cli, "6 * 7")
    true = ws.store.read(result_id)
    assert isinstance(true, ToolResult)
    other = tmp_path / "other.md"
    other.write_bytes(registry.emit(_with_value(true, "43")))
    assert cli("validate", other).code == 0, "control: by its format it is a result"
    done = cli("admit", other, code=65)
    assert "TG-HND-016" in done.out
