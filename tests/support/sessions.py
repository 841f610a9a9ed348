"""Sessions under test, in a process of whoever starts them."""

import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.payloads import start_with
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import TOOL_LITE
from threegate.sandbox.session import Session

WAIT_SECONDS = 20.0
LEAVER = """
import os, signal, time
def main():
    while (request := read_message(0, 2**20)) is not None:
        for _ in range(2):
            if os.fork() == 0:
                os.setsid()
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
                time.sleep(600)
        if request == b'stay':
            time.sleep(600)
        write_message(3, request)
"""


def children() -> set[int]:
    """Return the children of this process."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found |= set(map(int, (task / "children").read_text("ascii").split()))
    return found


def is_dead(pid: int) -> bool:
    """Tell whether a process has ended, reaped or not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("latin-1")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")


def living(pids: Iterable[int]) -> set[int]:
    """Return those of these processes that do not end, however busy the machine is."""
    deadline = time.monotonic() + WAIT_SECONDS
    while left := {pid for pid in pids if not is_dead(pid)}:
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return left


def leaving() -> None:
    """Leave processes behind in jobs, end the session both ways, and print what is left."""
    machine = find_machine()
    found: dict[str, Any] = {"own uid": machine.root}
    with tempfile.TemporaryDirectory() as name:
        start = start_with(Path(name), LEAVER, TOOL_LITE)
        for how in ("closed", "killed"):
            session = Session.open(machine, start)
            for _ in range(2):
                assert session.ask(b"job", deadline_seconds=30).message == b"job"
            inside = session._line.started.meter.processes()
            if how == "killed":
                session.ask(b"stay", deadline_seconds=0.3)
            why = session.close().why
            left = [pid for pid in inside if Path(f"/proc/{pid}").exists()]
            found[how] = {"alive": len(inside), "left": len(left) + len(children()), "why": why}
    json.dump(found, sys.stdout)
