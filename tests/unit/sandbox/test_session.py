"""One box, several questions: each gets its own answer, and anything else ends the session."""

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.boxes import STARTERS, children, living, run_as, start_with
from threegate.base.errors import GateUnavailable
from threegate.sandbox import session as module
from threegate.sandbox.launch import evidence_of, view_for
from threegate.sandbox.machine import Machine, find_machine
from threegate.sandbox.profiles import KIB, MIB, PROFILES, TOOL_LITE
from threegate.sandbox.session import Reply, Session, run_gate

SERVE = """
def main():
    while (request := read_message(0, 2**24)) is not None:
        write_message(3, answer(request))
"""
ECHO = f"{SERVE}\ndef answer(request):\n    return request\n"


@pytest.fixture(scope="module")
def machine() -> Machine:
    return find_machine()


@pytest.fixture
def opened(machine: Machine, tmp_path: Path) -> Callable[..., Session]:
    """Return how to open a session with a payload; nothing of it may be left in the end."""

    def opening(code: str = ECHO, **changes: Any) -> Session:
        return Session.open(machine, start_with(tmp_path, code, TOOL_LITE, **changes))

    return opening


Opened = Callable[..., Session]


def ask(session: Session, request: bytes, seconds: float = 30) -> Reply:
    return session.ask(request, deadline_seconds=seconds)


def test_each_question_gets_its_answer(opened: Opened) -> None:
    before = children()
    with opened() as session:
        for size in (0, 1, 300 * KIB, 8 * MIB, 5):
            reply = ask(session, bytes([size % 251]) * size)
            assert (reply.why, reply.sent) == ("done", True)
            assert reply.message == bytes([size % 251]) * size
            assert session.alive
        assert children() > before, "control: the box is a child of ours"
        ended = session.close()
    assert (ended.why, ended.messages, ended.exit_code, ended.ready) == ("done", 5, 0, True)
    assert not session.alive
    assert session.close() is ended, "twice is once"
    assert not living(children() - before)


def test_evidence_is_that_of_a_single_job(machine: Machine, tmp_path: Path) -> None:
    start = start_with(tmp_path, ECHO, TOOL_LITE)
    with Session.open(machine, start) as session:
        assert session.evidence == evidence_of(machine, start, view_for(machine, start))


def test_a_lock_that_does_not_hold_opens_nothing(opened: Opened) -> None:
    before = children()
    with pytest.raises(GateUnavailable, match="could not be confined") as caught:
        opened("raise RuntimeError('no')\n")
    assert caught.value.code == "TG-BOX-021"
    assert not living(children() - before)


def test_nothing_is_sent_before_the_lock_holds(machine: Machine, tmp_path: Path) -> None:
    code = "import select\ndef look():\n    return bool(select.select([0], [], [], 0.3)[0])\n"
    tell = "raise RuntimeError(f'waits={look()}')\n"
    with pytest.raises(GateUnavailable, match="waits=False"):
        run_gate(machine, start_with(tmp_path, code + tell), b"secret")
    late = start_with(tmp_path, f"{code}def main():\n    {tell}")
    answer = run_gate(machine, late, b"secret")
    answer.message.close()
    assert b"waits=True" in answer.ended.stderr.open_for_display(), "control: then it is"


def test_a_gate_for_one_job_has_no_session(machine: Machine, tmp_path: Path) -> None:
    several = {name for name, profile in PROFILES.items() if profile.reuse == "one session"}
    assert several == {"fetch-retrieve", "git-reader", "tool-lite"}
    with pytest.raises(AssertionError, match="second job"):
        Session.open(machine, start_with(tmp_path, ECHO))


def test_the_deadline_is_of_each_question(opened: Opened) -> None:
    code = (
        f"{SERVE}import time\ndef answer(request):\n    time.sleep(float(request))\n    return b''"
    )
    before = children()
    session = opened(code)
    for _ in range(3):
        assert ask(session, b"0.4", seconds=30).why == "done"
    reply = ask(session, b"600", seconds=0.5)
    assert (reply.why, reply.message, reply.sent) == ("deadline", b"", True)
    assert not session.alive
    assert not living(children() - before)
    with pytest.raises(GateUnavailable) as caught:
        ask(session, b"0")
    assert caught.value.code == "TG-BOX-023"
    assert session.close().why == "deadline"


def test_the_profiles_deadline_holds_whatever_is_asked(opened: Opened) -> None:
    session = opened(
        f"{SERVE}import time\ndef answer(request):\n    time.sleep(600)", deadline_seconds=1
    )
    assert ask(session, b"", seconds=600).why == "deadline"


def test_output_is_limited_for_each_question(opened: Opened) -> None:
    session = opened(
        f"{SERVE}\ndef answer(request):\n    return bytes(int(request))", output_bytes=100 * KIB
    )
    for _ in range(3):
        assert len(ask(session, b"90000").message) == 90000
    reply = ask(session, b"110000")
    assert (reply.why, reply.message, session.alive) == ("output", b"", False)


def test_errors_are_limited_for_the_whole_session(opened: Opened) -> None:
    code = f"{SERVE}import os\ndef answer(request):\n    os.write(2, bytes(400))\n    return b''"
    session = opened(code, stderr_bytes=1000)
    replies = [ask(session, b"")]
    while session.alive:
        replies.append(ask(session, b""))
    assert [reply.why for reply in replies][:2] == ["done", "done"]
    assert replies[-1].why == "output"
    assert len(replies) in {3, 4}  # what is written late is found at the next question
    assert len(session.close().stderr.open_for_display()) == 1000


# claim TG-C-84
def test_a_session_has_an_end(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.MAX_ASKS == 1 + 1000
    monkeypatch.setattr(module, "MAX_ASKS", 3)
    with opened() as session:
        for _ in range(3):
            assert session.alive
            assert ask(session, b"x").message == b"x"
        assert not session.alive
        with pytest.raises(GateUnavailable) as caught:
            ask(session, b"one more")
    assert caught.value.code == "TG-BOX-023"
    assert session.close().messages == 3


def test_a_process_is_the_same_for_a_session_and_another_for_the_next(opened: Opened) -> None:
    code = f"SEEN = []\n{SERVE}\ndef answer(request):\n    SEEN.append(request)\n"
    code += "    return b' '.join(SEEN)\n"
    with opened(code) as session:
        ask(session, b"one")
        assert ask(session, b"two").message == b"one two", "which is why sessions are bounded"
    with opened(code) as session:
        assert ask(session, b"three").message == b"three"


def test_an_error_of_the_caller_ends_the_box(opened: Opened) -> None:
    before = children()
    with pytest.raises(ZeroDivisionError), opened() as session:
        _ = 1 / 0
    assert session.close().why == "interrupted"
    assert not living(children() - before)


def test_an_interrupt_ends_the_box(opened: Opened) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    left = children()
    session = opened(f"{SERVE}import time\ndef answer(request):\n    time.sleep(600)")
    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            ask(session, b"", seconds=600)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (session.alive, session.close().why) == (False, "interrupted")
    assert not living(children() - left)


def test_a_note_nobody_could_take_ends_the_box(machine: Machine, tmp_path: Path) -> None:
    code = f"{SERVE}import os\nfrom threegate.sandbox.channel import HEADER, NOTE\n"
    code += "def answer(request):\n    os.write(3, HEADER.pack(NOTE, 2) + b'hi')\n    return b''\n"
    told: list[bytes] = []

    def note(text: bytes) -> None:
        told.append(text)
        if len(told) == 2:
            raise KeyboardInterrupt

    session = Session.open(machine, start_with(tmp_path, code, TOOL_LITE), note=note)
    assert ask(session, b"").why == "done", "control: a note is no part of the answer"
    with pytest.raises(KeyboardInterrupt):
        ask(session, b"")
    assert (told, session.alive) == ([b"hi", b"hi"], False)


def test_threads_ask_sessions_of_their_own(opened: Opened) -> None:
    sessions = [opened(), opened()]  # in this thread, which lives longest
    found: dict[int, list[bytes]] = {0: [], 1: []}

    def asking(number: int) -> None:
        for count in range(50):
            found[number].append(ask(sessions[number], b"%d of %d" % (count, number)).message)
        sessions[number].close()

    threads = [threading.Thread(target=asking, args=(number,)) for number in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [b"%d of %d" % (count, n) for count in range(50)] for n in found}
    assert [session.close().why for session in sessions] == ["done", "done"]


@pytest.mark.parametrize("who", STARTERS)
# claim TG-C-83
def test_nothing_of_a_session_is_left_whoever_started_it(who: str) -> None:
    ran = run_as(who, "tests.support.boxes:leaving")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    for how in ("closed", "killed"):
        assert found[how]["alive"] >= 6, "control: children of the gate were there between jobs"
        assert found[how]["left"] == 0
    assert (found["closed"]["why"], found["killed"]["why"]) == ("done", "deadline")
    assert found["own uid"] is (who == "root")


# A question is a program for a Monty worker, which lives on until the next question.
WORKERS = """
from threegate.sandbox.payload import LAUNCHER
from pydantic_monty import Monty
ballast, held = bytearray(256 * 2**20), []
pool = Monty(binary_path=LAUNCHER, min_processes=1, max_processes=1, max_checkouts_per_worker=1)

def answer(request):
    while held:
        held.pop().__exit__(None, None, None)
    if request == b'fork':
        import os, time
        if os.fork() == 0:
            time.sleep(600)
        return b''
    program = request.decode('ascii')
    if not program:
        return b''
    checkout = pool.checkout()
    value = checkout.__enter__().feed_run(program.removeprefix('briefly '))
    if program.startswith('briefly '):
        checkout.__exit__(None, None, None)
    else:
        held.append(checkout)
    return str(value).encode('ascii')
"""
# Twice what is asked of it: the kernel counts pages in lots, larger ones with more processors.
GREEDY = b"x = 'x' * 128_000_000\nfor i in range(3_000_000): pass\nlen(x)"


def test_memory_of_a_job_is_that_of_the_programs_the_gate_started(opened: Opened) -> None:
    code = f"{WORKERS}{SERVE}".replace("    while (", "    pool.__enter__()\n    while (")
    with opened(code) as session:
        forked = ask(session, b"fork").peak_memory_bytes
        assert forked < 60 * MIB, "neither the gate nor a copy of it: a waiting worker at most"
        modest, greedy = ask(session, b"1 + 1"), ask(session, GREEDY)
        assert (modest.message, greedy.message) == (b"2", b"128000000")
        assert modest.peak_memory_bytes < 60 * MIB, "0 where it was over before the first look"
        assert 60 * MIB < greedy.peak_memory_bytes < 256 * MIB, "and without the ballast"
        after = ask(session, b"").peak_memory_bytes
        assert after < 60 * MIB, "what is left of the job before is not this one's"


def test_memory_is_looked_at_while_a_job_runs(opened: Opened) -> None:
    """What a program took shows even if it ended before the answer."""
    code = f"{WORKERS}{SERVE}".replace("    while (", "    pool.__enter__()\n    while (")
    with opened(code) as session:
        assert ask(session, b"briefly " + GREEDY).peak_memory_bytes > 60 * MIB
