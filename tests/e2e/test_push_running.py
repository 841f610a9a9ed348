"""A policy applied by one process while another runs: stopped at once, or left to finish."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.test_heavy_run import CODE, ENGINE, FOREVER, _command, approved, lane
from tests.e2e.test_policy_push import edit, yes
from tests.support.boxes import living
from tests.support.cli import PYTHON, Cli, made
from tests.support.console import Console, console, fresh, held, opened, state
from tests.support.lite import tree
from tests.support.pushing import FINISH
from threegate.artifacts.tool_request import ToolRequest
from threegate.artifacts.tool_result import ToolResult
from threegate.handoff.records import INTENT

NARROWER = ("allowed_imports: [base64, ", "allowed_imports: [")
SECONDS = 60.0
# How long a run may go on: far longer than an apply takes, and not too long to wait for.
LONG_MS, SHORT_MS = 30_000, 8_000


def endless(cli: Cli, wall_ms: int) -> str:
    """Approve a program that ends at its limit; return the request's id."""
    usual = fresh()
    assert isinstance(usual, ToolRequest)
    limits = replace(usual.limits, wall_ms=wall_ms)
    (request_id,) = held(cli, fresh("while True:\n    pass\n", limits=limits))
    yes(cli, request_id)
    return request_id


class Ran:
    """A `threegate run` in a process of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def wait(self) -> str:
        out, err = self.process.communicate(timeout=SECONDS * 5)
        assert self.process.returncode == 0, err
        (one,) = json.loads(out)["runs"]
        found: str = one["exit"]
        return found


class Served:
    """A `threegate serve` in a process of its own."""

    def __init__(self, served: Console) -> None:
        self.process, self._served = served.process, served

    def wait(self) -> str:
        found: str = self._served.wait_for("ran")["outcome"]
        return found


@contextmanager
def started(cli: Cli, how: tuple[str, ...], request_id: str) -> "Iterator[Ran | Served]":
    """Start what runs an approved request."""
    if how[0] == "serve":
        with console(cli, *how[1:]) as served:
            yield Served(served)
        return
    words = [*PYTHON, *(request_id if word == "ID" else word for word in how), "--json"]
    with subprocess.Popen(
        words, env=cli.env(), cwd=cli.base, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield Ran(process)
        finally:
            process.kill()


def wait_until_it_runs(cli: Cli, request_id: str) -> None:
    end = time.monotonic() + SECONDS
    while state(cli, request_id) != "claimed":
        assert time.monotonic() < end, "it was never claimed"
        time.sleep(0.1)
    time.sleep(0.5)


def result_of(cli: Cli, request_id: str) -> ToolResult:
    with opened(cli) as ws:
        found = [ws.store.read(one) for one in ws.store.ids("res")]
    (result,) = (one for one in found if isinstance(one, ToolResult) and one.request == request_id)
    return result


def order(cli: Cli) -> list[str]:
    """Return what was done to the workspace, first to last."""
    with opened(cli) as ws, ws.store.locked() as journal:
        found = [str(one.data["op"]) for one in journal.log.entries() if one.kind == INTENT]
    return [op for op, before in zip(found, ["", *found], strict=False) if op != before]


def change(cli: Cli, *changes: tuple[str, str]) -> None:
    """Put other rules in force, as another process."""
    for old, new in changes:
        edit(cli, old, new)
    cli("policy", "apply", "--yes", "--wait", "0")


def check_end(cli: Cli, request_id: str, wanted: str) -> ToolResult:
    """Check what a run left whose rules were replaced while it ran."""
    result = result_of(cli, request_id)
    assert result.exit == wanted
    assert state(cli, request_id) == "done"
    done = order(cli)
    last = len(done) - done[::-1].index("policy.apply")
    assert "finish" in done[last:], "control: the policy came while it ran"
    assert "has run" in cli("run", request_id, code=2).out, "its use stays spent"
    assert cli("audit", "verify", "--json").json["ok"]
    return result


WAYS = [("run", "--all"), ("serve", "--warm", "1"), ("serve", "--warm", "0")]


@pytest.mark.parametrize(
    ("changes", "wall_ms", "wanted"),
    [((NARROWER,), LONG_MS, "limit:policy"), ((NARROWER, FINISH), SHORT_MS, "limit:time")],
    ids=["stop", "finish"],
)
@pytest.mark.parametrize("how", WAYS, ids=" ".join)
# claim TG-C-315
def test_a_run_in_progress_is_stopped_or_finishes_as_the_new_policy_says(
    tmp_path: Path,
    how: tuple[str, ...],
    changes: tuple[tuple[str, str], ...],
    wall_ms: int,
    wanted: str,
) -> None:
    cli = made(tmp_path)
    request_id = endless(cli, wall_ms)
    with started(cli, how, request_id) as runs:
        wait_until_it_runs(cli, request_id)
        below = [pid for pid in tree(runs.process.pid) if pid != runs.process.pid]
        assert len(below) >= 2, "control: there is a box"
        change(cli, *changes)
        assert runs.wait() == wanted
        assert not living(below), "its box is gone"
    wall = check_end(cli, request_id, wanted).resources.wall_ms
    assert wall >= SHORT_MS if wanted == "limit:time" else wall < LONG_MS - 5_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "wall", "wanted"),
    [((NARROWER,), "3000s", "limit:policy"), ((NARROWER, FINISH), "30s", "limit:time")],
    ids=["stop", "finish"],
)
# claim TG-C-315
def test_a_guest_is_stopped_or_finishes_as_the_new_policy_says(
    tmp_path: Path, changes: tuple[tuple[str, str], ...], wall: str, wanted: str
) -> None:
    cli = lane(tmp_path)
    (once,) = cli("run", approved(cli, CODE), "--json").json["runs"]  # the snapshot is there now
    request_id = approved(cli, FOREVER, wall_ms=wall)
    with started(cli, ("run", "ID"), request_id) as runs:
        wait_until_it_runs(cli, request_id)
        end = time.monotonic() + SECONDS
        while not (below := guests(runs.process.pid)):
            assert time.monotonic() < end, "no guest was started"
            time.sleep(0.05)
        time.sleep(2 * once["wall_ms"] / 1000)  # until it woke and was handed its program
        change(cli, *changes)
        assert runs.wait() == wanted
        assert not living(below), "its guest is gone"
    check_end(cli, request_id, wanted)


def guests(pid: int) -> list[int]:
    """Return the engines below a process."""
    return [one for one in tree(pid) if _command(one).startswith(ENGINE)]
