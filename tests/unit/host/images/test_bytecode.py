"""What the image's Python hands back counts only as an answer to what was asked."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from threegate.base.errors import GateUnavailable
from threegate.host.images import bytecode
from threegate.host.images.bytecode import MAX_COMPILED_BYTES, compile_all
from threegate.host.images.layer import Tree

SOURCES = ("threegate/agent/a.py", "usr/lib/python3/dist-packages/b/c.py")
NONE = struct.pack("<I", 0xFFFFFFFF)


def framed(data: bytes, names: bytes = b"") -> bytes:
    """Return a compiled file and what it imports, as the box answers."""
    return struct.pack("<I", len(data)) + data + struct.pack("<I", len(names)) + names


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    found = Tree(tmp_path)
    for path in (*SOURCES, "usr/share/not/python.py", "usr/lib/python3/data.txt"):
        found.add_bytes(path, b"pass\n")
    return found


@pytest.fixture(autouse=True)
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the programs of the test, and no others."""
    monkeypatch.setattr("threegate.sandbox.programs.SEARCH", (str(tmp_path),))


def box(place: Path, answer: bytes, *, code: int = 0) -> None:
    """Make a bwrap that answers so, whatever it is asked."""
    (place / "answer").write_bytes(answer)
    program = place / "bwrap"
    text = f"#!/bin/sh\n/bin/cat >{place}/asked\n/bin/cat {place}/answer\nexit {code}\n"
    program.write_text(text, "utf-8")
    program.chmod(0o755)


def test_each_source_gets_what_was_made_of_it(tree: Tree, tmp_path: Path) -> None:
    box(tmp_path, framed(b"first") + NONE)
    assert compile_all(tree, tmp_path, tmp_path) == {"b.c": ([], [])}
    assert (tmp_path / "asked").read_text("utf-8") == "\n".join(SOURCES)
    made = "threegate/agent/__pycache__/a.cpython-311.pyc"
    assert tree.read(made) == b"first"
    assert [path for path in tree.files if path.endswith(".pyc")] == [made]


LIES = {
    "nothing": b"",
    "one of two": framed(b"first"),
    "cut": framed(b"first") + framed(b"second")[:-1],
    "one more": framed(b"first") + framed(b"second") + framed(b"third"),
    "huge names": framed(b"first")[:-4] + struct.pack("<I", MAX_COMPILED_BYTES + 1) + b"x",
    "huge": struct.pack("<I", MAX_COMPILED_BYTES + 1) + b"x",
}


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_to_something_else_is_refused(lie: str, tree: Tree, tmp_path: Path) -> None:
    box(tmp_path, LIES[lie])
    with pytest.raises(GateUnavailable, match="did not compile") as caught:
        compile_all(tree, tmp_path, tmp_path)
    assert caught.value.code == "TG-IMG-031"


def test_a_box_that_failed_has_compiled_nothing(tree: Tree, tmp_path: Path) -> None:
    right = framed(b"first") + framed(b"second")
    box(tmp_path, right)
    assert compile_all(tree, tmp_path, tmp_path), "control"
    box(tmp_path, right, code=1)
    with pytest.raises(GateUnavailable, match="did not compile"):
        compile_all(tree, tmp_path, tmp_path)


def test_a_box_that_never_answers_is_ended(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode, "SECONDS", 0.2)
    box(tmp_path, b"")
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexec /bin/sleep 3600\n", "utf-8")
    with pytest.raises(GateUnavailable, match="did not compile"):
        compile_all(tree, tmp_path, tmp_path)


def test_without_bubblewrap_nothing_is_compiled(tree: Tree, tmp_path: Path) -> None:
    with pytest.raises(GateUnavailable, match="no bwrap here") as caught:
        compile_all(tree, tmp_path, tmp_path)
    assert caught.value.code == "TG-IMG-030"


def test_what_a_file_imports_is_recorded_at_once_and_later(tree: Tree, tmp_path: Path) -> None:
    box(tmp_path, NONE + framed(b"second", b"os\nb.d\n~socket\n~os"))
    found = compile_all(tree, tmp_path, tmp_path)
    assert found == {"b.c": (["os", "b.d"], ["socket"])}


PROGRAM = """\
import os, json.decoder as d
from . import near
from ..above import thing
from .deep.er import x as y
class Body:
    import inside_class
def later():
    import socket
    from email import message
    return lambda: __import__("unseen")
try:
    import tried
except ImportError:
    pass
"""


def test_imports_are_read_out_of_the_compiled_code(tmp_path: Path) -> None:
    place = tmp_path / "usr/lib/python3/dist-packages/pack/sub"
    place.mkdir(parents=True)
    many = "".join(f"name_{number} = {number}.5\n" for number in range(400))  # long operands
    (place / "module.py").write_text(many + PROGRAM, "utf-8")
    path = "usr/lib/python3/dist-packages/pack/sub/module.py"
    program = bytecode._PROGRAM.replace("/tree/", f"{tmp_path}/")
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        input=path.encode(),
        capture_output=True,
        check=True,
    )
    (size,) = struct.unpack("<I", ran.stdout[:4])
    names = ran.stdout[4 + size + 4 :].decode().split("\n")
    assert names == sorted(
        [
            *("os", "json.decoder", "pack.sub", "pack.sub.near", "pack.above"),
            *("pack.above.thing", "pack.sub.deep.er", "pack.sub.deep.er.x", "inside_class"),
            *("tried", "~socket", "~email", "~email.message"),
        ]
    )
