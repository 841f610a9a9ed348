"""A waiting process serves one job; nothing of a job meets the next one."""

import inspect
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.boxes import children, living, start_with
from threegate.base.errors import GateUnavailable
from threegate.sandbox import launch
from threegate.sandbox.box import Start
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import FETCH_NORMALIZE, MIB, PROFILES, TOOL_LITE, Profile
from threegate.sandbox.session import GateAnswer, Prestarted, run_gate

# Looks for what an earlier job may have left, then leaves everything it can itself.
LEAVER = """
import builtins, json, os, sys, threading
MARKS = []
def main():
    job = read_message(0, 1000).decode()
    found = {
        'global': list(MARKS),
        'builtin': getattr(builtins, 'mark', None),
        'module': getattr(sys, 'mark', None),
        'environment': os.environ.get('MARK'),
        'putenv': sorted(k for k in os.environ if k not in ('LANG', 'LD_LIBRARY_PATH', 'PWD')),
        'file': sorted(os.listdir('/tmp')) if os.path.isdir('/tmp') else None,
        'threads': threading.active_count(),
        'pid': os.getpid(),
        'processes': alive(),
        'stdin': os.read(0, 100).decode(),
    }
    MARKS.append(job)
    builtins.mark = sys.mark = job
    os.environ['MARK'] = job
    if found['file'] is not None:
        with open('/tmp/mark', 'w') as file:
            file.write(job)
    left = leave()
    write_message(3, json.dumps({**found, 'left': left}).encode())

def alive():
    count = 0
    for pid in range(2, 400):
        try:
            os.kill(pid, 0)
            count += 1
        except OSError:
            pass
    return count

def leave():
    try:
        pid = os.fork()
    except OSError as exc:
        return exc.errno
    if pid == 0:
        os.setsid()
        import time
        time.sleep(600)
    return 0
"""
ECHO = "def main():\n    write_message(3, read_message(0, 2**20))\n"


@pytest.fixture(scope="module")
def machine() -> Machine:
    return find_machine()


def said(answer: GateAnswer) -> bytes:
    with answer.message as message:
        return message.read()


def job(pool: Prestarted, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said(pool.run(name.encode())))
    return found


@pytest.mark.parametrize("profile", [FETCH_NORMALIZE, TOOL_LITE], ids=lambda p: p.name)
# claim TG-C-65
def test_a_mark_of_one_job_is_invisible_to_the_next(
    machine: Machine, tmp_path: Path, profile: Profile
) -> None:
    start = start_with(tmp_path, LEAVER, profile, scratch_bytes=MIB, file_bytes=MIB)
    with Prestarted(machine, start, 2) as pool:
        found = [job(pool, f"job{number}") for number in range(5)]
    first = found[0]
    assert first["left"] == (0 if profile.processes_may_fork else 1)  # EPERM
    for later in found:
        assert later == first, "the same as the first job saw, which had none before it"
    assert first["global"] == []
    assert first["file"] == []
    assert (first["environment"], first["builtin"], first["module"]) == (None, None, None)
    assert (first["stdin"], first["processes"]) == ("", 1)  # itself


def test_the_marks_would_be_seen_by_a_second_job_in_the_same_process(
    machine: Machine, tmp_path: Path
) -> None:
    """The control: what LEAVER leaves can be found where a process is used twice."""
    twice = LEAVER.replace("def main():", "def once(job):").replace(
        "    job = read_message(0, 1000).decode()\n", ""
    )
    twice = twice.replace("write_message(3, json.dumps({**found, 'left': left}).encode())", "")
    twice = twice.replace("    left = leave()\n", "    leave()\n    return found\n")
    code = twice + (
        "def main():\n    once('one')\n    write_message(3, json.dumps(once('two')).encode())\n"
    )
    start = start_with(tmp_path, code, TOOL_LITE, scratch_bytes=MIB, file_bytes=MIB)
    found = json.loads(said(run_gate(machine, start, b"")))
    assert found["global"] == ["one"]
    assert (found["environment"], found["builtin"], found["module"]) == ("one", "one", "one")
    assert found["file"] == ["mark"]
    assert found["processes"] == 2


# claim TG-C-65
def test_no_option_reuses_a_process() -> None:
    options = {
        *inspect.signature(Prestarted.__init__).parameters,
        *inspect.signature(Prestarted.run).parameters,
    }
    assert options == {
        *("self", "machine", "start", "size", "idle_seconds"),
        *("request", "deadline_seconds", "note", "refill"),
    }


def test_every_job_has_a_process_of_its_own(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    original = launch.start_process

    def counting(*arguments: Any) -> Any:
        found = original(*arguments)
        started.append(found.process.pid)
        return found

    monkeypatch.setattr("threegate.sandbox.session.start_process", counting)
    with Prestarted(machine, start_with(tmp_path, ECHO), 2) as pool:
        for number in range(4):
            assert said(pool.run(b"%d" % number)) == b"%d" % number
    assert len(started) == len(set(started)) == 2 + 4


def test_a_gate_that_stays_is_not_started_in_advance(machine: Machine) -> None:
    for profile in PROFILES.values():
        start = Start(profile, "threegate.sandbox.channel:echo", {})
        if profile.reuse == "one start":
            with pytest.raises(AssertionError, match="not started in advance"):
                Prestarted(machine, start, 0)
        else:
            Prestarted(machine, start, 0).close()


def waiting(pool: Prestarted) -> list[int]:
    return [started.process.pid for started in pool.waiting()]


def test_dead_processes_are_replaced(machine: Machine, tmp_path: Path) -> None:
    with Prestarted(machine, start_with(tmp_path, ECHO), 2) as pool:
        before = waiting(pool)
        for pid in before:
            os.kill(pid, 9)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and not all(
            started.has_ended() for started in pool.waiting()
        ):
            time.sleep(0.01)
        assert said(pool.run(b"still served")) == b"still served"
        assert len(waiting(pool)) == 2
        assert not set(waiting(pool)) & set(before)


def test_without_a_refill_the_next_job_starts_cold(machine: Machine, tmp_path: Path) -> None:
    with Prestarted(machine, start_with(tmp_path, ECHO), 1) as pool:
        assert said(pool.run(b"warm", refill=False)) == b"warm"
        assert waiting(pool) == []
        assert said(pool.run(b"cold")) == b"cold"
        assert len(waiting(pool)) == 1


def test_stale_processes_are_replaced(machine: Machine, tmp_path: Path) -> None:
    with Prestarted(machine, start_with(tmp_path, ECHO), 1, idle_seconds=0.0) as pool:
        before = waiting(pool)
        time.sleep(0.01)
        pool.fill()
        assert waiting(pool) != before
        assert len(waiting(pool)) == 1


def test_processes_of_changed_files_are_replaced(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Prestarted(machine, start_with(tmp_path, ECHO), 1) as pool:
        before = waiting(pool)
        pool.fill()
        assert waiting(pool) == before  # control: nothing changed
        view = launch.view_for(machine, pool._start)
        other = replace(view, mounts=view.mounts[::-1])
        monkeypatch.setattr("threegate.sandbox.session.view_for", lambda *_: other)
        pool._drop_unusable()
        assert waiting(pool) == []


def test_close_leaves_nothing_and_refuses_more(machine: Machine, tmp_path: Path) -> None:
    before = children()
    pool = Prestarted(machine, start_with(tmp_path, ECHO), 3)
    assert len(children() - before) == 3
    pool.close()
    assert not living(children() - before)
    pool.close()  # twice is once
    pool.fill()
    assert not living(children() - before)
    with pytest.raises(GateUnavailable, match="shutting down") as caught:
        pool.run(b"")
    assert caught.value.code == "TG-BOX-022"


def test_closed_at_once_it_leaves_nothing_either(machine: Machine, tmp_path: Path) -> None:
    """A box is killed while bubblewrap is still making it."""
    before = children()
    for _ in range(10):
        Prestarted(machine, start_with(tmp_path, ECHO), 1).close()
        assert not living(children() - before)


def test_a_lock_that_does_not_hold_is_reported(machine: Machine, tmp_path: Path) -> None:
    broken = start_with(tmp_path, "raise RuntimeError('no')\n")
    with Prestarted(machine, broken, 1) as pool:
        with pytest.raises(GateUnavailable, match="could not be confined") as caught:
            pool.run(b"secret")
        assert caught.value.code == "TG-BOX-021"


def test_evidence_of_a_warm_start_is_that_of_a_cold_one(machine: Machine, tmp_path: Path) -> None:
    start = start_with(tmp_path, ECHO)
    with Prestarted(machine, start, 1) as pool:
        warm = pool.run(b"")
    cold = run_gate(machine, start, b"")
    assert warm.evidence == cold.evidence
    assert said(warm) == said(cold) == b""
