"""A random soak: whole sessions of work, killed at random moments, again and again."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.escape.test_handoff_concurrency import _worker
from tests.support.workspaces import audited, make_store

KILLS = 400


@pytest.mark.slow
def test_random_kills_of_working_processes_leave_a_whole_store(tmp_path: Path) -> None:
    root = tmp_path / "store"
    make_store(root)
    killed = finished = 0
    for number in range(KILLS):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _worker(root, 1 + number % 7, 10 + number, os.open(os.devnull, os.O_WRONLY))
                code = 0
            finally:
                os._exit(code)
        time.sleep(random.Random(number).random() * 0.12)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        killed += os.WIFSIGNALED(status)
        finished += not os.WIFSIGNALED(status)
        if number % 20 == 19:
            audited(root)
    audited(root)
    assert killed > KILLS // 2, "control: the kills hit working processes"
    print(f"{killed} killed in mid-work, {finished} had finished")
