"""Claim: `run --all`, killed at any moment and started again, runs nothing twice, loses nothing."""

import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from tests.support.cli import PYTHON, Cli
from tests.support.requests import approved_request, live_workspace
from threegate.artifacts.tool_result import ToolResult
from threegate.handoff import states
from threegate.host.workspace.workspace import Workspace

REQUESTS = 240  # each kill gives back two groups of 32 at most, so some are left to run
KILLS = 3


def _killed(cli: Cli, ws: Workspace, seconds: float) -> None:
    """Start `run --all` and kill it a moment after it has claimed something."""
    process = subprocess.Popen(
        [*PYTHON, "run", "--all"],
        env=cli.env(),
        cwd=cli.base,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 30
    while not _in_state(ws, "claimed") and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


def _results(ws: Workspace) -> Counter[str]:
    found: Counter[str] = Counter()
    for result_id in ws.store.ids("res"):
        result = ws.store.read(result_id)
        assert isinstance(result, ToolResult)
        found[result.request] += 1
    return found


def _in_state(ws: Workspace, state: str) -> set[str]:
    names = ws.store.names(states.directory_of("tr", state))
    return {name.removesuffix(".md") for name in names if name.endswith(".md")}


# claim TG-C-106
def test_killed_and_started_again_it_runs_nothing_twice(tmp_path: Path) -> None:
    ws = live_workspace(tmp_path)
    ids = {approved_request(ws, f"{n} * 2") for n in range(REQUESTS)}
    cli = Cli(tmp_path, ws.root)
    rng = random.Random(4)
    for _ in range(KILLS):
        _killed(cli, ws, rng.random() * 0.1)
        cli("run", "tr-" + "0" * 64, code=2)  # whatever was under way is given back
    cli("run", "--all", code=None)
    counts = _results(ws)
    done, held = _in_state(ws, "done"), _in_state(ws, "held")
    assert not [request for request, count in counts.items() if count > 1], "ran twice"
    assert set(counts) == done, "every request that is done has its one result"
    assert done | held == ids, "nothing is lost: what a crash interrupted waits for a human"
    assert not _in_state(ws, "claimed")
    assert done, "control: it ran something"
    assert held, "control: the kills interrupted something"
    spent = list(ws.store.names(states.directory_of("ap", "spent")))
    assert sum(name.endswith(".md") for name in spent) == REQUESTS, "each use is spent once"
    cli("audit", "verify")
