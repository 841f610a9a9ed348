"""What a gate used is measured from outside, with payloads that use a known amount."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.boxes import start_with
from tests.support.lite import tree
from threegate.sandbox import usage
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
TICK_MS = 1000 // os.sysconf("SC_CLK_TCK")  # what was killed is counted in these, cut off
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
    # A box that says too much is killed when it has used this, however busy the machine is.
    code = f"""{BURN}{HOLD}
def main():
    held = hold(64 * 2**20)
    burn(0.4)
    while True:
        write_message(3, b'x' * 2**20)
"""
    ended = run(machine, tmp_path, code)
    assert (ended.why, ended.exit_code) in {("protocol", -9), ("output", -9)}
    assert 400 - 2 * TICK_MS <= ended.cpu_ms <= ended.wall_ms + 200
    assert ended.peak_memory_bytes >= 64 * MIB


def test_a_box_killed_at_its_deadline_is_charged(machine: Machine, tmp_path: Path) -> None:
    ended = run(machine, tmp_path, f"{BURN}\ndef main():\n    burn(60)\n", seconds=1.5)
    assert ended.why == "deadline"
    assert 0 < ended.cpu_ms <= ended.wall_ms + 200


def test_time_of_children_is_charged_waited_for_or_not(machine: Machine, tmp_path: Path) -> None:
    code = f"""{BURN}
import os, time
def main():
    ends, end = os.pipe()
    if os.fork() == 0:
        burn(0.4)
        os._exit(0)
    os.close(end)
    os.read(ends, 1)
    if wait:
        os.wait()
    else:
        time.sleep(1.5)  # until the host has looked
    write_message(3, b'')
"""
    for wait in (True, False):
        ended = run(machine, tmp_path, f"wait = {wait}\n{code}", fork=True)
        assert ended.why == "done", ended
        assert ended.cpu_ms >= 400 - 2 * TICK_MS


def test_memory_of_a_tree_is_added_up(machine: Machine, tmp_path: Path) -> None:
    code = f"""{HOLD}
import os, time
def main():
    told, tell = os.pipe()
    for _ in range(2):
        if os.fork() == 0:
            held = hold(48 * 2**20)
            os.write(tell, b'.')
            time.sleep(600)
    for _ in range(2):
        os.read(told, 1)
    time.sleep(1.5)  # until the host has looked
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


# The first process of a box, the gate below it, and programs that take memory when they are told.
FIRST = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
GATE = """
import subprocess, sys
programs = {}
for line in sys.stdin:
    name, size = line.split()
    if name not in programs:
        command = [sys.executable, '-c', sys.argv[1]]
        programs[name] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    programs[name].stdin.write(size.encode() + b'\\n')
    programs[name].stdin.flush()
    print(programs[name].pid, programs[name].stdout.readline().decode(), end='', flush=True)
"""
PROGRAM = """
import sys
held = []
for line in sys.stdin:
    held.append(bytearray(int(line)))
    print('held', flush=True)
"""


class Stage:
    """A meter before programs that stand still but for what the test has them do."""

    def __init__(self, process: "subprocess.Popen[str]", meter: Meter) -> None:
        self._process, self.meter = process, meter
        self.programs: dict[str, int] = {}

    def program(self, name: str, size: int) -> int:
        """Have a program, started if it is not there, take memory; return its number."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if name in self.programs:
            os.kill(self.programs[name], signal.SIGCONT)
        self._process.stdin.write(f"{name} {size}\n")
        self._process.stdin.flush()
        told, held = self._process.stdout.readline().split()
        assert held == "held"
        pid = self.programs[name] = int(told)
        os.kill(pid, signal.SIGSTOP)
        while b") T " not in Path(f"/proc/{pid}/stat").read_bytes():
            os.sched_yield()
        return pid

    def job(self, act: Callable[[], object], *, looked_at: bool = True) -> int:
        """Return the memory of a job in which this happens."""
        self.meter.begin_job()
        act()
        if looked_at:
            self.meter.look_if_due()
        return self.meter.end_job()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(usage, "JOB_LOOK_SECONDS", 0.0)  # a look is due whenever one is asked for
    command = [sys.executable, "-c", FIRST, GATE, PROGRAM]
    pipe = subprocess.PIPE
    info, tell = os.pipe()
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        os.write(tell, b'{ "child-pid": %d }' % process.pid)
        os.close(tell)
        stage = Stage(process, Meter(info))
        stage.program("idle", 0)  # the gate is there
        yield stage
        stage.meter.close()
        for pid in stage.programs.values():
            os.kill(pid, signal.SIGKILL)


def test_a_program_left_from_the_job_before_is_not_charged_to_the_next(stage: Stage) -> None:
    first = stage.job(lambda: stage.program("left", 96 * MIB))
    assert first >= 96 * MIB, "control: it is there, and seen"
    second = stage.job(lambda: stage.program("own", 32 * MIB))
    assert 32 * MIB <= second < 96 * MIB, "its own program, and not the one that is left"
    assert stage.job(lambda: None) == 0, "all of them still live, and none did anything"
    assert stage.job(lambda: stage.program("left", 8 * MIB)) >= 96 * MIB, "control: until it does"


def test_a_program_made_ready_in_the_job_before_is_charged_to_the_one_that_uses_it(
    stage: Stage,
) -> None:
    assert 0 < stage.job(lambda: stage.program("ready", 0)) < 64 * MIB
    assert stage.job(lambda: None) == 0, "control: it waits, and is nobody's"
    assert stage.job(lambda: stage.program("ready", 64 * MIB)) >= 64 * MIB


def test_a_job_nobody_looked_at_does_not_make_what_was_left_before_new(stage: Stage) -> None:
    assert stage.job(lambda: stage.program("left", 64 * MIB)) >= 64 * MIB
    assert stage.job(lambda: stage.program("brief", 0), looked_at=False) == 0
    assert 0 < stage.job(lambda: None) < 64 * MIB, "the brief one is seen, and not the one left"


def test_a_program_with_the_number_of_one_that_is_gone_is_another(stage: Stage) -> None:
    pid = stage.program("new", 16 * MIB)
    first = stage.meter.first_process()
    assert first is not None
    (gate,) = children(first)
    seen = usage.Job(first, gate, {})
    seen.look()
    start = next(start for number, start in seen.sizes if number == pid)
    for known, counts in (((pid, start), False), ((pid, start - 1), True)):
        sizes = {**seen.sizes, known: 1024 * MIB}
        if counts:
            del sizes[pid, start]
        job = usage.Job(first, gate, sizes)
        job.look()
        assert (job.largest_bytes >= 16 * MIB) is counts


def children(pid: int | str = "self") -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
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
