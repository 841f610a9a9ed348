"""What a gate used is measured from outside, with payloads that use a known amount."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.lite import tree
from tests.support.payloads import start_with
from threegate.sandbox.launch import start_process, view_for
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import FETCH_NORMALIZE, MIB, TOOL_LITE
from threegate.sandbox.session import run_gate
from threegate.sandbox.supervise import Ended, discard
from threegate.sandbox.usage import Meter, reap

BURN = """
import time
def burn(seconds):
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        pass
"""
# Native code that only uses what every box has: one page of each 4 KiB is touched.
HOLD = """
def hold(size):
    held = bytearray(size)
    return held
"""


@pytest.fixture(scope="module")
def machine() -> Machine:
    return find_machine()


def run(
    machine: Machine, tmp_path: Path, code: str, *, seconds: float | None = None, fork: bool = False
) -> Ended:
    start = start_with(tmp_path, code, TOOL_LITE if fork else FETCH_NORMALIZE)
    answer = run_gate(machine, start, b"", deadline_seconds=seconds)
    with answer.message:
        return answer.ended


def test_cpu_time_of_the_payload_is_charged(machine: Machine, tmp_path: Path) -> None:
    idle = run(machine, tmp_path, "def main():\n    write_message(3, b'')\n")
    assert idle.why == "done"
    code = f"{BURN}\ndef main():\n    burn(0.4)\n    write_message(3, b'')\n"
    ended = run(machine, tmp_path, code)
    assert ended.why == "done"
    assert ended.cpu_ms >= 400
    assert ended.cpu_ms <= 400 + idle.cpu_ms * 3 + 100, "and not much more"
    assert idle.cpu_ms < 400, "control: starting alone costs less"


def test_memory_of_the_payload_is_seen_whatever_the_host_holds(
    machine: Machine, tmp_path: Path
) -> None:
    ballast = bytearray(300 * MIB)  # a child's figure must not start at its parent's
    idle = run(machine, tmp_path, "def main():\n    write_message(3, b'')\n")
    code = f"{HOLD}\ndef main():\n    hold(96 * 2**20)\n    write_message(3, b'')\n"
    ended = run(machine, tmp_path, code)
    assert idle.peak_memory_bytes < 64 * MIB
    assert 96 * MIB <= ended.peak_memory_bytes < 96 * MIB + 64 * MIB
    assert len(ballast) == 300 * MIB


def test_a_killed_box_is_charged_up_to_the_kill(machine: Machine, tmp_path: Path) -> None:
    code = f"{BURN}{HOLD}\ndef main():\n    held = hold(64 * 2**20)\n    burn(60)\n"
    ended = run(machine, tmp_path, code, seconds=1.5)
    assert ended.why == "deadline"
    assert 400 <= ended.cpu_ms <= ended.wall_ms + 200
    assert ended.peak_memory_bytes >= 64 * MIB


def test_time_of_children_is_charged_waited_for_or_not(machine: Machine, tmp_path: Path) -> None:
    code = f"""{BURN}
import os, time
def main():
    if os.fork() == 0:
        burn(0.4)
        os._exit(0)
    if wait:
        os.wait()
    else:
        time.sleep(1.5)
    write_message(3, b'')
"""
    for wait in (True, False):
        ended = run(machine, tmp_path, f"wait = {wait}\n{code}", fork=True)
        assert ended.why == "done", ended
        assert ended.cpu_ms >= 400


def test_memory_of_a_tree_is_added_up(machine: Machine, tmp_path: Path) -> None:
    code = f"""{HOLD}
import os, time
def main():
    for _ in range(2):
        if os.fork() == 0:
            held = hold(48 * 2**20)
            time.sleep(2)
            os._exit(0)
    time.sleep(1.5)
    write_message(3, b'')
"""
    ended = run(machine, tmp_path, code, fork=True)
    assert ended.why == "done", ended
    assert ended.peak_memory_bytes >= 96 * MIB


# claim TG-C-64
def test_nothing_of_a_box_is_left_when_its_end_is_reported(
    machine: Machine, tmp_path: Path
) -> None:
    code = """
import os, time
def main():
    for _ in range(3):
        if os.fork() == 0:
            time.sleep(600)
    write_message(3, b'left three behind')
"""
    before = set(children())
    ended = run(machine, tmp_path, code, fork=True)
    assert (ended.why, ended.messages) == ("done", 1)
    assert set(children()) == before
    assert not [name for name in processes() if "payload_under_test" in name]


@pytest.mark.parametrize("seconds", [0.0, 0.0005, 0.001, 0.002, 0.004, 0.008])
# claim TG-C-64
def test_a_box_killed_while_it_is_being_made_leaves_nothing(
    machine: Machine, tmp_path: Path, seconds: float
) -> None:
    # Bubblewrap's child waits for bubblewrap for ever if that dies at the wrong moment.
    start = start_with(tmp_path, "def main():\n    pass\n")
    before = set(children())
    for _ in range(4):
        started = start_process(machine, start, view_for(machine, start))
        time.sleep(seconds)
        os.kill(started.process.pid, 9)
        discard(started)
        assert set(children()) == before
    assert not [name for name in processes() if "payload_under_test" in name]


def test_an_interrupt_ends_the_box(machine: Machine, tmp_path: Path) -> None:
    code = """
import time
from threegate.sandbox.channel import HEADER, NOTE
import os
def main():
    os.write(3, HEADER.pack(NOTE, 2) + b'hi')
    time.sleep(600)
"""

    def interrupted(note: bytes) -> None:
        assert note == b"hi"
        raise KeyboardInterrupt

    before = set(children())
    with pytest.raises(KeyboardInterrupt):
        run_gate(machine, start_with(tmp_path, code), b"", note=interrupted)
    assert set(children()) == before


def test_a_flood_is_killed_and_charged(machine: Machine, tmp_path: Path) -> None:
    code = """
def main():
    while True:
        write_message(3, b'x' * 2**20)
"""
    ended = run(machine, tmp_path, code)
    assert (ended.why, ended.exit_code) in {("protocol", -9), ("output", -9)}
    assert ended.cpu_ms > 0


def test_meter_of_a_box_that_told_nothing_counts_bubblewrap_alone() -> None:
    info, tell = os.pipe()
    os.close(tell)
    meter = Meter(info)
    meter.look_before_kill()
    assert meter.first_process() is None
    process = subprocess.Popen([sys.executable, "-c", "sum(range(10**6))"])
    outer = reap(process.pid, 10)
    process.returncode = outer.status
    assert meter.finish(outer, 1) == (outer.cpu_seconds, outer.largest_bytes)


def test_meter_never_signals_what_is_not_our_child() -> None:
    info, tell = os.pipe()
    os.write(tell, b'{\n    "child-pid": 1\n}\n')
    os.close(tell)
    meter = Meter(info)
    assert meter.first_process() == 1
    process = subprocess.Popen([sys.executable, "-c", ""])
    outer = reap(process.pid, 10)
    process.returncode = outer.status
    meter.finish(outer, 1)  # init is alive, and not ours
    assert Path("/proc/1/stat").exists()


def test_reap_kills_what_does_not_end() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    begin = time.monotonic()
    outer = reap(process.pid, 0.2)
    process.returncode = os.waitstatus_to_exitcode(outer.status)
    assert process.returncode == -9
    assert time.monotonic() - begin < 10


def children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, (task / "children").read_text("ascii").split())
    return found


def processes() -> list[str]:
    """Return the commands of all below this process, which adopts what a box leaves behind."""
    found = []
    for pid in tree(os.getpid()):
        try:
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace"))
        except OSError:
            continue
    return found
