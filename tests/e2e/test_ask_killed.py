"""Kill -9 in mid-answer: of the command, of CORE and of the model server, real or played."""

import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from tests.support.boxes import is_dead
from tests.support.cli import PYTHON, Cli
from tests.support.core_doubles import asker, labels_of_model, replies, use_server, use_smallest
from tests.support.holdings import shelf
from tests.support.models import OwnServer, own_server

QUESTION = "At which pressure did sea ice break?"
CLAIM = {"claims": [{"text": "Sea ice broke at 1.2 MPa.", "from": [1]}]}
NOTHING = {"compute": "", "fetch": []}
SECONDS = 60
CORE, BRIDGE, SERVER = (
    "threegate.gates.core.gate",
    "threegate.gates.model.bridge",
    "threegate.gates.model.server",
)
ASK = (*PYTHON, "ask", QUESTION, "--role", "policy-analyst")


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


def nothing_is_left(cli: Cli, below: list[int], err: bytes) -> None:
    """No word of an answer, no process, nothing in the workspace."""
    assert b"Traceback" not in err
    assert gone(below), "nothing of a box is left"
    assert cli("analysis", "list").out == cli("request", "list").out == "none\n"
    assert cli("audit", "verify").code == 0


KILLS: dict[str, tuple[str | None, int]] = {
    "the command": (None, -signal.SIGKILL),
    "CORE": (CORE, 69),
    "the model's box": (BRIDGE, 69),
}


@pytest.mark.parametrize("what", KILLS)
# claim TG-C-154
def test_killed_in_mid_answer_nothing_is_left_and_it_can_be_asked_again(
    mid_answer: MidAnswer, what: str
) -> None:
    gate, code = KILLS[what]
    found = descendants(mid_answer.process.pid)
    assert len(found) >= 2, "control: both boxes are there"
    os.kill(leaf(found, gate) if gate else mid_answer.process.pid, signal.SIGKILL)
    out, err = mid_answer.process.communicate(timeout=SECONDS)
    assert mid_answer.process.returncode == code, err
    assert out == b""
    nothing_is_left(mid_answer.cli, list(found), err)
    mid_answer.server.complete = replies(CLAIM, NOTHING)
    assert labels_of_model(mid_answer.cli("ask", QUESTION, "--json").json) == ["quote found"]


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[tuple[Cli, subprocess.Popen[bytes], int]]:
    """Yield a command whose real model stands still in the middle of its work, and its screen."""
    cli = asker(tmp_path, *shelf())
    use_smallest(cli, deadline="5m", output_tokens="256", context_tokens="2048", claims="3")
    screen, slave = pty.openpty()
    process = subprocess.Popen(
        ASK,
        env=cli.env(TERM="xterm"),
        cwd=cli.base,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    try:
        shown = b""
        while b"the model is " not in shown:  # reading or writing so many tokens
            shown += os.read(screen, 65536)
        # Stopped, it cannot be done before it is killed, however fast this machine is.
        os.kill(leaf(descendants(process.pid), SERVER), signal.SIGSTOP)
        assert process.poll() is None, "control: there is no answer yet"
        yield cli, process, screen
    finally:
        process.kill()
        process.communicate()
        os.close(screen)


EMBEDDED: dict[str, tuple[str | None, int, bytes]] = {
    "the command": (None, -signal.SIGKILL, b""),
    "CORE": (CORE, 69, b"[TG-COR-010]"),
    "the model server": (SERVER, 69, b"[TG-MDL-030]"),
}


@pytest.mark.parametrize("what", EMBEDDED)
# claim TG-C-154
def test_killed_while_the_embedded_model_works_nothing_is_left(
    writing: tuple[Cli, subprocess.Popen[bytes], int], what: str
) -> None:
    cli, process, screen = writing
    gate, code, why = EMBEDDED[what]
    found = descendants(process.pid)
    os.kill(leaf(found, gate) if gate else process.pid, signal.SIGKILL)
    out, _ = process.communicate(timeout=SECONDS)
    err = everything(screen)
    assert process.returncode == code, err
    assert out == b""
    assert why in err
    nothing_is_left(cli, list(found), err)
    again = cli(*ASK[len(PYTHON) :], "--json", code=None)
    # The smallest model may find no words; what it must not find is a locked door.
    assert again.code == 0 or "[TG-COR-002]" in again.err, again.err
    assert cli("audit", "verify").code == 0


def everything(screen: int) -> bytes:
    """Return what is left on a terminal that nobody writes to any more."""
    shown = b""
    while True:
        try:
            shown += os.read(screen, 65536)
        except OSError:  # EIO: the other side is closed
            return shown
