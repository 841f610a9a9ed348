"""Output: nothing foreign reaches a terminal raw, in any encoding."""

import io
import json
import sys

import pytest

from threegate.base.errors import ArtifactRejected, StorageFailed, UsageError, WaitingForHuman
from threegate.host.output import Output, as_json, terminal_encoding

# Clear the screen, set the clipboard (OSC 52), C1 CSI, right-to-left override, hidden tags.
HOSTILE = "a\x1b[2Jb\x1b]52;c;ZXZpbA==\x07c\x9b31md\u202egpj.exe\U000e0041\x7f\r\u200b"


class Terminal(io.TextIOWrapper):
    """A stream in memory that may say it is a terminal."""

    def __init__(
        self, encoding: str = "utf-8", *, is_terminal: bool = False, text: str = ""
    ) -> None:
        super().__init__(io.BytesIO(text.encode(encoding)), encoding, errors="backslashreplace")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def shown(self) -> bytes:
        self.flush()
        raw = self.buffer
        assert isinstance(raw, io.BytesIO)
        return raw.getvalue()


def outputs(
    encoding: str = "utf-8", *, terminal: bool = False, typed: str = ""
) -> tuple[Output, Terminal, Terminal]:
    out, err = (Terminal(encoding, is_terminal=terminal) for _ in range(2))
    return Output(out, err, Terminal(is_terminal=terminal, text=typed)), out, err


def is_printable(data: bytes, encoding: str) -> bool:
    text = data.decode(encoding)
    return all(c == "\n" or c.isprintable() for c in text)


def test_control_the_hostile_text_is_hostile() -> None:
    assert not is_printable(HOSTILE.encode(), "utf-8")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "iso8859-1", "iso8859-15"])
# claim TG-C-16
def test_every_way_to_print_spells_controls_out(encoding: str) -> None:
    output, out, err = outputs(encoding)
    output.line(HOSTILE)
    output.foreign(f"one\n{HOSTILE}\n\ttwo")
    output.table(("ID", "TITLE"), [("x", HOSTILE)])
    output.fields([("title", HOSTILE)])
    output.text(HOSTILE)
    output.document({"title": HOSTILE, HOSTILE: 1})
    output.note(HOSTILE)
    output.error(ArtifactRejected(HOSTILE, hint=HOSTILE))
    output.trace(HOSTILE)
    for stream in (out, err):
        assert b"u{1b}" in stream.shown(), "control: it was printed at all"
        assert is_printable(stream.shown(), encoding)


# claim TG-C-16
def test_progress_and_questions_on_a_terminal_spell_controls_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("threegate.host.output.PROGRESS_SECONDS", 0)
    output, _, err = outputs(terminal=True, typed="n\n")
    with output.progress(HOSTILE) as show:
        show(1)
    with output.board({"TERM": "xterm"}) as draw:
        draw([HOSTILE])
    assert not output.confirm(HOSTILE)
    shown = err.shown()
    assert shown.count(b"u{1b}") >= 3, "control: all of it was shown"
    for own in (b"\x1b[1A\x1b[J", b"\r"):
        assert own in shown, "control: it was drawn and erased"
        shown = shown.replace(own, b"")
    assert is_printable(shown, "utf-8")


def test_a_line_stays_one_line() -> None:
    output, out, _ = outputs()
    output.line("rp-1 ok\nthreegate: error: forged")
    assert out.shown() == b"rp-1 ok\\u{a}threegate: error: forged\n"


def test_foreign_lines_stand_behind_a_gutter() -> None:
    output, out, _ = outputs()
    output.foreign("one\nthreegate: error: forged\n\n")
    assert out.shown().splitlines() == [
        b"    | one",
        b"    | threegate: error: forged",
        b"    |",
        b"    |",
    ]


def test_utf8_bytes_never_reach_a_terminal_of_another_encoding() -> None:
    # In UTF-8 this letter holds the byte 9B, which an 8-bit terminal obeys like ESC [.
    assert b"\x9b" in "ś".encode(), "control"
    for name, expected in [("ascii", b"\\u015b2J\n"), ("iso8859-1", b"\\u015b2J\n")]:
        output, out, _ = outputs(name)
        output.line("ś2J")
        assert out.shown() == expected


def test_letters_of_the_locale_stay_letters() -> None:
    output, out, _ = outputs("iso8859-1")
    output.line("für … ś")
    assert out.shown() == b"f\xfcr ... \\u015b\n"


@pytest.mark.parametrize(
    ("locale_says", "written"),
    [
        ("UTF-8", "utf-8"),
        ("utf8", "utf-8"),
        ("ANSI_X3.4-1968", "ascii"),
        ("ISO-8859-1", "iso8859-1"),
        ("ISO-8859-15", "iso8859-15"),
        ("ISO-2022-JP", "ascii"),  # spells letters with escape sequences
        ("SHIFT_JIS", "ascii"),
        ("no-such-encoding", "ascii"),
    ],
)
def test_only_encodings_without_surprises_are_written(locale_says: str, written: str) -> None:
    assert terminal_encoding(locale_says) == written


def test_json_is_ascii_and_exact() -> None:
    shown = as_json({"title": HOSTILE})
    assert shown.isascii()
    assert is_printable(shown.encode(), "ascii")
    assert json.loads(shown) == {"title": HOSTILE}


def test_a_table_is_aligned_and_cut_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    rows = [("rp-1", "short"), ("rp-22", "冰" * 40)]
    wide, out, _ = outputs()
    wide.table(("ID", "TITLE"), rows)
    assert out.shown().decode().splitlines() == [
        "ID     TITLE",
        "rp-1   short",
        "rp-22  " + "冰" * 40,
    ]
    narrow, out, _ = outputs(terminal=True)
    narrow.table(("ID", "TITLE"), rows)
    assert out.shown().decode().splitlines()[2] == "rp-22  " + "冰" * 10 + "..."


def test_the_last_column_goes_below_where_it_would_not_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    head, rows = ("ID", "STATE", "TITLE"), [("rp-22", "accepted", "Ice \x1b[2J of many lakes")]
    narrow, out, _ = outputs(terminal=True)
    narrow.table(head, rows)
    assert out.shown().decode().splitlines() == [
        "ID     STATE",
        "    | TITLE",
        "rp-22  accepted",
        r"    | Ice \u{1b}[2J of many...",
    ]
    piped, out, _ = outputs()
    piped.table(head, rows)
    assert len(out.shown().decode().splitlines()) == 2, "control: a pipe has all the room"


def test_raw_bytes_go_to_a_pipe_only() -> None:
    output, out, _ = outputs()
    output.bytes(b"\x1b[2J\xff")
    assert out.shown() == b"\x1b[2J\xff"
    output, out, _ = outputs(terminal=True)
    with pytest.raises(UsageError, match="not written to a terminal"):
        output.bytes(b"\x1b[2J")
    assert out.shown() == b""


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False), ("yno\n", False)],
)
def test_only_yes_is_yes(typed: str, answer: bool) -> None:
    output, _, err = outputs(terminal=True, typed=typed)
    assert output.confirm("apply?\x1b") is answer
    assert err.shown() == b"threegate: apply?\\u{1b} [y/N] "


def test_nobody_to_ask_is_not_a_yes() -> None:
    output, _, err = outputs(typed="y\n")
    with pytest.raises(WaitingForHuman) as caught:
        output.confirm("apply?")
    assert (caught.value.exit_code, err.shown()) == (75, b"")


def test_progress_is_for_terminals_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threegate.host.output.PROGRESS_SECONDS", 0.0)
    output, out, err = outputs()
    with output.progress("reading", 10) as show:
        show(3)
    assert err.shown() == b""
    output, out, err = outputs(terminal=True)
    with output.progress("reading", 10) as show:
        show(3)
        show(4)
    assert err.shown() == b"\rreading: 3 of 10\rreading: 4 of 10\r" + b" " * 16 + b"\r"
    assert out.shown() == b""


def test_long_work_says_now_and_then_how_far_it_is_where_no_terminal_is() -> None:
    output, _, err = outputs()
    with output.progress("bringing", 1000, noted=4) as show:
        for done in range(0, 1001, 10):
            show(done)
    told = [f"threegate: bringing: {done} of 1000\n" for done in (250, 500, 750, 1000)]
    assert err.shown().decode() == "".join(told)


def test_a_note_does_not_share_its_line_with_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threegate.host.output.PROGRESS_SECONDS", 0.0)
    output, _, err = outputs(terminal=True)
    with output.progress("reading") as show:
        show(1)
        output.note("look")
    assert err.shown().endswith(b"\r          \rthreegate: look\n")


def test_a_result_does_not_continue_the_line_of_the_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("threegate.host.output.PROGRESS_SECONDS", 0.0)
    screen = Terminal(is_terminal=True)
    output = Output(screen, screen, Terminal())
    with output.progress("admitting", 2) as show:
        show(1)
        output.line("accepted rp-1")
    assert screen.shown() == b"\radmitting: 1 of 2\r" + b" " * 17 + b"\raccepted rp-1\n"


def test_an_error_has_code_and_hint() -> None:
    output, _, err = outputs()
    output.error(StorageFailed("cannot write", hint="make room"))
    assert err.shown() == (
        b"threegate: error: cannot write [TG-DSK-001]\nthreegate: hint: make room\n"
    )


@pytest.mark.parametrize(
    ("page", "limit", "count", "total", "text"),
    [
        (1, 50, 50, 120, "showing 1-50 of 120; --page 2 for more"),
        (3, 50, 20, 120, "showing 101-120 of 120"),
        (1, 50, 0, 0, "none"),
        (9, 50, 0, 120, "nothing on page 9, 120 in all"),
    ],
)
def test_a_page_says_where_it_stands(
    page: int, limit: int, count: int, total: int, text: str
) -> None:
    output, out, _ = outputs()
    output.showing(page, limit, count, total)
    assert out.shown().decode() == text + "\n"


def test_standard_output_takes_the_encoding_of_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal("utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", Terminal("utf-8"))
    monkeypatch.setattr("locale.getencoding", lambda: "ANSI_X3.4-1968")
    Output.standard().line("ś")
    assert stream.shown() == b"\\u015b\n"


def test_a_board_shows_lines_on_a_terminal_and_is_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("threegate.host.output.PROGRESS_SECONDS", 0.0)
    output, out, err = outputs(terminal=True)
    with output.board({"TERM": "xterm"}) as show:
        show(["two of three", HOSTILE])
        output.line("a result")
        show([f"line {number}" for number in range(40)])
    shown = err.shown().decode()
    assert "two of three\n" in shown
    assert shown.endswith("\x1b[12A\x1b[J"), "no more rows than fit, and all of them erased"
    assert shown.count("\x1b[2A\x1b[J") == 1, "before the result, so that it stands alone"
    left = shown.replace("\x1b[12A\x1b[J", "").replace("\x1b[2A\x1b[J", "")
    assert is_printable(left.encode(), "utf-8"), "the text of a reference drives nothing"
    assert out.shown() == b"a result\n"


@pytest.mark.parametrize(("terminal", "kind"), [(False, "xterm"), (True, "dumb")])
def test_where_a_board_cannot_be_drawn_nothing_is(terminal: bool, kind: str) -> None:
    output, _, err = outputs(terminal=terminal)
    with output.board({"TERM": kind}) as show:
        show(["something"])
    assert err.shown() == b""
