"""The terminal: taken, drawn on, and given back as it was found."""

import os
import re
import select
import signal
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from fcntl import ioctl
from struct import pack

import pytest

from threegate.base.errors import UsageError, WaitingForHuman
from threegate.host.review.parts import StyledSpan
from threegate.host.review.terminal import screen as module
from threegate.host.review.terminal.screen import ENTER, LEAVE, Key, Screen, refuse_unfit

HOSTILE = "a\x1b[2J\x1b]52;c;ZXZpbA==\x07\x9b31m\u202e\x7f\r\u200b"


@dataclass
class Pty:
    """Both ends of a terminal."""

    far: int
    near: int

    def shown(self) -> bytes:
        found = b""
        while select.select([self.far], [], [], 0.05)[0]:
            found += os.read(self.far, 65536)
        return found

    def mode(self) -> list[object]:
        return termios.tcgetattr(self.near)

    def screen(self, *, encoding: str = "utf-8", colour: bool = True) -> Screen:
        return Screen(self.near, self.near, encoding=encoding, colour=colour)


@pytest.fixture
def terminal() -> Iterator[Pty]:
    far, near = os.openpty()
    ioctl(near, termios.TIOCSWINSZ, pack("HHHH", 24, 80, 0, 0))
    yield Pty(far, near)
    os.close(far)
    os.close(near)


def test_taking_and_giving_back(terminal: Pty) -> None:
    before = terminal.mode()
    screen = terminal.screen()
    with screen.listening():
        screen.enter()
        assert terminal.mode() != before, "control: it was taken"
        screen.leave()
    assert terminal.mode() == before
    assert terminal.shown() == (ENTER + LEAVE).encode()


def test_leaving_twice_is_leaving_once(terminal: Pty) -> None:
    screen = terminal.screen()
    with screen.listening():
        screen.enter()
        screen.leave()
        screen.leave()
    assert terminal.shown().count(LEAVE.encode()) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "iso8859-1"])
# claim TG-C-16
def test_whatever_a_row_holds_only_our_sequences_are_drawn(terminal: Pty, encoding: str) -> None:
    screen = terminal.screen(encoding=encoding)
    with screen.listening():
        screen.draw([(StyledSpan(HOSTILE, "bad"), StyledSpan("\u6f22"))])
    shown = terminal.shown().decode(encoding)
    rest = shown.replace("\x1b[1;1H", "").replace("\x1b[1;31m", "").replace("\x1b[0m", "")
    rest = rest.replace("\x1b[K", "").replace("\x1b[H", "")
    assert rest.isprintable()
    assert rest.startswith("a\\u{1b}[2J\\u{1b}]52;c;"), "control: the text was drawn"
    assert not HOSTILE.isprintable(), "control: the text was hostile"


def test_the_same_frame_is_not_drawn_twice(terminal: Pty) -> None:
    screen = terminal.screen()
    with screen.listening():
        screen.draw([(StyledSpan("one"),)])
        assert b"one" in terminal.shown()
        screen.draw([(StyledSpan("one"),)])
        assert terminal.shown() == b""
        screen.redraw()
        screen.draw([(StyledSpan("one"),)])
        assert b"one" in terminal.shown()


def test_without_colours_there_is_emphasis_and_no_colour(terminal: Pty) -> None:
    rows = [tuple(StyledSpan("x", style) for style in module._STYLES)]
    coloured, plain = terminal.screen(), terminal.screen(colour=False)
    with coloured.listening(), plain.listening():
        coloured.draw(rows)
        assert b"\x1b[35m" in terminal.shown(), "control"
        plain.draw(rows)
        looks = set(re.findall(rb"\x1b\[([0-9;]*)m", terminal.shown()))
    assert looks == {b"1", b"7", b"0"}


def test_keys_arrive_however_they_are_split(terminal: Pty) -> None:
    screen = terminal.screen()
    with screen.listening():
        screen.enter()
        os.write(terminal.far, b"j\x1b[A\x1b")
        assert screen.keys(5) == [Key("j", "j"), Key("up"), Key("escape")]
        assert screen.keys(0) == []
        screen.leave()


def test_what_was_typed_before_can_be_dropped(terminal: Pty) -> None:
    screen = terminal.screen()
    with screen.listening():
        screen.enter()
        os.write(terminal.far, b"y")
        assert select.select([terminal.near], [], [], 5)[0], "control: it is there to be read"
        screen.forget_typed()
        assert screen.keys(0) == []
        screen.leave()


def test_a_new_size_ends_the_waiting(terminal: Pty) -> None:
    screen = terminal.screen()
    with screen.listening():
        assert screen.size == (80, 24)
        ioctl(terminal.near, termios.TIOCSWINSZ, pack("HHHH", 10, 40, 0, 0))
        signal.raise_signal(signal.SIGWINCH)
        assert screen.keys(600) == [], "this would wait for ten minutes"
        assert screen.size == (40, 10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_unwinds(terminal: Pty, number: int) -> None:
    screen = terminal.screen()
    before = signal.getsignal(number)
    with screen.listening(), pytest.raises(SystemExit) as ended:
        signal.raise_signal(number)
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) == before


def test_a_terminal_that_is_gone_is_a_hangup() -> None:
    far, near = os.openpty()
    screen = Screen(near, near, encoding="utf-8", colour=False)
    os.close(far)
    with screen.listening(), pytest.raises(SystemExit) as ended:
        screen.keys(5)
    assert ended.value.code == 128 + signal.SIGHUP
    os.close(near)


def test_aside_the_terminal_is_as_it_was(terminal: Pty) -> None:
    before = terminal.mode()
    screen = terminal.screen()
    with screen.listening():
        screen.enter()
        with screen.aside():
            assert terminal.mode() == before
        assert terminal.mode() != before, "taken again"
        with pytest.raises(UsageError), screen.aside():
            raise UsageError("no")
        assert terminal.mode() != before, "taken again after an error that is shown"
        with pytest.raises(KeyboardInterrupt), screen.aside():
            raise KeyboardInterrupt
        assert terminal.mode() == before, "not after what ends the session"


def test_whoever_had_the_terminal_may_have_left_it_without_echo(terminal: Pty) -> None:
    before = terminal.mode()
    screen = terminal.screen()
    with screen.listening():
        screen.enter()
        with pytest.raises(KeyboardInterrupt), screen.aside():
            silent = termios.tcgetattr(terminal.near)
            silent[3] &= ~termios.ECHO
            termios.tcsetattr(terminal.near, termios.TCSANOW, silent)
            raise KeyboardInterrupt
        assert terminal.mode() != before, "control: the echo is gone"
        screen.leave()
    assert terminal.mode() == before


@pytest.mark.parametrize("term", ["dumb", "", "unknown", None])
def test_no_terminal_or_a_dumb_one_is_told_what_else_there_is(
    monkeypatch: pytest.MonkeyPatch, terminal: Pty, term: str | None
) -> None:
    environ = {} if term is None else {"TERM": term}
    with open(terminal.near, "r+b", buffering=0, closefd=False) as raw:
        monkeypatch.setattr("sys.stdin", raw)
        monkeypatch.setattr("sys.stdout", raw)
        refuse_unfit({"TERM": "xterm"})  # control
        with pytest.raises(WaitingForHuman) as caught:
            refuse_unfit(environ)
        assert "review approve ID" in caught.value.hint
        monkeypatch.setattr("sys.stdin", None)
        with pytest.raises(WaitingForHuman, match="needs a terminal"):
            refuse_unfit({"TERM": "xterm"})
