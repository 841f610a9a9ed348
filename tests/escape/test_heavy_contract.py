"""What every engine of the heavy lane must do: real boxes, a real engine, real guests.

The suite runs on QEMU by emulation, in `test_heavy_accelerated.py` by acceleration and, with
`make slow`, on a user-space kernel.
"""

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.boxes import IS_ROOT, open_to_all, ordinary_uid, run_as
from tests.support.heavy import ENGINE, LIMITS, MIB, Lab, Task, image, lab_of
from tests.support.ring import lab_with
from threegate.host.run.heavy.backend import EMULATION, KVM, NOT_USABLE, HeavyRun
from threegate.host.run.heavy.runsc import RUNSC
from threegate.sandbox.launch import groups_of

ENGINES = [ENGINE, pytest.param(RUNSC, marks=pytest.mark.slow)]
# Where acceleration works everything is slow already.
FOR_USERS = [pytest.param(ENGINE, marks=() if ENGINE == KVM else pytest.mark.slow), ENGINES[1]]


@pytest.fixture(scope="module", params=ENGINES)
def lane(request: pytest.FixtureRequest) -> Lab:
    return lab_of(request.param)


def printed(ran: HeavyRun) -> str:
    assert ran.outcome.exit == "ok", (ran.outcome.exit, ran.outcome.stdout, ran.outcome.stderr)
    return ran.outcome.stdout.decode()


def test_hello_from_code_and_from_a_command(lane: Lab) -> None:
    assert printed(lane.run("print('hello')")) == "hello\n"
    command = Task(argv=("/usr/bin/sha256sum", "/in/data"), inputs={"data": b"hello"})
    digest = hashlib.sha256(b"hello").hexdigest()
    assert printed(lane.run(command)) == f"{digest}  /in/data\n"


def test_the_processor_is_what_the_engine_says(lane: Lab) -> None:
    models = "[line for line in open('/proc/cpuinfo') if line.startswith('model name')][0]"
    seen = printed(lane.run(f"print({models}, end='')")).partition(": ")[2]
    assert seen.startswith("QEMU TCG") == (lane.backend.name == EMULATION), seen


@pytest.mark.parametrize(
    ("code", "state", "number"),
    [
        ("raise SystemExit(0)", "ok", 0),
        ("raise SystemExit(7)", "error", 7),
        ("raise SystemExit('no')", "error", 1),
        ("1 / 0", "error", 1),
        ("import os; os.kill(os.getpid(), 15)", "error", -15),
        ("import os; os.kill(os.getpid(), 9)", "error", -9),
        ("import os; os.abort()", "error", -6),
    ],
)
def test_exit_codes_and_signals_are_told_as_they_were(
    lane: Lab, code: str, state: str, number: int
) -> None:
    outcome = lane.run(code).outcome
    assert (outcome.exit, outcome.exit_code) == (state, number), outcome.stderr


def test_errors_come_as_the_interpreter_would_print_them(lane: Lab) -> None:
    ran = lane.run("def f():\n    return 1 / 0\n\nf()\n")
    told = ran.outcome.stderr.decode()
    assert told.startswith('Traceback (most recent call last):\n  File "job", line 4')
    assert told.endswith("ZeroDivisionError: division by zero\n")


def test_big_and_binary_output_and_files_come_back_byte_for_byte(lane: Lab) -> None:
    code = (
        "import os, sys\n"
        "os.write(1, bytes(range(256)) * 400)\n"
        "os.write(2, b'\\xff\\x00' * 1000)\n"
        "open('/out/big', 'wb').write(bytes(range(256)) * 32768)\n"
        "open('/out/empty', 'wb')\n"
    )
    outputs = {"big": 8 * MIB, "empty": 1, "never": 1}
    outcome = lane.run(Task(code, outputs=outputs)).outcome
    assert (outcome.exit, outcome.stdout) == ("ok", bytes(range(256)) * 400)
    assert outcome.stderr == b"\xff\x00" * 1000
    assert outcome.files == (("big", bytes(range(256)) * 32768), ("empty", b""))


def test_thousands_of_files_of_which_one_was_asked_for(lane: Lab) -> None:
    code = (
        "for n in range(3000):\n    open(f'/out/f{n}', 'w').write(str(n))\n"
        "import os\nprint(len(os.listdir('/out')))\n"
    )
    outcome = lane.run(Task(code, outputs={"f2999": 8})).outcome
    assert (outcome.exit, outcome.stdout) == ("ok", b"3000\n")
    assert outcome.files == (("f2999", b"2999"),)


def test_inputs_are_there_and_cannot_be_changed(lane: Lab) -> None:
    code = (
        "import os\n"
        "print(sorted(os.listdir('/in')), open('/in/b', 'rb').read(), os.stat('/in/a').st_size)\n"
        "for act in (lambda: open('/in/new', 'w'), lambda: open('/in/b', 'ab'),\n"
        "            lambda: os.unlink('/in/b'), lambda: os.chmod('/in/b', 0o777)):\n"
        "    try:\n        act()\n    except OSError as exc:\n        print(exc.strerror)\n"
        "open('/out/new', 'w')\n"
    )
    inputs = {"a": b"x" * 3_000_000, "b": b"two"}
    lines = printed(lane.run(Task(code, inputs=inputs))).splitlines()
    assert lines[0] == "['a', 'b'] b'two' 3000000"
    # Without a disk they are files of root in the guest's own memory.
    kept = ["Permission denied"] * 3 + ["Operation not permitted"]
    read_only = ["Read-only file system"] * 4
    assert lines[1:] == (kept if lane.backend.name == RUNSC else read_only)


# claim TG-C-233
def test_bombs_end_at_their_limits(lane: Lab) -> None:
    full = (
        "f = open('/out/x', 'wb')\n"
        "try:\n  while True: f.write(bytes(65536))\n"
        "except OSError as exc: print(exc.strerror)"
    )
    assert printed(lane.run(full)) == "No space left on device\n"
    small = Task("open('/out/x', 'wb').write(bytes(5000))", outputs={"x": 4999})
    assert lane.run(small).outcome.exit == "limit:disk"
    enough = Task("open('/out/x', 'wb').write(bytes(5000))", outputs={"x": 5000})
    assert lane.run(enough).outcome.exit == "ok", "control: one byte more may be left"
    flood = Task("while True: print('x' * 1000)").limited(output_bytes=100_000)
    outcome = lane.run(flood).outcome
    assert (outcome.exit, outcome.cut.stdout) == ("limit:output", True)
    assert len(outcome.stdout) == 100_000
    loop = lane.run(Task("print('begun', flush=True)\nwhile True: pass").limited(wall_ms=8_000))
    assert (loop.outcome.exit, loop.outcome.stdout) == ("limit:time", b"begun\n")
    memory = lane.run("x = []\nwhile True: x.append(bytearray(2**22))").outcome
    assert memory.exit in ("limit:memory", "error"), "its own MemoryError, or whoever watches"
    assert memory.exit == "limit:memory" or b"MemoryError" in memory.stderr


def test_a_fork_bomb_ends_with_the_machine(lane: Lab) -> None:
    code = (
        "import os\nmade = 0\n"
        "try:\n"
        "    while made < 1000:\n"
        "        if os.fork() == 0:\n            import time; time.sleep(3600)\n"
        "        made += 1\n"
        "except OSError as exc:\n    print(made, exc.strerror)\n"
    )
    made, _, why = printed(lane.run(Task(code).limited(processes=20))).partition(" ")
    assert (int(made) < 20, why) == (True, "Resource temporarily unavailable\n")
    wild = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    outcome = lane.run(Task(wild).limited(wall_ms=8_000)).outcome
    # A user-space kernel does not end single processes: what they take together ends them all.
    ends = ("limit:time", "limit:memory") if lane.backend.name == RUNSC else ("limit:time",)
    assert outcome.exit in ends


def test_what_a_job_leaves_running_ends_with_it(lane: Lab) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    while True: time.sleep(1); print('still here', flush=True)\n"
        "print('done')\n"
    )
    assert printed(lane.run(code)) == "done\n"


def test_environment_user_place_and_streams_of_a_job(lane: Lab) -> None:
    code = (
        "import os, sys, json\n"
        "print(json.dumps([dict(os.environ), os.getuid(), os.getgroups(), os.getcwd(),\n"
        "    sys.stdin.read(), sys.argv, sorted(os.listdir('/out')), sys.getrecursionlimit()]))\n"
    )
    found = json.loads(printed(lane.run(Task(code).limited(recursion=777))))
    assert found == [{}, 1000, [], "/tmp", "", ["job"], [], 777]


def test_imports_beyond_the_profile_are_refused_with_a_clear_error(lane: Lab) -> None:
    outcome = lane.run("import json, csv\nprint('fine', flush=True)\nimport socket").outcome
    assert (outcome.exit, outcome.stdout) == ("error", b"fine\n"), "control: others work"
    assert b"ImportError: import of socket is denied by policy/tool-exec." in outcome.stderr


# claim TG-C-235
def test_clones_of_one_snapshot_share_no_randomness_and_know_the_time(lane: Lab) -> None:
    code = (
        "import os, random, time, json\n"
        "import uuid, tempfile, secrets\n"  # beyond the profile, so without the ring
        "print(json.dumps([os.urandom(16).hex(), random.random(), str(uuid.uuid4()),\n"
        "    tempfile.mktemp(), secrets.token_hex(8), time.time()]))\n"
    )
    before = time.time()
    runs = [json.loads(printed(lab_with().run(code))) for _ in range(3)]
    plain = "import os, random\nprint(os.urandom(16).hex(), random.random())"
    ringed = [printed(lane.run(plain)).split() for _ in range(3)]
    assert all(len(set(row)) == 3 for row in zip(*ringed, strict=True)), ringed
    after = time.time()
    for row in zip(*runs, strict=True):
        assert len(set(row)) == 3, row
    assert all(uuid.UUID(run[2]).version == 4 for run in runs)
    assert [before < run[5] < after for run in runs] == [True, True, True]
    assert [run[5] for run in runs] == sorted(run[5] for run in runs)


# claim TG-C-236
def test_two_runs_share_nothing_that_can_be_written(lane: Lab) -> None:
    leave = "open('/tmp/left', 'w').write('x'); open('/out/left', 'w').write('x'); print('left')"
    look = "import os; print(os.path.exists('/tmp/left'), os.listdir('/out'))"
    assert printed(lane.run(leave)) == "left\n", "control: it can be written"
    assert printed(lane.run(look)) == "False []\n"


def test_runs_at_the_same_time_do_not_meet(lane: Lab) -> None:
    lane.backend.prepare(lane.want(Task("1")))

    def one(number: int) -> str:
        code = f"open('/tmp/n', 'w').write('{number}')\nprint(open('/tmp/n').read())"
        return printed(lane.run(code))

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(one, range(6))) == [f"{n}\n" for n in range(6)]


@pytest.mark.parametrize("engine", FOR_USERS)
def test_an_ordinary_user_gets_the_same(engine: str, tmp_path: Path) -> None:
    open_to_all(tmp_path)
    shutil.copytree(image().place, tmp_path / "images" / image().digest)
    if IS_ROOT:  # control: the other tests run as root, whose boxes have uids of their own
        for path in (tmp_path, *tmp_path.rglob("*")):
            os.chown(path, ordinary_uid(), ordinary_uid())
    if engine == KVM:  # control: who is not in the group of the device does not get it
        assert told_to_a_user(engine, tmp_path)[0] == NOT_USABLE
    groups = groups_of(["kvm"]) if engine == KVM else []
    uid = ordinary_uid()
    expected = ["ok", "hello\n", uid, False, "tool-heavy"]
    assert told_to_a_user(engine, tmp_path, groups=groups) == expected


def told_to_a_user(engine: str, place: Path, groups: Sequence[int] = ()) -> list[Any]:
    """Return what a user without privileges, but in these groups, is told of a job."""
    ran = run_as(
        "ordinary user",
        "tests.support.heavy:main",
        *(str(place), image().digest),
        groups=groups,
        THREEGATE_TEST_ENGINE=engine,
    )
    assert ran.code == 0, ran.err
    found: list[Any] = json.loads(ran.out)
    return found


def test_the_evidence_says_what_held_it(lane: Lab) -> None:
    ran = lane.run("import os; print(os.cpu_count())")
    assert printed(ran) == "1\n"
    user_kernel = lane.backend.name == RUNSC
    boxes = ["runsc-kernel", "runsc-files"] if user_kernel else ["engine"]
    assert [item.profile for item in ran.evidence] == ["tool-heavy", *boxes]
    assert "guest-no-network" in ran.outcome.probes
    assert "guest-memory" in ran.outcome.probes
    assert ran.cpu_ms > 0
    least = (16 if user_kernel else 64) * MIB
    assert least < ran.peak_memory_bytes < LIMITS.memory_bytes + 512 * MIB
