"""A session whose gate turned hostile: found out, ended for that reason, no other job harmed."""

import select
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.boxes import children, living, start_with
from threegate.base.errors import GateUnavailable
from threegate.sandbox import session as module
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import KIB, TOOL_LITE
from threegate.sandbox.session import Reply, Session

ASK_SECONDS = 30.0
SHORT_SECONDS = 1.0
WAIT_SECONDS = 20.0
# Echoes, until a question names what it should do instead.
GATE = """
import ctypes, os, signal, time
from threegate.sandbox.channel import CHUNK, END, HEADER, NOTE, READY, frames

def say(data):
    view = memoryview(data)
    while view:
        view = view[os.write(3, view):]

def twice_at_once():
    say(frames(b'first') + frames(b'second'))

def twice():
    say(frames(b'first'))
    say(frames(b'second'))

def garbage_behind():
    say(frames(b'first'))
    say(b'garbage')

def half_a_frame_behind():
    say(frames(b'first'))
    say(HEADER.pack(CHUNK, 100) + b'half')

def half_a_header_behind():
    say(frames(b'first') + b'\\1\\0')

def note_behind():
    say(frames(b'first'))
    time.sleep(0.05)
    say(HEADER.pack(NOTE, 2) + b'hi')

def flood_behind():
    say(frames(b'first'))
    while True:
        say(HEADER.pack(CHUNK, 1000) + bytes(1000))

def errors_behind():
    say(frames(b'first'))
    while True:
        os.write(2, bytes(4096))

def child_answers_later():
    if os.fork() == 0:
        time.sleep(0.3)
        say(frames(b'of a child'))
        time.sleep(600)
    say(frames(b'first'))

def part_and_silence():
    say(HEADER.pack(CHUNK, 100) + b'half')
    time.sleep(600)

def part_and_end():
    say(HEADER.pack(CHUNK, 5) + b'first')
    os._exit(0)

def half_a_frame_and_end():
    say(HEADER.pack(CHUNK, 100) + b'half')
    os._exit(0)

def part_and_crash():
    say(HEADER.pack(CHUNK, 5) + b'first')
    ctypes.string_at(0)

def late():
    time.sleep(30)
    say(frames(b'late'))

def flood():
    while True:
        say(HEADER.pack(CHUNK, 1000) + bytes(1000))

def note_flood():
    while True:
        say(HEADER.pack(NOTE, 8) + bytes(8))

def error_flood():
    while True:
        os.write(2, bytes(65536))

def ready_again():
    say(READY)

def unknown_kind():
    say(HEADER.pack(9, 0))

def end_with_bytes():
    say(HEADER.pack(END, 4) + b'more')

def close_and_live():
    for fd in (0, 1, 2, 3):
        os.close(fd)
    time.sleep(600)

def leave():
    say(frames(b'first'))
    os._exit(0)

def fail():
    say(frames(b'first'))
    os._exit(7)

def crash():
    say(frames(b'first'))
    os.kill(os.getpid(), signal.SIGSEGV)

def leave_a_child():
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    say(frames(b'first'))
    os._exit(0)

def stay():
    say(frames(b'first'))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)

def main():
    while (request := read_message(0, 2**24)) is not None:
        act = globals().get(request.decode('latin-1'))
        if callable(act):
            act()
        else:
            write_message(3, request)
"""


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sessions")


@pytest.fixture
def session(where: Path) -> Iterator[Session]:
    """Open a session that has answered one honest question: the control of every test here."""
    before = children()
    start = start_with(where, GATE, TOOL_LITE, output_bytes=512 * KIB)
    opened = Session.open(find_machine(), start)
    assert ask(opened, b"control").message == b"control"
    yield opened
    opened.close()
    # What an earlier test left dying is adopted here, and is none of this session's.
    assert not living(children() - before), "something of a hostile session is left"


def ask(session: Session, request: bytes, seconds: float = ASK_SECONDS) -> Reply:
    return session.ask(request, deadline_seconds=seconds)


def is_refused(session: Session) -> bool:
    """Tell whether a session takes no more questions, and says so."""
    with pytest.raises(GateUnavailable) as caught:
        ask(session, b"next")
    return caught.value.code == "TG-BOX-023" and not session.alive


def wait_until_it_spoke(session: Session, *, errors: bool = False) -> None:
    """Wait until bytes of the gate lie unread, so that what follows does not race with it."""
    stream = session._line._err if errors else session._line._out
    assert select.select([stream], [], [], WAIT_SECONDS)[0], "control: it does speak"


def wait_until_it_is_gone(session: Session) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not session._line.started.has_ended():
        assert time.monotonic() < end, "control: it does end"
        time.sleep(0.01)


DURING = {
    "twice_at_once": "protocol",
    "half_a_header_behind": "protocol",
    "part_and_silence": "deadline",
    "part_and_end": "exit",
    "half_a_frame_and_end": "protocol",
    "part_and_crash": "crashed",
    "late": "deadline",
    "flood": "output",
    "note_flood": "output",
    "error_flood": "output",
    "ready_again": "protocol",
    "unknown_kind": "protocol",
    "end_with_bytes": "protocol",
    "close_and_live": "deadline",
}


@pytest.mark.parametrize("act", DURING)
# claim TG-C-82
def test_what_is_wrong_with_an_answer_ends_the_session_and_gives_none(
    session: Session, act: str
) -> None:
    short = DURING[act] == "deadline"
    reply = ask(session, act.encode(), SHORT_SECONDS if short else ASK_SECONDS)
    assert (reply.why, reply.message, reply.sent) == (DURING[act], b"", True)
    assert is_refused(session)
    assert session.close().why == DURING[act]


BEHIND = {
    "twice": "protocol",
    "garbage_behind": "protocol",
    "half_a_frame_behind": "protocol",
    "note_behind": "protocol",
    "flood_behind": "protocol",
    "child_answers_later": "protocol",
}


def behind(session: Session, act: str) -> bool:
    """Do something behind an answer; tell whether the answer itself passed before it was seen."""
    reply = ask(session, act.encode())
    if reply.why != "done":  # it was already there when the answer was: then that one is gone, too
        assert (reply.why, reply.message, reply.sent) == ("protocol", b"", True)
        return False
    assert reply.message == b"first"
    wait_until_it_spoke(session)
    return True


@pytest.mark.parametrize("act", BEHIND)
# claim TG-C-82
def test_what_comes_behind_an_answer_is_not_taken_for_the_next(session: Session, act: str) -> None:
    if behind(session, act):
        reply = ask(session, b"an honest question")
        assert (reply.why, reply.message) == (BEHIND[act], b"")
        assert not reply.sent, "the next job is not to blame: it was not even sent"
    assert is_refused(session)
    assert session.close().why == BEHIND[act]


@pytest.mark.parametrize("act", BEHIND)
# claim TG-C-82
def test_what_comes_behind_the_last_answer_is_found_at_the_end(session: Session, act: str) -> None:
    behind(session, act)
    assert session.close().why == BEHIND[act]


# claim TG-C-82
def test_errors_behind_an_answer_stay_bounded(session: Session) -> None:
    reply = ask(session, b"errors_behind")
    if reply.why == "done":  # the flood came after the answer
        assert reply.message == b"first"
        wait_until_it_spoke(session, errors=True)
        reply = ask(session, b"next")
    assert (reply.why, reply.message) == ("output", b"")
    assert is_refused(session)
    assert len(session.close().stderr.open_for_display()) <= TOOL_LITE.stderr_bytes


# claim TG-C-82
def test_an_answer_before_the_question_is_no_answer(where: Path) -> None:
    code = GATE.replace("def main():\n", "def main():\n    say(frames(b'early'))\n")
    before = children()
    early = Session.open(find_machine(), start_with(where, code, TOOL_LITE))
    wait_until_it_spoke(early)
    reply = ask(early, b"question")
    assert (reply.why, reply.message, reply.sent) == ("protocol", b"", False)
    assert is_refused(early)
    late = Session.open(find_machine(), start_with(where, GATE, TOOL_LITE))
    assert ask(late, b"question").message == b"question", "control: nothing else was wrong"
    late.close()
    assert not living(children() - before)


# claim TG-C-82
def test_an_answer_to_half_a_question_is_no_answer(where: Path) -> None:
    """It would leave the rest of one job in front of the next."""
    deaf = "read_message(0, 2**24)", "os.read(0, 1) and say(frames(b'enough')) or time.sleep(600)"
    question, replies = bytes(2**20), []
    for code in (GATE, GATE.replace(*deaf)):
        session = Session.open(find_machine(), start_with(where, code, TOOL_LITE))
        replies.append(ask(session, question))
        session.close()
    assert replies[0].message == question, "control: a long question can be heard and answered"
    assert (replies[1].why, replies[1].message, replies[1].sent) == ("protocol", b"", True)


BETWEEN = {"leave": "exit", "fail": "exit", "crash": "crashed", "leave_a_child": "exit"}


@pytest.mark.parametrize("act", BETWEEN)
# claim TG-C-82
def test_a_gate_that_dies_between_two_jobs_takes_none_along(session: Session, act: str) -> None:
    first = ask(session, act.encode())
    assert (first.why, first.message) == ("done", b"first"), "its own job was answered"
    wait_until_it_is_gone(session)
    assert not session.alive
    reply = ask(session, b"next")
    assert (reply.why, reply.message, reply.sent) == (BETWEEN[act], b"", False)
    assert is_refused(session)


# claim TG-C-83
def test_a_gate_that_does_not_end_is_ended(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.5)
    assert ask(session, b"stay").message == b"first"
    assert session.close().why == "deadline"
