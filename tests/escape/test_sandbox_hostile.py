"""Owned gates against their host: each ends for the right reason, in time, and leaves nothing."""

import secrets
import signal
import subprocess
import time
from dataclasses import dataclass, replace

import pytest

from tests.support.boxes import (
    IS_ROOT,
    STARTERS,
    hostile_start,
    ordinary_uid,
    repository,
    said,
    starter,
)
from tests.support.mutation import identities, marked
from threegate.sandbox.box import Start
from threegate.sandbox.doctor import stand_ins
from threegate.sandbox.machine import find_machine, gate_uid
from threegate.sandbox.profiles import FETCH_NORMALIZE, KIB, TOOL_LITE, Profile
from threegate.sandbox.session import GateAnswer, run_gate

DEADLINE_SECONDS = 3.0
# What the host may take beyond a deadline: to kill, to reap, and for a busy machine.
GRACE_SECONDS = 8.0
SMALL = replace(FETCH_NORMALIZE, output_bytes=512 * KIB)


@dataclass(frozen=True, slots=True)
class Ran:
    answer: GateAnswer
    seconds: float
    seen_alive: int
    left: list[int]


def attacked(payload: str, profile: Profile, deadline: float = DEADLINE_SECONDS) -> Ran:
    """Run a hostile payload, and look for its processes while it runs and after."""
    mark = f"mark-{secrets.token_hex(8)}"
    alive: list[int] = []

    def note(_: bytes) -> None:
        alive.extend(marked(mark) if not alive else [])

    with stand_ins() as given:
        start = hostile_start(payload, mark, profile, given)
        began = time.monotonic()
        answer = run_gate(find_machine(), start, b"{}", deadline_seconds=deadline, note=note)
    return Ran(answer, time.monotonic() - began, len(alive), marked(mark))


# payload: (why it ended, profile)
ENDINGS = {
    "garbage": ("protocol", FETCH_NORMALIZE),
    "huge_length": ("protocol", FETCH_NORMALIZE),
    "chunk_too_long": ("protocol", FETCH_NORMALIZE),
    "unknown_kind": ("protocol", FETCH_NORMALIZE),
    "ready_again": ("protocol", FETCH_NORMALIZE),
    "half_a_frame": ("protocol", FETCH_NORMALIZE),
    "half_a_header": ("protocol", FETCH_NORMALIZE),
    "two_answers": ("protocol", FETCH_NORMALIZE),
    "two_ends": ("protocol", FETCH_NORMALIZE),
    "end_with_bytes": ("protocol", FETCH_NORMALIZE),
    "output_after_end": ("protocol", FETCH_NORMALIZE),
    "no_end": ("exit", FETCH_NORMALIZE),
    "nothing": ("exit", FETCH_NORMALIZE),
    "fail": ("exit", FETCH_NORMALIZE),
    "raise_error": ("exit", FETCH_NORMALIZE),
    "escape_in_errors": ("exit", FETCH_NORMALIZE),
    "crash": ("crashed", FETCH_NORMALIZE),
    "output_flood": ("output", SMALL),
    "note_flood": ("output", SMALL),
    "error_flood": ("output", FETCH_NORMALIZE),
    "print_flood": ("output", FETCH_NORMALIZE),
    "answer_and_live": ("deadline", FETCH_NORMALIZE),
    "silence": ("deadline", FETCH_NORMALIZE),
    "drip": ("deadline", FETCH_NORMALIZE),
    "note_drip": ("deadline", FETCH_NORMALIZE),
    "close_and_live": ("deadline", FETCH_NORMALIZE),
    "deaf": ("deadline", FETCH_NORMALIZE),
    "stopped": ("deadline", FETCH_NORMALIZE),
    "fork_away_and_crash": ("crashed", TOOL_LITE),
}


@pytest.mark.parametrize("payload", ENDINGS)
# claim TG-C-63
def test_hostile_gate_is_ended_for_the_right_reason(payload: str) -> None:
    why, profile = ENDINGS[payload]
    ran = attacked(payload, profile)
    assert ran.answer.ended.ready, "its lock held when it began"
    assert ran.answer.ended.why == why, ran.answer.ended
    assert ran.seconds < DEADLINE_SECONDS + GRACE_SECONDS
    assert said(ran.answer) == b"", "half an answer is none"
    assert ran.left == [], "a process is left behind"
    assert len(ran.answer.ended.stderr.open_for_display()) <= profile.stderr_bytes


def test_processes_are_found_while_they_live() -> None:
    """Control: the search above finds bubblewrap, its init and the gate."""
    ran = attacked("note_drip", FETCH_NORMALIZE)
    assert ran.seen_alive >= 2
    ran.answer.message.close()


def test_honest_answer_passes_the_same_way() -> None:
    start = Start(FETCH_NORMALIZE, "threegate.sandbox.channel:echo", {})
    answer = run_gate(find_machine(), start, b"hello", deadline_seconds=30)
    assert (answer.ended.why, said(answer)) == ("done", b"hello")


def test_gate_that_forked_away_answers_and_leaves_nothing() -> None:
    ran = attacked("fork_away", TOOL_LITE, deadline=20)
    assert ran.answer.ended.why == "done"
    assert said(ran.answer) == b"answer"
    assert ran.left == [], "its grandchildren must die with the box"


# claim TG-C-63
def test_stderr_of_a_gate_is_kept_boxed() -> None:
    ran = attacked("escape_in_errors", FETCH_NORMALIZE)
    assert b"\x1b]0;owned" in ran.answer.ended.stderr.open_for_display(), "control: it was kept"
    assert "owned" not in repr(ran.answer.ended)
    ran.answer.message.close()


def test_note_that_raises_ends_the_gate() -> None:
    mark = f"mark-{secrets.token_hex(8)}"

    def note(_: bytes) -> None:
        raise KeyboardInterrupt

    start = hostile_start("note_drip", mark)
    with pytest.raises(KeyboardInterrupt):
        run_gate(find_machine(), start, b"", note=note)
    assert marked(mark) == []


def _hold(who: str, mark: str) -> subprocess.Popen[bytes]:
    """Start a host with a gate that stays; returns when the gate has said its one word."""
    host = starter(who).start(
        "tests.support.faults:hold",
        [mark],
        stderr=subprocess.DEVNULL,
        paths=(str(repository()),),
        env={"PATH": "/usr/bin:/bin"},
    )
    assert host.stdout
    assert host.stdout.readline() == b"alive\n"
    return host


def _end(host: subprocess.Popen[bytes]) -> None:
    host.send_signal(signal.SIGKILL)
    host.wait()
    assert host.stdin and host.stdout
    host.stdin.close()
    host.stdout.close()


@pytest.mark.parametrize("who", STARTERS)
# claim TG-C-64
def test_killed_host_takes_its_gates_along(who: str) -> None:
    mark = f"mark-{secrets.token_hex(8)}"
    host = _hold(who, mark)
    assert len(marked(mark)) >= 3, "control: host, bubblewrap and gate are found"
    _end(host)
    end = time.monotonic() + GRACE_SECONDS
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.05)
    assert marked(mark) == []


@pytest.mark.parametrize("who", STARTERS)
# claim TG-C-67
def test_gate_has_one_uid_and_no_groups_of_its_starter(who: str) -> None:
    mark = f"mark-{secrets.token_hex(8)}"
    host = _hold(who, mark)
    found = identities(mark)
    _end(host)
    ordinary = ordinary_uid()
    uid = gate_uid(FETCH_NORMALIZE.name) if who == "root" else ordinary
    assert found, "control: the gate was found"
    words = [item.split() for item in found]
    assert {word for line in words for word in line[:4]} == {str(uid)}
    if IS_ROOT:  # `hold` gave the starter groups; an ordinary user cannot leave their own
        assert {word for line in words for word in line[4:]} == {str(uid)}
