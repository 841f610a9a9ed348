"""Kill -9 in mid-answer: of the command, of CORE and of the model server's box."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from tests.support.asking import asker, replies, use_server
from tests.support.cli import PYTHON, Cli
from tests.support.ownserver import OwnServer, own_server
from tests.support.papers import shelf
from tests.support.sessions import is_dead

QUESTION = "At which pressure did sea ice break?"
CLAIM = {"claims": [{"text": "Sea ice broke at 1.2 MPa.", "from": [1]}]}
NOTHING = {"compute": "", "fetch": []}
SECONDS = 60


@dataclass
class MidAnswer:
    """A command whose model has been asked and has not answered."""

    cli: Cli
    server: OwnServer
    process: subprocess.Popen[bytes]


def descendants(pid: int) -> dict[int, str]:
    """Return the processes below one, with the words they were started with."""
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            for child in map(int, task.read_text("ascii").split()):
                words = Path(f"/proc/{child}/cmdline").read_bytes().decode("utf-8", "replace")
                found[child] = words
                waiting.append(child)
    return found


def leaf(found: dict[int, str], gate: str) -> int:
    """Return the innermost process of a box, which was started with the gate's name."""
    return max(pid for pid, words in found.items() if gate in words)


def gone(pids: list[int]) -> bool:
    """Wait until none of these processes lives any more, reaped by who adopted it or not."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if all(map(is_dead, pids)):
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def mid_answer(tmp_path: Path) -> Iterator[MidAnswer]:
    cli = asker(tmp_path, *shelf())
    asked = Event()

    def stuck(_sock: object, server: OwnServer) -> None:
        asked.set()
        server.over.wait()

    with own_server() as server:
        server.complete = stuck
        use_server(cli, server.port)
        process = subprocess.Popen(
            [*PYTHON, "ask", QUESTION],
            env=cli.env(),
            cwd=cli.base,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            assert asked.wait(SECONDS)
            yield MidAnswer(cli, server, process)
        finally:
            process.kill()
            process.communicate()


KILLS: dict[str, tuple[Callable[[MidAnswer], int], int]] = {
    "the command": (lambda mid: mid.process.pid, -signal.SIGKILL),
    "CORE": (lambda mid: leaf(descendants(mid.process.pid), "threegate.core.gate"), 69),
    "the model's box": (
        lambda mid: leaf(descendants(mid.process.pid), "threegate.model.bridge"),
        69,
    ),
}


@pytest.mark.parametrize("what", KILLS)
# claim TG-C-154
def test_killed_in_mid_answer_nothing_is_left_and_it_can_be_asked_again(
    mid_answer: MidAnswer, what: str
) -> None:
    victim, code = KILLS[what]
    below = list(descendants(mid_answer.process.pid))
    assert len(below) >= 2, "control: both boxes are there"
    os.kill(victim(mid_answer), signal.SIGKILL)
    out, err = mid_answer.process.communicate(timeout=SECONDS)
    assert mid_answer.process.returncode == code, err
    assert out == b""
    assert b"Traceback" not in err
    assert gone(below), "nothing of a box is left"
    cli = mid_answer.cli
    assert cli("analysis", "list").out == cli("request", "list").out == "none\n"
    assert cli("audit", "verify").code == 0
    mid_answer.server.complete = replies(CLAIM, NOTHING)
    assert cli("ask", QUESTION, "--json").json["labels"]["quote found"] == 1
