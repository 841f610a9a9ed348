"""A policy applied while `serve` runs: every executor takes it over, and the log says so."""

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.boxes import living
from tests.support.cli import Cli, made, programs_from
from tests.support.console import Console, console, fresh, held, opened
from tests.support.lite import tree
from tests.support.requests import approved
from threegate.host.review.sheet import read_sheet
from threegate.host.run.warm.executors import APPLIED, UNAVAILABLE, Board, Status
from threegate.host.workspace.workspace import followed, open_workspace

USES = "import base64\n7\n"


def yes(cli: Cli, request_id: str) -> None:
    """Approve a request as another command does."""
    assert cli.workspace is not None
    ws = open_workspace(cli.workspace)
    try:
        approved(ws, read_sheet(ws, request_id))
    finally:
        ws.close()


def edit(cli: Cli, old: str, new: str) -> None:
    """Change a rule of TOOL-EXEC; nothing is in force yet."""
    assert cli.workspace is not None
    path = cli.workspace / "policy/tool-exec.policy.md"
    text = path.read_text(encoding="utf-8")
    assert old in text, old
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def rows(found: Any) -> list[tuple[str, str, int]]:
    return [(one["executor"], one["state"], one["generation"]) for one in found["executors"]]


# claim TG-C-80
def test_a_policy_that_is_applied_reaches_every_executor_and_is_acknowledged(
    tmp_path: Path,
) -> None:
    cli = made(tmp_path)
    assert "no executor is running" in cli("policy", "status").out
    assert rows(cli("policy", "push", "--json").json) == [], "nobody to push to"
    with console(cli, "--warm", "2") as served:
        pushed = cli("policy", "push", "--json").json
        assert rows(pushed) == [("monty-1", "applied", 1), ("monty-2", "applied", 1)]
        first, second = held(cli, fresh(USES), fresh(USES))
        yes(cli, first)
        assert served.wait_for("ran")["outcome"] == "ok", "control"
        edit(cli, "allowed_imports: [base64, ", "allowed_imports: [")
        applied = cli("policy", "apply", "--yes", "--json").json
        assert rows(applied) == [("monty-1", "applied", 2), ("monty-2", "applied", 2)]
        assert rows(cli("policy", "status", "--json").json) == rows(applied)
        told = cli("policy", "status").out
        assert "monty-1   applied  2" in told
        yes(cli, second)
        assert served.wait_for("ran", 2)["outcome"] == "refused:import"
        page = served.ask("GET", "/policy", **served.login())[2].decode()
        assert "monty-2" in page
        assert "applied" in page
    assert rows(cli("policy", "status", "--json").json) == [], "none is left"
    assert cli("audit", "verify", "--json").json["ok"]


def test_apply_and_push_say_by_the_same_exit_code_that_an_executor_did_not_follow(
    tmp_path: Path,
) -> None:
    cli = made(tmp_path)
    with console(cli, "--warm", "1"):
        assert rows(cli("policy", "push", "--json").json) == [("monty-1", "applied", 1)]
        edit(cli, "allowed_imports: [base64, ", "allowed_imports: [")
        cli("policy", "apply", "--yes", code=0)  # control: it follows
        # The heavy lane has no image here, so its executor cannot be had.
        edit(cli, "enabled: no", "enabled: yes")
        edit(cli, "disk_bytes: 64MiB", "disk_bytes: 1MiB")
        edit(cli, "disk_bytes: 256MiB", "disk_bytes: 1MiB")
        applied = cli("policy", "apply", "--yes", "--json", code=69).json
        assert applied["generation"] == 3, "it is in force all the same"
        states = {one["executor"]: one["state"] for one in applied["executors"]}
        assert states == {"monty-1": "applied", "era-1": "unavailable"}
        cli("policy", "push", code=69)
        cli("policy", "push", "--wait", "0", code=0)
        edit(
            cli,
            "enabled: yes\n    default_profile: python",
            "enabled: no\n    default_profile: python",
        )
        cli("policy", "apply", "--yes", code=0)  # control: with the lane gone nobody is missing


# claim TG-C-316
def test_a_killed_serve_leaves_no_executor_behind(tmp_path: Path) -> None:
    cli = made(tmp_path)
    with console(cli, "--warm", "2", end=-signal.SIGKILL) as served:
        assert len(rows(cli("policy", "push", "--json").json)) == 2
        below = [pid for pid in tree(served.process.pid) if pid != served.process.pid]
        assert len(below) >= 4, "control: boxes and what is in them"
        os.kill(served.process.pid, signal.SIGKILL)
        served.process.wait()
        # Reaped or not: another test of this process may have made it adopt orphans.
        assert not living(below)
    assert rows(cli("policy", "status", "--json").json) == [], "whatever its last entry says"


# claim TG-C-314
def test_a_policy_nobody_signed_puts_executors_into_quarantine(tmp_path: Path) -> None:
    cli = made(tmp_path)
    assert cli.workspace is not None
    with console(cli, "--warm", "1") as served:
        assert rows(cli("policy", "push", "--json").json) == [("monty-1", "applied", 1)]
        pointer = cli.workspace / "bundles/current.json"
        right = pointer.read_bytes()
        pointer.unlink()
        pointer.write_bytes(right.replace(b'"applied":', b'"applied":1'))
        pointer.chmod(0o444)
        cli("policy", "push", code=76)
        grow(cli.workspace)  # nobody looks before
        assert served.wait_for("bad-policy")["code"] == "TG-HND-009"
        served.wait_for("executor", count_of(served, "applied") + 1)
        pointer.unlink()
        pointer.write_bytes(right)
        pointer.chmod(0o444)
        found = cli("policy", "status", "--json").json["executors"]
        assert [(one["state"], one["code"]) for one in found] == [("unavailable", "TG-PSH-005")]
        assert rows(cli("policy", "push", "--json").json) == [("monty-1", "applied", 1)]


# claim TG-C-80
def test_a_serve_that_stands_still_is_not_taken_for_one_that_follows(tmp_path: Path) -> None:
    cli = made(tmp_path)
    with console(cli, "--warm", "1") as served:
        assert rows(cli("policy", "push", "--json").json) == [("monty-1", "applied", 1)]
        before, after = held(cli, fresh(USES), fresh(USES))
        yes(cli, before)
        assert served.wait_for("ran")["outcome"] == "ok", "control: under the rules before"
        with standing_still(cli, served.process.pid):
            edit(cli, "allowed_imports: [base64, ", "allowed_imports: [")
            behind = [("monty-1", "applied", 1)]
            assert (
                rows(cli("policy", "apply", "--yes", "--wait", "1", "--json", code=69).json)
                == behind
            )
            assert "in force: generation 2" in cli("policy", "status").out
            assert rows(cli("policy", "push", "--wait", "1", "--json", code=69).json) == behind
            yes(cli, after)
        assert served.wait_for("ran", 2)["outcome"] == "refused:import"
        assert rows(cli("policy", "push", "--json").json) == [("monty-1", "applied", 2)]


@contextmanager
def standing_still(cli: Cli, pid: int) -> Iterator[None]:
    """Stop a process at a moment at which it does not hold the workspace."""
    assert cli.workspace is not None
    with (cli.workspace / "handoff/lock").open() as lock:
        while True:
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: all(_stands(task) for task in Path(f"/proc/{pid}/task").iterdir()))
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.01)
        fcntl.flock(lock, fcntl.LOCK_UN)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _stands(task: Path) -> bool:
    return (task / "stat").read_text("utf-8").rpartition(")")[2].split()[0] == "T"


SLOWLY = """#!/bin/sh
touch PLACE/signing
while [ ! -e PLACE/go ]; do sleep 0.05; done
exec /usr/bin/ssh-keygen "$@"
"""


# claim TG-C-80
def test_what_an_executor_says_while_a_policy_is_signed_is_no_answer_to_it(tmp_path: Path) -> None:
    cli = made(tmp_path)
    edit(cli, "allowed_imports: [base64, ", "allowed_imports: [")
    slow = tmp_path / "slow" / "ssh-keygen"
    slow.parent.mkdir()
    slow.write_text(SLOWLY.replace("PLACE", str(tmp_path)))
    slow.chmod(0o755)
    words = [
        *cli.patched(programs_from(slow.parent)).program,
        "policy",
        "apply",
        "--yes",
        "--json",
        "--wait",
        "30",
    ]
    with (
        opened(cli) as ws,
        subprocess.Popen(words, env=cli.env(), cwd=tmp_path, stdout=subprocess.PIPE) as applying,
    ):
        wait_for((tmp_path / "signing").exists)
        board = Board(ws.store, [])
        board.tell(Status("monty-1", "monty", UNAVAILABLE, reason="starting"))
        (tmp_path / "go").touch()
        wait_for(lambda: followed(ws).bundle.generation == 2)
        time.sleep(0.5)
        assert applying.poll() is None, "it waits for an answer to this policy"
        board.tell(Status("monty-1", "monty", APPLIED, 2, followed(ws).bundle.digest))
        out, _ = applying.communicate(timeout=60)
    assert rows(json.loads(out)) == [("monty-1", "applied", 2)]


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def count_of(served: Console, state: str) -> int:
    """Return how often an executor was said to be so."""
    return sum(one["event"] == "executor" and one["state"] == state for one in served.events)


def grow(root: Path) -> None:
    """Write an entry to the log, as a command does that does not read the policy."""
    from threegate.handoff.store import Store

    store = Store.open(root, clock=lambda: int(time.time()))
    try:
        with store.locked() as journal:
            journal.log.append([("note", {})])
    finally:
        store.close()
