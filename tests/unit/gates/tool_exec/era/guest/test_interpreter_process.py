"""What the agent makes of the lines of an interpreter that runs hostile code."""

import os

import pytest

from threegate.gates.tool_exec.era.guest.interpreter_process import forget, violation

LINE = b"violation\x1fdenied_imports\x1frequests\x1f3"


def test_a_refused_import_is_told_to_the_gate() -> None:
    told = {"argument": "requests", "line": 3, "rule": "denied_imports"}
    assert violation(LINE) == told


@pytest.mark.parametrize(
    "line",
    [b"", b"proved\x1fexec", LINE + b"\x1fmore", b"violation\x1fanything\x1fx\x1f1", b"\xff" * 99],
)
def test_any_other_line_is_nobodys_business(line: bytes) -> None:
    assert violation(line) is None


def test_foreign_parts_are_cut_to_what_may_be_shown() -> None:
    odd = violation(b"violation\x1fallowed_imports\x1f\x1b[31m" + b"a" * 999 + b"\x1f-4")
    assert odd == {"argument": ("[31m" + "a" * 999)[:200], "line": 0, "rule": "allowed_imports"}
    assert violation(b"violation\x1fallowed_imports\x1f\xc3\x1f1") == {
        "argument": "?",
        "line": 1,
        "rule": "allowed_imports",
    }


def test_what_a_library_said_while_it_was_loaded_is_not_the_jobs() -> None:
    read, write = os.pipe()
    try:
        os.write(write, b"Matplotlib is building the font cache; this may take a moment.\n" * 900)
        forget(read)
        os.write(write, b"the job's own")
        assert os.read(read, 65536) == b"the job's own"
        assert os.get_blocking(read)
        forget(read)  # an empty one
    finally:
        os.close(write)
    forget(read)  # one that ended
    os.close(read)
