"""A console that is killed, and what must be so afterwards, whenever that was."""

import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.boxes import living
from tests.support.cli import Cli
from tests.support.console import Console, console, opened
from tests.support.lite import tree
from threegate.artifacts.tool_result import ToolResult
from threegate.handoff import states
from threegate.host.run.warm.executors import live_executors

KILLED = -signal.SIGKILL
STATES = ("held", "approved", "claimed", "done")


@contextmanager
def killed(cli: Cli, *options: str) -> Iterator[Console]:
    """Serve a workspace; killed at the end, it leaves no process and a log that verifies."""
    with console(cli, *options, end=KILLED) as served:
        yield served
        below = [pid for pid in tree(served.process.pid) if pid != served.process.pid]
        os.kill(served.process.pid, signal.SIGKILL)
        served.process.wait()
        assert not living(below), "everything it started ended with it"
    with opened(cli) as ws, ws.store.locked() as journal:
        assert live_executors(journal.log) == [], (
            "none is in the table, whatever its last entry says"
        )
    assert cli("audit", "verify", "--json").json["ok"]


def standing(cli: Cli) -> dict[str, str]:
    """Return every tool request with its state, each in one alone."""
    found: dict[str, str] = {}
    with opened(cli) as ws, ws.store.locked():
        for state in STATES:
            names = ws.store.names(states.directory_of("tr", state))
            for one in {name.removesuffix(".md") for name in names if name.endswith(".md")}:
                assert one not in found, "in two states"
                found[one] = state
                assert ws.store.standing(one) == state, "and the log says the same"
    return found


def results(cli: Cli) -> Counter[str]:
    """Return how many results each request has."""
    found: Counter[str] = Counter()
    with opened(cli) as ws:
        for result_id in ws.store.ids("res"):
            result = ws.store.read(result_id)
            assert isinstance(result, ToolResult)
            found[result.request] += 1
    return found


def approvals(cli: Cli, state: str) -> int:
    """Return how many approvals there are in a state."""
    with opened(cli) as ws:
        names = list(ws.store.names(states.directory_of("ap", state)))
    return sum(name.endswith(".md") for name in names)


def shown(served: Console, known: dict[str, str]) -> Counter[str]:
    """Return how many requests are in each state by what the console itself counts."""
    text = served.ask("GET", "/metrics", **known)[2].decode()
    found = re.findall(r'threegate_requests\{state="(\w+)"\} ([0-9]+)', text)
    return Counter({state: int(count) for state, count in found if int(count)})
