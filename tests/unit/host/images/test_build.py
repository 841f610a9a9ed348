"""Programs among the libraries stay out of a layer."""

import struct
import subprocess
from pathlib import Path

import pytest

from threegate.host.images.build import drop_programs, is_program
from threegate.host.images.layer import Tree

PROGRAM = Path("/usr/bin/true")
LIBC = Path("/usr/lib/x86_64-linux-gnu/libc.so.6")
CODE = "int main(void) { return 0; }\n"


def compiled(place: Path, *options: str) -> Path:
    (place / "x.c").write_text(CODE, "ascii")
    made = place / "made"
    subprocess.run(["cc", *options, "-o", made, place / "x.c"], check=True)
    return made


# claim TG-C-381
def test_a_program_among_the_libraries_stays_out_of_a_layer(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    among = "usr/lib/x86_64-linux-gnu/glib-2.0/gio-querymodules"
    for path, data, executable in (
        (among, PROGRAM.read_bytes(), True),
        ("usr/lib/x86_64-linux-gnu/hidden.so", PROGRAM.read_bytes(), False),
        ("usr/lib/x86_64-linux-gnu/libc.so.6", LIBC.read_bytes(), True),
        ("usr/lib/x86_64-linux-gnu/libm.so.6", LIBC.with_name("libm.so.6").read_bytes(), False),
        ("usr/lib/python3.11/cgi.py", b"#!/usr/bin/python3", True),
        ("usr/bin/true", PROGRAM.read_bytes(), True),
    ):
        tree.add_bytes(path, data, executable=executable)
    before = {*tree.files}
    gone = ["usr/lib/x86_64-linux-gnu/glib-2.0/gio-querymodules"]
    gone.append("usr/lib/x86_64-linux-gnu/hidden.so")
    assert drop_programs(tree) == gone, "whatever its name and mode"
    assert {*tree.files} == before - {*gone}, "control: libraries, scripts and programs stay"
    assert drop_programs(tree) == []


@pytest.mark.parametrize(
    ("options", "program"),
    [
        (("-pie", "-fPIE"), True),
        (("-no-pie",), True),
        (("-static",), True),
        (("-static-pie", "-fPIE"), True),
        (("-shared", "-fPIC"), False),
    ],
)
# claim TG-C-381
def test_every_kind_of_program_is_known_from_a_library(
    options: tuple[str, ...], program: bool, tmp_path: Path
) -> None:
    made = compiled(tmp_path, *options)
    assert is_program(made) == program
    if program:
        assert subprocess.run([made], check=False).returncode == 0, "control: it runs"


def test_a_broken_head_is_no_program_and_no_error(tmp_path: Path) -> None:
    head = bytearray(PROGRAM.read_bytes()[:64])
    for number, (at, form, value) in enumerate(
        ((32, "<Q", 2**63), (54, "<HH", (0, 65535)), (54, "<HH", (65535, 65535)))
    ):
        values = value if isinstance(value, tuple) else (value,)
        broken = bytearray(head)
        struct.pack_into(form, broken, at, *values)
        made = tmp_path / str(number)
        made.write_bytes(broken)
        assert not is_program(made)
    (tmp_path / "short").write_bytes(head[:20])
    assert not is_program(tmp_path / "short")
