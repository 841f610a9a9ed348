"""The interactive review on a real terminal: what hostile text can do there, and the way back."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.terminal import Glass, Terminal

ROOT = Path(__file__).parents[2]
ARGV = (sys.executable, "-m", "tests.support.terminal")

# Clear the screen; leave the alternate one; write to the clipboard; ask the terminal to type
# its answer; a title; C1 controls; carriage return and backspaces over what stands there.
CONTROLS = (
    "\x1b[2J\x1b[?1049l\x1b]52;c;ZXZpbA==\x07\x1b[6n\x1bP$q\x1b\\\x1b]0;title\x07\x9b31m\x90"
    "\x85\rOVERWRITE\x08\x08\x0e\x7f"
)
# Overrides of direction, invisible letters, a hidden alphabet, joiners, lone halves of pairs.
HIDDEN = "\u202egnp.exe\u2066\u200b\u200d\U000e0041\ufe0f\ufeff\u2028"
WIDE = "\u6f22\u5b57" * 40 + "\U0001f600" * 20 + "\uff21"
RIGHT_TO_LEFT = "\u05d0\u05d1\u05d2 approve \u0627\u0644 [y/N]"
STACKED = "Z\u0351\u0342\u0347a" * 30
LONG = "x" * 10_000 + "LAST"


def start(tmp_path: Path, text: str, columns: int = 80, rows: int = 24, **env: str) -> Terminal:
    (tmp_path / "text").write_bytes(text.encode("utf-8", "surrogatepass"))
    argv = (*ARGV, str(tmp_path / "text"), str(tmp_path / "log"))
    known = {"PATH": os.environ["PATH"], "TERM": "xterm", "PYTHONDONTWRITEBYTECODE": "1"}
    return Terminal(argv, {**known, **env}, ROOT, columns=columns, rows=rows)


def everywhere(terminal: Terminal) -> None:
    """Go through every view there is, and decide."""
    terminal.until("requests waiting")
    terminal.type("\r")
    terminal.until("1 | first", "seen")
    terminal.type("/OVER\r")
    terminal.type("o")
    terminal.until("Esc back", "1 | first")
    terminal.type("\x1b[F")
    terminal.until("the end")
    terminal.type("q")
    terminal.until("seen", without="Esc back")
    terminal.type("g" + " " * 600)
    terminal.until("the end", "all seen")
    terminal.type("a")
    terminal.until("y sign")
    terminal.type("n")
    terminal.until("not approved")
    terminal.type("dno\r")
    terminal.until("nothing waits", "denied no")
    terminal.type("q")


@pytest.mark.parametrize("columns", [80, 40, 23])
@pytest.mark.parametrize(
    "text",
    [CONTROLS, HIDDEN, WIDE, RIGHT_TO_LEFT, STACKED, LONG, "\ud800\udfff\x1b[31m"],
    ids=["controls", "hidden", "wide", "right-to-left", "stacked", "long", "halves"],
)
# claim TG-C-16
def test_hostile_text_draws_itself_and_nothing_else(
    tmp_path: Path, text: str, columns: int
) -> None:
    control = Glass(80, 24)
    control.feed(CONTROLS)
    assert control.foreign, "control: the reader of this test finds foreign sequences"
    with start(tmp_path, f"first\n{text}\nlast", columns) as terminal:
        everywhere(terminal)
        assert terminal.end() == 0
    assert terminal.glass.foreign == []
    assert (tmp_path / "log").read_text() == "denied no"
    raw = (tmp_path / "text").read_bytes()
    assert text.encode("utf-8", "surrogatepass") in raw, "control: that is what it was given"


@pytest.mark.parametrize("columns", [80, 40])
def test_ten_thousand_columns_can_be_read_to_the_last(tmp_path: Path, columns: int) -> None:
    with start(tmp_path, LONG, columns) as terminal:
        terminal.until("requests waiting")
        terminal.type("\r")
        terminal.until("not seen yet")
        terminal.type("G")
        shown = terminal.until("the end")
        rows = shown.split("\n")
        assert "LAST" in "".join(row.partition(": ")[2] for row in rows)
        assert all(len(row) <= columns for row in rows)
        terminal.type("a")
        terminal.until("not on screen yet")
        terminal.type("q")
        assert terminal.end() == 0


def test_wide_and_stacked_characters_do_not_move_the_frame(tmp_path: Path) -> None:
    with start(tmp_path, f"{WIDE}\n{STACKED}\n{RIGHT_TO_LEFT}", 40) as terminal:
        terminal.until("requests waiting")
        terminal.type("\r")
        rows = terminal.until("all seen").split("\n")
        assert rows[0].startswith(" tr-0123456789ab  1 of 1  code")
        assert rows[1].startswith("   1 | \u6f22")
        assert rows[2].startswith("     : ")
        assert rows[-1].startswith(" a yes")
        terminal.type("q")
        assert terminal.end() == 0


def test_an_ascii_terminal_gets_ascii(tmp_path: Path) -> None:
    with start(tmp_path, WIDE, TEST_ENCODING="ascii") as terminal:
        terminal.until("requests waiting")
        terminal.type("\r")
        terminal.until("\\u{6f22}\\u{5b57}")
        terminal.type(" " * 50)
        terminal.until("\\u{1f600}\\u{ff21}", "all seen")
        terminal.type("q")
        assert terminal.end() == 0
    assert terminal.sent.isascii()


def test_no_color_means_no_colour(tmp_path: Path) -> None:
    looks = {}
    for setting in ("", "1"):
        with start(tmp_path, "text", NO_COLOR=setting) as terminal:
            terminal.until("requests waiting")
            terminal.type("\r")
            terminal.until("the end")
            terminal.type("q")
            assert terminal.end() == 0
        looks[setting] = terminal.glass.looks
    assert "32" in looks[""], "control"
    assert looks["1"] <= {"0", "1", "7"}


def test_a_new_size_is_drawn_at_once_and_keeps_the_place(tmp_path: Path) -> None:
    text = "\n".join(f"line {n} {'x' * 50}" for n in range(200))
    with start(tmp_path, text) as terminal:
        terminal.until("requests waiting")
        terminal.type("\r")
        terminal.until("line 0 ")
        terminal.type("/line 77\r")
        terminal.until("line 77 x", "line 90 x")
        terminal.resize(40, 12)
        rows = terminal.until(" a yes", without="line 90 x").split("\n")
        assert len(rows) == 12
        assert rows[1].startswith("  78 | line 77 x")
        terminal.type("q")
        assert terminal.end() == 0


# -- the way back ------------------------------------------------------------------------------


@pytest.fixture
def at_the_question(tmp_path: Path) -> Iterator[Terminal]:
    with start(tmp_path, "raise \x1b[2J") as terminal:
        terminal.until("requests waiting")
        terminal.type("\r")
        terminal.until("all seen")
        terminal.type("a")
        terminal.until("approve tr-0123456789ab?")
        assert terminal.mode() != terminal.mode_before, "control: the terminal is taken"
        yield terminal


def given_back(terminal: Terminal) -> None:
    assert terminal.mode() == terminal.mode_before
    assert not terminal.glass.alternate
    last = {name: terminal.sent.rfind(f"\x1b[?{name}".encode()) for name in ("7h", "25h", "2004l")}
    assert min(last.values()) > terminal.sent.rfind(b"\x1b[?7l"), "wrapping, cursor and paste"


def test_quitting_gives_the_terminal_back(at_the_question: Terminal) -> None:
    at_the_question.type("n")
    at_the_question.until("not approved")
    at_the_question.type("q")
    assert at_the_question.end() == 0
    given_back(at_the_question)


def test_ctrl_c_gives_the_terminal_back(at_the_question: Terminal) -> None:
    at_the_question.type("\x03")
    assert at_the_question.end() == 130
    given_back(at_the_question)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back(at_the_question: Terminal, number: int) -> None:
    at_the_question.signal(number)
    assert at_the_question.end() == 128 + number
    given_back(at_the_question)


def test_a_bug_gives_the_terminal_back(at_the_question: Terminal) -> None:
    at_the_question.type("y")
    assert at_the_question.end() == 1
    given_back(at_the_question)
    assert re.search(rb"RuntimeError", at_the_question.sent), "control: it was the bug"


# claim TG-C-110
def test_what_was_typed_before_the_question_does_not_answer_it(tmp_path: Path) -> None:
    with start(tmp_path, "text") as terminal:
        terminal.until("requests waiting")
        terminal.type("\r")
        terminal.until("all seen")
        terminal.type("ay")  # in one breath: nobody read the question
        terminal.until("approve tr-0123456789ab?")
        terminal.type("\x1b[200~y\x1b[201~")  # a paste is nobody's answer either
        terminal.type("\x1b[C")
        terminal.until("uses      2")
        assert not (tmp_path / "log").exists()
        terminal.type("y")
        terminal.until("approved 2 3600")
        terminal.type("q")
        assert terminal.end() == 0
