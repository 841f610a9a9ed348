"""`kill -9` of the console itself, at every kind of moment: nothing is lost, nothing runs twice."""

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.e2e.test_policy_push import count_of
from tests.support.cli import Cli, made, programs_from
from tests.support.console import Console, console, fresh, held, state
from tests.support.console_killed import approvals, killed, results, shown, standing
from tests.support.core_doubles import asker, replies, use_server
from tests.support.holdings import shelf
from tests.support.models import OwnServer, own_server
from tests.support.requests import approved
from threegate.artifacts.tool_request import ToolRequest
from threegate.host.review.approval import Terms
from threegate.host.review.sheet import read_sheet
from threegate.host.workspace.workspace import open_workspace

SECONDS = 60.0
KILLS = int(os.environ.get("THREEGATE_KILLS", "40"))
CLAIM = {"claims": [{"text": "Sea ice broke at 1.2 MPa.", "from": [1]}]}
NOTHING = {"compute": "", "fetch": []}
# A tool that says when it was asked to sign, and then waits as for a passphrase.
SLOW_KEY = """#!/bin/sh
case "$*" in
*"-Y sign"*) echo $$ > "{mark}"; exec sleep 600;;
esac
exec /usr/bin/ssh-keygen "$@"
"""


def lasting(number: int, seconds: int = 2) -> ToolRequest:
    """Return a program that runs until its time is over."""
    request = fresh(f"x = {number}\nwhile True:\n    pass\n")
    assert isinstance(request, ToolRequest)
    return replace(request, limits=replace(request.limits, wall_ms=seconds * 1000))


def until(found: Callable[[], object]) -> None:
    """Wait for something that must come."""
    end = time.monotonic() + SECONDS
    while not found():
        assert time.monotonic() < end
        time.sleep(0.005)


def sent(act: Callable[[], object]) -> threading.Thread:
    """Do what a browser does whose server is killed before it answers."""

    def work() -> None:
        with suppress(OSError, HTTPException):
            act()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


# claim TG-C-390
def test_killed_while_executors_wait_it_shows_the_same_again(tmp_path: Path) -> None:
    cli = made(tmp_path)
    (waiting,) = held(cli, fresh())
    with killed(cli, "--warm", "2") as served:
        until(lambda: count_of(served, "applied") == 2)  # control: both wait
    with console(cli, "--warm", "1") as served:
        known = served.login()
        assert shown(served, known) == {"held": 1}
        assert served.approve(known, waiting)[0] == 303
        assert served.wait_for("ran")["request"] == waiting
    assert (standing(cli), results(cli)) == ({waiting: "done"}, {waiting: 1})


@pytest.mark.parametrize("uses", [1, 2])
# claim TG-C-390
def test_killed_while_a_run_goes_on_its_use_is_spent(tmp_path: Path, uses: int) -> None:
    cli = made(tmp_path)
    (running,) = held(cli, lasting(1))
    with killed(cli, "--warm", "1") as served:
        assert served.approve(served.login(), running, uses=str(uses))[0] == 303
        until(lambda: state(cli, running) == "claimed")
        assert not results(cli), "control: claimed, and not at its end"
    assert standing(cli) == {running: "claimed"}, "a use is spent by the claim"
    with console(cli, "--warm", "1") as served:
        known = served.login()
        waits = "it waits again" if uses == 1 else "it can run again"
        assert waits in served.wait_for("settled")["words"]
        if uses == 1:
            assert (shown(served, known), approvals(cli, "spent")) == ({"held": 1}, 1)
            page = served.ask("GET", f"/request/{running}", **known)[2].decode()
            assert "held" in page
            assert served.approve(known, running)[0] == 303, "who wants it to run says so again"
        assert served.wait_for("ran")["outcome"] == "limit:time"
        time.sleep(0.7)  # more than it takes to look again
        assert sum(one["event"] == "ran" for one in served.events) == 1
    assert (standing(cli), results(cli)) == ({running: "done"}, {running: 1})
    assert approvals(cli, "spent") == 3 - uses, "and none is left"
    assert approvals(cli, "accepted") == 0


# claim TG-C-390
def test_killed_while_an_approval_is_signed_nothing_is_approved(tmp_path: Path) -> None:
    cli = made(tmp_path)
    (waiting,) = held(cli, fresh())
    mark, tool = tmp_path / "signing", tmp_path / "bin/ssh-keygen"
    tool.parent.mkdir()
    tool.write_text(SLOW_KEY.format(mark=mark), "ascii")
    tool.chmod(0o755)
    with killed(cli.patched(programs_from(tool.parent)), "--warm", "1") as served:
        known = served.login()
        thread = sent(partial(served.approve, known, waiting))
        until(mark.exists)
        assert served.process.poll() is None, "control: it is asked for a signature"
    thread.join()
    assert (standing(cli), approvals(cli, "accepted")) == ({waiting: "held"}, 0)
    with console(cli, "--warm", "1") as served:
        known = served.login()
        assert shown(served, known) == {"held": 1}
        assert served.approve(known, waiting)[0] == 303
        assert served.wait_for("ran")["request"] == waiting
    assert results(cli) == {waiting: 1}


def ask(served: Console, known: dict[str, str]) -> int:
    """Put a question in the browser; return the status."""
    page = served.ask("GET", "/ask", **known)[2].decode()
    token = page.partition('name="csrf" value="')[2].partition('"')[0]
    body = urlencode({"csrf": token, "question": "At which pressure did sea ice break?"})
    return served.ask("POST", "/ask", body, **known, Origin=served.base)[0]


# claim TG-C-390
def test_killed_while_a_question_is_answered_it_can_be_asked_again(tmp_path: Path) -> None:
    cli = asker(tmp_path, *shelf())
    asked = threading.Event()

    def stuck(_sock: object, server: OwnServer) -> None:
        asked.set()
        server.over.wait()

    with own_server() as server:
        server.complete = stuck
        use_server(cli, server.port)
        with killed(cli, "--warm", "1") as served:
            assert ask(served, served.login()) == 303
            assert asked.wait(SECONDS), "control: the model was asked and has not answered"
        assert cli("analysis", "list").out == cli("request", "list").out == "none\n"
        server.complete = replies(CLAIM, NOTHING)
        with console(cli, "--warm", "1") as served:
            known = served.login()
            state_now = served.ask("GET", "/ask/state", **known)[2]
            assert json.loads(state_now) == {"over": True}, "nothing is said to go on"
            assert ask(served, known) == 303
            assert served.wait_for("asked")["analysis"].startswith("an-")
    assert cli("analysis", "list", "--json").json["total"] == 1
    assert cli("audit", "verify", "--json").json["ok"]


def yes(cli: Cli, request_id: str, uses: int) -> None:
    """Approve a request as another command does."""
    assert cli.workspace is not None
    ws = open_workspace(cli.workspace)
    try:
        approved(ws, read_sheet(ws, request_id), Terms(uses))
    finally:
        ws.close()


def checked(cli: Cli, granted: dict[str, int]) -> Counter[str]:
    """Check what holds after every kill; return how many requests are in each state."""
    found, ran = standing(cli), results(cli)
    assert set(found) == set(granted), "none is lost"
    for request_id, count in ran.items():
        assert count <= granted[request_id], "ran more often than it was approved for"
    once = {one for one, uses in granted.items() if uses == 1}
    done = {one for one, where in found.items() if where == "done"}
    assert done <= set(ran), "what is done has its result"
    assert done & once == set(ran) & once, "and what has one and no use left is done"
    return Counter(found.values())


MOMENTS = ("begun", "claimed", "ran", "approved")


def reached(cli: Cli, served: Console, moment: str) -> None:
    """Wait for a moment, however busy the machine is."""
    assert cli.workspace is not None
    claimed = cli.workspace / "handoff/requests/claimed"
    if moment == "claimed":
        until(lambda: any(claimed.glob("tr-*.md")))
    elif moment != "begun":
        served.wait_for(moment)


@pytest.mark.slow
# claim TG-C-390
def test_killed_again_and_again_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path) -> None:
    cli, chance = made(tmp_path), random.Random(KILLS)
    granted: dict[str, int] = {}
    moments: Counter[str] = Counter()
    for number in range(KILLS):
        with killed(cli, "--warm", str(chance.choice((0, 1, 2)))) as served:
            known = served.login()
            ids = held(cli, *(fresh(f"x = {number * 10 + n}\nx\n") for n in range(3)))
            ids += held(cli, lasting(number, 1))
            granted |= dict.fromkeys(ids, 0)
            for one in ids[1:]:
                granted[one] = chance.choice((1, 1, 2))
                yes(cli, one, granted[one])
            granted[ids[0]] = 1
            thread = sent(partial(served.approve, known, ids[0]))
            reached(cli, served, MOMENTS[number % len(MOMENTS)])
            time.sleep(chance.random() * 0.3)
            ended = {one["event"] for one in served.events}
            moments["something ran"] += "ran" in ended
            moments["signed in the browser"] += "approved" in ended
        thread.join()
        moments.update(f"left {where}" for where in checked(cli, granted))
    with console(cli) as served:
        until(lambda: not {"approved", "claimed"} & set(standing(cli).values()))
        known = served.login()
        assert shown(served, known) == Counter(standing(cli).values()), "as it is"
    print(dict(moments), dict(checked(cli, granted)))
    assert moments["left claimed"] >= KILLS // 8, "control: in the middle of a run"
    assert moments["left approved"] >= KILLS // 8, "control: before one"
    assert moments["something ran"] >= KILLS // 8, "control: after one"
    assert 0 < moments["signed in the browser"] < KILLS, "control: before a yes, and after one"
    assert cli("audit", "verify", "--json").json["ok"]
