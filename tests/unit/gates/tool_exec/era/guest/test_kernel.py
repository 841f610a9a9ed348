"""The kernel's trace of refused programs, line by line."""

from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.tool_exec.era.guest.kernel import TraceLines, refused_program

HEAD = "         prober-{0}      [000] .....    18.04: "
OPENED = HEAD + 'opened: (do_open_execat+0x0/0x1b0) name="{1}"\n'
BACK = HEAD + "{1} -> 0x{2:x}\n"
EACCES, EPERM, ENOENT = 2**64 - 13, 2**64 - 1, 2**64 - 2


def opened(process: int, name: str) -> str:
    return OPENED.format(process, name)


def back(process: int, result: int, call: str = "sys_execve") -> str:
    return BACK.format(process, call, result)


# claim TG-C-285
def test_what_was_opened_and_refused_is_named_and_nothing_else() -> None:
    text = opened(7, "/tmp/x") + back(7, EACCES) + opened(7, "/tmp/none") + back(7, ENOENT)
    text += opened(8, "/tmp/y") + back(8, EPERM, "sys_execveat") + back(8, EACCES)
    text += opened(9, "") + back(9, EACCES, "sys_execveat")
    assert TraceLines().take(text) == ["/tmp/x", "/tmp/y", "(a descriptor)"]


def test_processes_are_kept_apart_and_of_a_script_its_interpreter_is_named() -> None:
    text = opened(7, "/tmp/x") + opened(8, "/tmp/y") + opened(7, "/usr/bin/dash")
    assert TraceLines().take(text + back(8, ENOENT) + back(7, EACCES)) == ["/usr/bin/dash"]


def test_a_line_may_come_in_pieces() -> None:
    trace, text = TraceLines(), opened(7, "/tmp/x") + back(7, EACCES)
    assert [name for piece in text for name in trace.take(piece)] == ["/tmp/x"]


@given(st.text())
def test_whatever_stands_there_is_read_and_told_in_printable_words(text: str) -> None:
    for name in TraceLines().take(opened(7, text) + back(7, EACCES)):
        argument = refused_program(name)["argument"]
        assert isinstance(argument, str)
        assert 1 <= len(argument) <= 200
        assert all(" " <= c <= "~" for c in argument)
